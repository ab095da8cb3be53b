"""How a protocol puts batches into a stream of bytes, so that the relay can take one out.

A framing takes bytes as they come, in one direction of one connection, and returns them in pieces. A piece
that holds exactly one batch says so. All pieces together mean the same to the other end as what came.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

__all__ = ["FRAMINGS", "Framing", "Piece"]


@dataclass
class Piece:
    """Bytes that belong together."""

    data: bytes
    batch: bool = False
    reply: bool = False
    """The other end acknowledges something."""


class Framing(Protocol):
    rows: bool
    """Whether its pieces are rows, several to a batch."""
    ends: bool
    """Whether the end of a get is a message of its own."""

    def __init__(self, least: int, to_server: bool) -> None:
        """`least`: the least size of a batch, in bytes; `to_server`: the direction."""

    def feed(self, data: bytes) -> Iterator[Piece]: ...


class _Flight:
    """gRPC over HTTP/2: the messages of each call, each in DATA frames of its own."""

    rows, ends = False, False
    _DATA, _END, _PADDED = 0, 0x1, 0x8
    _LARGEST = 16_384
    _BODY, _HEAD = b"\xc2\x3e", 1024
    """The tag of FlightData's body, field 1000, which only a message with values has, and how far from the
    message's begin it is at most, in a batch of a few columns."""

    def __init__(self, least: int, to_server: bool) -> None:
        self._least, self._to_server = least, to_server
        self._held = b""
        self._preface = to_server
        self._messages: dict[bytes, bytearray] = {}

    def feed(self, data: bytes) -> Iterator[Piece]:
        self._held += data
        if self._preface:
            if len(self._held) < 24:
                return
            yield Piece(self._held[:24])
            self._held, self._preface = self._held[24:], False
        while len(self._held) >= 9:
            length = int.from_bytes(self._held[:3], "big")
            if len(self._held) < 9 + length:
                return
            head, body = self._held[:9], self._held[9 : 9 + length]
            self._held = self._held[9 + length :]
            if head[3] != self._DATA or head[4] & self._PADDED:
                yield Piece(head + body)
                continue
            yield from self._data(head[5:9], body, bool(head[4] & self._END))

    def _data(self, stream: bytes, body: bytes, ends: bool) -> Iterator[Piece]:
        found = self._messages.setdefault(stream, bytearray())
        found += body
        while len(found) >= 5 and len(found) >= (whole := 5 + int.from_bytes(found[1:5], "big")):
            message = bytes(found[:whole])
            del found[:whole]
            frames = [
                self._frame(stream, message[at : at + self._LARGEST]) for at in range(0, whole, self._LARGEST)
            ]
            batch = whole >= self._least and self._BODY in message[: self._HEAD]
            yield Piece(b"".join(frames), batch, not batch and not self._to_server)
        if ends:
            yield Piece(self._frame(stream, bytes(found), self._END))
            found.clear()

    def _frame(self, stream: bytes, body: bytes, flags: int = 0) -> bytes:
        return len(body).to_bytes(3, "big") + bytes((self._DATA, flags)) + stream + body


class _Charrow:
    """Flags and what belongs to them, as 64-bit integers, big endian."""

    rows, ends = False, True
    _BLOCK, _SUMMED = 11, 13

    def __init__(self, least: int, to_server: bool) -> None:
        self._to_server = to_server
        self._held = b""

    def feed(self, data: bytes) -> Iterator[Piece]:
        if self._to_server:
            yield Piece(data)
            return
        self._held += data
        while len(self._held) >= 16:
            flag, size = struct.unpack_from(">qq", self._held)
            head = 16
            if flag == self._SUMMED:
                if len(self._held) < 24:
                    return
                head, size = 24, struct.unpack_from(">q", self._held, 16)[0]
            if len(self._held) < head + size:
                return
            piece, self._held = self._held[: head + size], self._held[head + size :]
            block = flag in (self._BLOCK, self._SUMMED) and size > 0
            yield Piece(piece, block, flag == self._BLOCK and size == 0)


class _Lines:
    """Text, a point a line: OpenTSDB's. (A line of Influx has as many points as fields.)"""

    rows, ends = True, False

    def __init__(self, least: int, to_server: bool) -> None:
        self._to_server = to_server
        self._held = b""

    def feed(self, data: bytes) -> Iterator[Piece]:
        if not self._to_server:
            yield Piece(data)
            return
        *lines, self._held = (self._held + data).split(b"\n")
        for line in lines:
            yield Piece(line + b"\n", True)


FRAMINGS: dict[str, type[Framing]] = {
    "flight": _Flight,
    "charrow": _Charrow,
    "opentsdb": _Lines,
}
"""By the scheme of a system."""
