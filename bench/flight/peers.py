"""The processes of the bench: servers that live for the whole run, and a client process for each trial."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import shared
from support.flight import ServerProcess, serve_command

RECORD_BYTES = 32  # four int64 columns
TRIAL_SECONDS = 120
CLIENTS_AND_SERVERS = {
    "cpp/cpp": ("cpp", "cpp"),
    "venturi/cpp": ("venturi", "cpp"),
    "cpp/venturi": ("cpp", "venturi"),
    "venturi/venturi": ("venturi", "venturi"),
    "probe": ("probe", "venturi"),
}


@dataclass(frozen=True)
class Cell:
    operation: str
    streams: int
    rows_per_batch: int


class Server:
    """A server process, and how much CPU time it has used."""

    def __init__(self, command: list[str], stack: contextlib.ExitStack) -> None:
        self._process = ServerProcess(command)
        stack.callback(self._process.stop)
        self.address = self._process.address
        self.pid = int(self._process.ready["pid"])

    def cpu_ns(self) -> int:
        """The CPU time of the whole process, including threads that have ended (Linux)."""
        return time.clock_gettime_ns((~self.pid << 3) | 2)


class Peers:
    """Starts the servers that the chosen pairings need, and runs trials against them."""

    def __init__(
        self, programs: dict[str, Path], pairings: list[str], trial_bytes: int, stack: contextlib.ExitStack
    ) -> None:
        self._client = str(programs["peer_client"])
        self._trial_bytes = trial_bytes
        commands = {
            "cpp": [str(programs["peer_server"]), "--exit-with-parent"],
            "venturi": serve_command(),
        }
        needed = sorted({CLIENTS_AND_SERVERS[name][1] for name in pairings})
        self._servers = {name: Server(commands[name], stack) for name in needed}

    def trial(self, cell: Cell, pairing: str) -> shared.Line:
        """One measured transfer: the client's numbers and the server's CPU time. Raises ClientFailed."""
        client, name = CLIENTS_AND_SERVERS[pairing]
        server = self._servers[name]
        rows = self._trial_bytes // RECORD_BYTES // cell.streams
        request = {**asdict(cell), "client": client, "address": server.address, "rows_per_stream": rows}
        before = server.cpu_ns()
        found = self._cpp(request) if client == "cpp" else shared.client("bench.flight.client", request)
        found["server_cpu_ns"] = server.cpu_ns() - before
        # A probe runs for a fixed time, whatever that moves.
        if client != "probe" and found["rows"] != rows * cell.streams:
            raise shared.ClientFailed(f"{pairing} {cell}: {found['rows']} rows, not {rows * cell.streams}")
        return found

    def _cpp(self, request: shared.Line) -> shared.Line:
        names = ("address", "operation", "streams", "rows_per_batch", "rows_per_stream")
        flags = [word for name in names for word in (f"--{name.replace('_', '-')}", str(request[name]))]
        done = subprocess.run(
            [self._client, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=TRIAL_SECONDS,
        )  # fmt: skip
        if done.returncode != 0:
            raise shared.ClientFailed(done.stderr.strip() or done.stdout.strip())
        found: shared.Line = json.loads(done.stdout)
        return found
