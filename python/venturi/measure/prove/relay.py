"""A TCP relay on this host. It counts and times what passes, independent of how Venturi counts, and can pass
batches on at a pace of its own, or inject a fault.

A framing says how a protocol puts batches into a stream of bytes. It takes bytes as they come, in one
direction of one connection, and returns them in pieces. A piece that holds exactly one batch says so. All
pieces together mean the same to the other end as what came.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


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
        while len(found) >= 5 and len(found) >= (length := 5 + int.from_bytes(found[1:5], "big")):
            message = bytes(found[:length])
            del found[:length]
            frames = [
                self._frame(stream, message[at : at + self._LARGEST])
                for at in range(0, length, self._LARGEST)
            ]
            batch = length >= self._least and self._BODY in message[: self._HEAD]
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


FRAMINGS: dict[str, type[Framing]] = {"flight": _Flight, "charrow": _Charrow, "opentsdb": _Lines}
"""By the scheme of a system."""


_CHUNK = 1 << 18


class Fault(str, Enum):
    """What the relay does to one batch, or to the connection."""

    FLIP = "flip"
    """One bit of its last value is turned."""
    DROP = "drop"
    DOUBLE = "double"
    WITHHOLD = "withhold"
    """It arrives, but what says so does not."""
    SWAP = "swap"
    """It changes places with the next one: no fault, because order does not matter."""
    CUT = "cut"
    """The connection ends: see `Plan.cut_after`."""


@dataclass
class Plan:
    """What the relay does besides passing on."""

    to_server: bool = True
    """In which direction batches go."""
    framing: type[Framing] | None = None
    least: int = 1
    fault: Fault | None = None
    at: int = 0
    """The number of the faulty batch, over all connections."""
    cut_after: int = 0
    """The connection ends with the data that exceeds so many bytes in that direction; it does not pass."""
    period_ns: int = 0
    """Batches are passed on at this pace."""


@dataclass
class RelayCounts:
    """What passed."""

    to_server: int = 0
    to_client: int = 0
    batches: int = 0
    rows: bool = False
    """Whether what is counted as a batch is a row."""
    done: int = 0
    """Faults injected."""
    passed_ns: list[int] = field(default_factory=list)
    """When each batch was passed on, by CLOCK_MONOTONIC."""


class Relay:
    """Use as a context manager; `port` is where it listens."""

    def __init__(self, host: str, port: int, plan: Plan) -> None:
        self._server = (host, port)
        self._plan = plan
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        self.counts = RelayCounts(rows=bool(plan.framing is not None and plan.framing.rows))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, name="venturi-relay", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            # Closing alone would not wake who waits in accept().
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            opened, self._open = self._open, []
        for one in opened:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._server, 10)
                except OSError:
                    client.close()
                    continue
                server.settimeout(None)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._lock:
                    self._open += [client, server]
                connection = _Connection(self, self._plan)
                for source, sink, to_server in ((client, server, True), (server, client, False)):
                    thread = threading.Thread(
                        target=connection.run,
                        args=(source, sink, to_server),
                        name="venturi-relay",
                        daemon=True,
                    )
                    thread.start()


class _Connection:
    """One connection through it, both directions."""

    def __init__(self, relay: Relay, plan: Plan) -> None:
        self._relay, self._plan = relay, plan
        self._held: bytes | None = None
        self._silent = False

    def run(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        counts, plan = self._relay.counts, self._plan
        framing = plan.framing(plan.least, to_server) if plan.framing is not None else None
        came = 0
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK):
                with self._relay._lock:
                    if to_server:
                        counts.to_server += len(data)
                    else:
                        counts.to_client += len(data)
                    came += len(data)
                    meant = plan.fault is Fault.CUT and to_server is plan.to_server and not counts.done
                    if cut := meant and came > plan.cut_after:
                        counts.done += 1
                if cut:
                    source.shutdown(socket.SHUT_RDWR)
                    break
                if framing is None:
                    sink.sendall(data)
                    continue
                out: list[bytes] = []
                for piece in framing.feed(data):
                    if piece.batch and to_server is plan.to_server:
                        if plan.period_ns:
                            # What came before goes before the wait.
                            sink.sendall(b"".join(out))
                            out = []
                        out.append(self._batch(piece))
                    elif not (self._silent and piece.reply):
                        out.append(piece.data)
                sink.sendall(b"".join(out))
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _batch(self, piece: Piece) -> bytes:
        """What is passed on instead of it."""
        plan, counts = self._plan, self._relay.counts
        with self._relay._lock:
            number = counts.batches
            counts.batches += 1
            if number > 0 and plan.period_ns:
                due = counts.passed_ns[0] + number * plan.period_ns
                while (left := due - time.monotonic_ns()) > 0:
                    time.sleep(left / 1e9)
            counts.passed_ns.append(time.monotonic_ns())
            if self._held is not None:
                first, self._held = self._held, None
                counts.done += 1
                return piece.data + first
            if plan.fault is None or number != plan.at:
                return piece.data
            counts.done += plan.fault is not Fault.SWAP
        if plan.fault is Fault.FLIP:
            return _flipped(piece.data)
        if plan.fault is Fault.DROP:
            return b""
        if plan.fault is Fault.DOUBLE:
            return piece.data * 2
        if plan.fault is Fault.SWAP:
            self._held = piece.data
            return b""
        self._silent = True
        return piece.data


def _flipped(data: bytes) -> bytes:
    """The data with one bit of its last value turned: the last digit of a text, so that it stays a number."""
    if data.endswith(b"\n"):
        for at in range(len(data) - 1, -1, -1):
            if chr(data[at]).isdigit() and not data[at + 1 : at + 2].isalpha():
                return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
    at = len(data) - 8
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]
