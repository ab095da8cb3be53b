"""A few statements over Cassandra's native protocol (version 4), before any driver is at hand."""

from __future__ import annotations

import struct
from socket import socket
from types import TracebackType

from venturi.servers.throwaway import network

__all__ = ["Cql", "CqlError", "quoted"]

_VERSION = 4
_ERROR, _STARTUP, _READY, _AUTHENTICATE, _QUERY, _RESULT = 0, 1, 2, 3, 7, 8
_AUTH_RESPONSE, _AUTH_SUCCESS = 15, 16
_CONSISTENCY_ONE = 1
_ROWS = 2
_STATEMENT_SECONDS = 30.0


class CqlError(Exception):
    """The server refused; `code` is its own, as 0x0100 for bad credentials."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Cql:
    """A connection; use as a context manager. Raises OSError and CqlError."""

    def __init__(self, host: str, port: int, login: tuple[str, str] | None = None) -> None:
        self._connection: socket = network.connect(host, port)
        try:
            # DDL waits for the schema to be written.
            self._connection.settimeout(_STATEMENT_SECONDS)
            opcode, _ = self._call(_STARTUP, struct.pack("!H", 1) + _text("CQL_VERSION") + _text("3.0.0"))
            if opcode == _AUTHENTICATE:
                user, password = login or ("", "")
                token = f"\0{user}\0{password}".encode()
                self._call(_AUTH_RESPONSE, struct.pack("!i", len(token)) + token)
        except BaseException:
            self._connection.close()
            raise

    def execute(self, statement: str) -> bytes | None:
        """Runs a statement; the first row's only column, which is asked for as one column of text."""
        text = statement.encode()
        _, body = self._call(
            _QUERY, struct.pack("!i", len(text)) + text + struct.pack("!HB", _CONSISTENCY_ONE, 0)
        )
        if struct.unpack_from("!i", body)[0] != _ROWS:
            return None
        flags, columns = struct.unpack_from("!ii", body, 4)
        assert flags == 1 and columns == 1, "one column of one table"
        at = 12
        for _ in range(3):  # keyspace, table, column
            at += 2 + struct.unpack_from("!H", body, at)[0]
        at += 2  # a type without parameters
        rows, length = struct.unpack_from("!ii", body, at)
        return bytes(body[at + 8 : at + 8 + length]) if rows else None

    def _call(self, opcode: int, body: bytes) -> tuple[int, bytes]:
        self._connection.sendall(struct.pack("!BBhBi", _VERSION, 0, 0, opcode, len(body)) + body)
        _, _, _, answer, length = struct.unpack("!BBhBi", network.received(self._connection, 9))
        found = network.received(self._connection, length)
        if answer == _ERROR:
            code, size = struct.unpack_from("!iH", found)
            raise CqlError(code, found[6 : 6 + size].decode(errors="replace"))
        return answer, found

    def __enter__(self) -> Cql:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _text(value: str) -> bytes:
    return struct.pack("!H", len(value.encode())) + value.encode()


def quoted(text: str) -> str:
    """A string literal of CQL's."""
    return "'" + text.replace("'", "''") + "'"
