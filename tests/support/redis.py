"""Redis for tests: the server in PATH, or the one that tools/install-servers unpacked; and a client."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

from support.needs import in_path
from venturi.servers import throwaway
from venturi.servers.throwaway.redis import packed

TABLES = "KEYS venturi*"


def found() -> AbstractContextManager[str]:
    """A server is in PATH as long as the block lasts."""
    return in_path("redis-server", "usr/bin/redis-server")


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
