"""Redis for tests: the server in PATH, or the one that tools/install-servers unpacked; and a client."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.clickhouse import _CACHE, _WRAPPER
from support.needs import require
from venturi.servers import throwaway
from venturi.servers.throwaway.redis import packed

TABLES = "KEYS venturi*"


@contextlib.contextmanager
def found() -> Iterator[None]:
    """A server is in PATH meanwhile; skips the test, or fails it, where there is none."""
    program = _CACHE / "usr" / "bin" / "redis-server"
    if shutil.which("redis-server") or not program.exists():
        require(shutil.which("redis-server"), "redis-server (tools/install-servers)")
        yield
        return
    before = os.environ["PATH"]
    with tempfile.TemporaryDirectory(prefix="venturi-redis-") as place:
        folders = [str(lib) for root in ("usr/lib", "lib") for lib in (_CACHE / root).glob("*-linux-gnu*")]
        wrapper = Path(place) / "redis-server"
        wrapper.write_text(_WRAPPER.format(libraries=os.pathsep.join(folders), program=program))
        wrapper.chmod(0o755)
        os.environ["PATH"] = place + os.pathsep + before
        try:
            yield
        finally:
            os.environ["PATH"] = before


@contextlib.contextmanager
def started(**choices: Any) -> Iterator[throwaway.ThrowawayServer]:
    with found(), throwaway.named("redis")(**choices) as server:
        yield server


class Client:
    """A connection to a server, without Venturi and without any library of Redis."""

    def __init__(self, server: throwaway.ThrowawayServer) -> None:
        host, port = server.address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 20)
        self._read = self._socket.makefile("rb")
        if (password := server.secret()) is not None:
            self.ask("AUTH", password)

    def ask(self, *words: str) -> Any:
        """A number, text as bytes, None, or a list of these. Raises AssertionError where it refuses."""
        self._socket.sendall(packed(*words))
        return self._reply()

    def _reply(self) -> Any:
        line = self._read.readline()
        kind, text = line[:1], line[1:-2]
        assert kind != b"-", text.decode()
        if kind == b"+":
            return text
        if kind == b":" or int(text) < 0:
            return int(text) if kind == b":" else None
        if kind == b"$":
            return self._read.read(int(text) + 2)[:-2]
        return [self._reply() for _ in range(int(text))]

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._read.close()
        self._socket.close()


def rows(server: throwaway.ThrowawayServer, statement: str) -> list[list[Any]]:
    """Names of keys, by `KEYS pattern`; one column of a table, by `SELECT column FROM table`; other commands
    have no rows."""
    with Client(server) as client:
        words = statement.split()
        if words[0] == "HSET":
            client.ask(*words)
            return []
        if words[0] == "KEYS":
            return [[key.decode()] for key in client.ask(*words)]
        _, column, _, table = words
        keys = client.ask("KEYS", f"{table}:*")
        return [[int(client.ask("HGET", key.decode(), column))] for key in keys]


def lose(server: throwaway.ThrowawayServer, table: str) -> None:
    """Takes a row out of a table that others write to."""
    with Client(server) as client:
        while not any(client.ask("DEL", key.decode()) for key in client.ask("KEYS", f"{table}:*")[:1]):
            pass
