"""The processes of the bench: servers that live for the whole run, one client process a trial.

Every pairing is measured alike: a fresh client process connects, both sides get ready, the
clock of the client runs over the transfer only, rows are counted and compared.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORD_BYTES = 32  # four int64 columns


@dataclass(frozen=True)
class Cell:
    operation: str
    streams: int
    rows_per_batch: int


@dataclass(frozen=True)
class Pairing:
    """`name` is client/server; `server` is the key of the server process it talks to."""

    name: str
    client: str
    server: str


PAIRINGS = {
    "cpp/cpp": Pairing("cpp/cpp", "cpp", "cpp"),
    "venturi/cpp": Pairing("venturi/cpp", "venturi", "cpp"),
    "cpp/venturi": Pairing("cpp/venturi", "cpp", "venturi"),
    "venturi/venturi": Pairing("venturi/venturi", "venturi", "venturi"),
    "tcp": Pairing("tcp", "tcp", "tcp"),
    "probe": Pairing("probe", "probe", "venturi"),
}


class TrialFailed(RuntimeError):
    pass


class Server:
    """A server process, ready when it has printed its JSON line with the address."""

    def __init__(self, command: list[str]) -> None:
        # Its standard input stays open: Venturi's server ends when that closes.
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        try:
            ready: dict[str, Any] = json.loads(line)
            self.address: str = ready["address"].removeprefix("flight://")
            # Of somebody else's server it is not the process that we have started.
            self.pid = int(ready.get("pid", self.process.pid))
        except (ValueError, KeyError) as error:
            self.stop()
            raise SystemExit(f"error: {' '.join(command)} answered {line!r}, not its address") from error

    def cpu_ns(self) -> int:
        """CPU time of the whole process, ended threads included, in nanoseconds (Linux)."""
        return time.clock_gettime_ns((~self.pid << 3) | 2)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Bench:
    """Starts the servers that the chosen pairings need and runs trials against them."""

    def __init__(self, peers: dict[str, Path], pairings: list[str], trial_bytes: int) -> None:
        self.peers = peers
        self.trial_bytes = trial_bytes
        commands = {
            "cpp": [str(peers["peer_server"]), "--exit-with-parent"],
            "tcp": [str(peers["peer_tcp"]), "--serve", "--exit-with-parent"],
            "venturi": [
                sys.executable, "-m", "venturi", "serve", "flight",
                "--port", "0", "--json", "--exit-with-parent",
            ],
        }  # fmt: skip
        needed = sorted({PAIRINGS[name].server for name in pairings})
        self.servers: dict[str, Server] = {}
        try:
            for name in needed:
                self.servers[name] = Server(commands[name])
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        for server in self.servers.values():
            server.stop()

    def trial(self, cell: Cell, pairing: Pairing) -> dict[str, Any]:
        """One measured transfer: the client's numbers and the server's CPU time."""
        server = self.servers[pairing.server]
        command = self._client(cell, pairing, server.address)
        server_before = server.cpu_ns()
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=_environment()
        )
        if done.returncode != 0:
            raise TrialFailed(f"{pairing.name} {cell}: {done.stderr.strip() or done.stdout.strip()}")
        result = json.loads(done.stdout)
        result["server_cpu_ns"] = server.cpu_ns() - server_before
        self._check(cell, pairing, result)
        return result

    def rows_per_stream(self, cell: Cell) -> int:
        return self.trial_bytes // RECORD_BYTES // cell.streams

    def _check(self, cell: Cell, pairing: Pairing, result: dict[str, Any]) -> None:
        expected = self.rows_per_stream(cell) * cell.streams
        if pairing.client == "probe":  # fixed time, any amount
            return
        if result.get("rows", expected) != expected or result["bytes"] != expected * RECORD_BYTES:
            raise TrialFailed(f"{pairing.name} {cell}: expected {expected} rows, got {result}")

    def _client(self, cell: Cell, pairing: Pairing, address: str) -> list[str]:
        rows = self.rows_per_stream(cell)
        if pairing.client == "cpp":
            return [
                str(self.peers["peer_client"]), "--address", address,
                "--operation", cell.operation, "--streams", str(cell.streams),
                "--rows-per-batch", str(cell.rows_per_batch), "--rows-per-stream", str(rows),
            ]  # fmt: skip
        if pairing.client == "tcp":
            return [
                str(self.peers["peer_tcp"]), "--address", address,
                "--operation", cell.operation, "--streams", str(cell.streams),
                "--message-bytes", str(cell.rows_per_batch * RECORD_BYTES),
                "--bytes-per-stream", str(rows * RECORD_BYTES),
            ]  # fmt: skip
        request = {**asdict(cell), "kind": pairing.client, "address": address, "rows_per_stream": rows}
        return [sys.executable, str(HERE / "venturi_client.py"), json.dumps(request)]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
