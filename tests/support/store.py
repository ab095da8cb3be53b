"""The reference store of time series as a process, and a client that speaks to it without Venturi's own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any, Self

from support.run import environment
from venturi import _core
from venturi.cli import serving


class Store:
    """`venturi serve timeseries` on free ports, with its data in a directory that outlives it."""

    def __init__(self, data: Path, *arguments: str, **variables: str) -> None:
        self.data = data
        ports = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", "0")]
        words = [sys.executable, "-m", "venturi", "serve", "timeseries", "--data", str(data), "--json"]
        self.process = subprocess.Popen(
            [*words, *ports, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(**variables),
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.stderr.read())
        self.hello: dict[str, Any] = json.loads(line)

    def address(self, name: str) -> tuple[str, int]:
        host, _, port = self.hello["addresses"][name].rpartition(":")
        return host, int(port)

    def url(self, scheme: str = "akumuli") -> str:
        served = {"akumuli": "resp", "influx+http": "http"}.get(scheme, scheme)
        return f"{scheme}://{self.hello['addresses'][served]}"

    @property
    def flags(self) -> list[str]:
        """What `venturi run` needs to find it."""
        return ["--target", self.url(), "--http-port", str(self.address("http")[1])]

    def get(self, path: str, body: bytes | None = None) -> Any:
        """The JSON that HTTP answers."""
        host, port = self.address("http")
        with urllib.request.urlopen(f"http://{host}:{port}{path}", body, timeout=60) as answer:
            return json.load(answer)

    def post(self, path: str) -> Any:
        """The same, asked with an empty body."""
        return self.get(path, b"")

    def stats(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get("/api/stats")
        return found

    def connect(self, name: str = "resp") -> Line:
        return Line(socket.create_connection(self.address(name), 60))

    def kill(self) -> None:
        """As a crash has it: kill -9."""
        self.process.kill()
        self.process.wait(60)
        self._close()

    def stop(self) -> str:
        """Ctrl-C; what it said at the end."""
        import signal

        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        assert self.process.stderr is not None
        said = self.process.stderr.read()
        self.process.wait(60)
        self._close()
        return said

    def _close(self) -> None:
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()


class StoreInProcess(Store):
    """The same in this process, which spares the start of a Python; `settings` are those of `ServerSpec`."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.data = data
        ports = dict.fromkeys(("resp", "opentsdb", "influx", "http"), 0)
        spec = {"server": "timeseries", "data": str(data.absolute()), "host": "127.0.0.1", **ports}
        self.server = _core.serve(json.dumps({**spec, **settings}))
        self.hello = serving.statistics(self.server)

    def stop(self) -> str:
        if hasattr(self, "server"):
            self.server.stop()
            del self.server
        return ""

    def __exit__(self, *_: object) -> None:
        self.stop()


class Line:
    """A connection that writes bytes and reads lines."""

    def __init__(self, connected: socket.socket) -> None:
        self.socket = connected
        self.reader = connected.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> str:
        """The next line; empty where the store has closed."""
        return self.reader.readline().decode(errors="replace").rstrip("\r\n")

    def flush(self, command: bytes = b"+FLUSH\r\n") -> str:
        self.send(command)
        return self.answer()

    def close(self) -> None:
        self.reader.close()
        self.socket.close()


def row(second: int, *values: float, host: str = "a", metrics: str = "cpu.user|cpu.sys") -> bytes:
    """A compound row of RESP, at so many seconds of 2020."""
    head = f"+{metrics} host={host}\r\n:{1_577_836_800_000_000_000 + second * 10**9}\r\n*{len(values)}\r\n"
    return (head + "".join(f"+{value!r}\r\n" for value in values)).encode()
