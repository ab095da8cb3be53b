"""What attackers say, by server and attack."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from support.charrow_peer import ASK, handshake, number, query, sized

ATTACKS = {
    **{"silent": 1400, "half heads": 1400, "half bodies": 1400},
    **{"resets": 64, "floods": 64, "heavy": 64, "lengths": 64},
}
"""Connections of each at a time; four times as many upon the store, whose connections have no threads."""


@dataclass(frozen=True)
class Payload:
    """`then`: what follows its last byte: `holds`, `closes` by a reset, or `again` from that byte on."""

    text: bytes | Callable[[int], bytes]
    then: str = "holds"
    reads: bool = True
    again: int = 0

    def bytes(self, connection: int) -> bytes:
        return self.text if isinstance(self.text, bytes) else self.text(connection)


def _field(key: int, value: int) -> bytes:
    """A number of protobuf."""
    out = bytes([key])
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def token(rows: int, batch: int) -> bytes:
    """A ticket of Arrow's performance protocol."""
    perf = _field(0x10, 1) + _field(0x18, rows) + _field(0x20, batch)
    return b"\x0a" + bytes([len(perf)]) + perf + _field(0x18, rows)


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def call(stream: int, method: str) -> bytes:
    path = f"/arrow.flight.protocol.FlightService/{method}"
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    block = b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )
    return frame(1, 4, stream, block)


def got(stream: int, rows: int, batch: int) -> bytes:
    ticket = token(rows, batch)
    message = b"\x0a" + bytes([len(ticket)]) + ticket
    return call(stream, "DoGet") + frame(0, 1, stream, b"\0" + struct.pack(">I", len(message)) + message)


WIDE = frame(4, 0, 0, struct.pack(">HI", 4, 2**31 - 1)) + frame(8, 0, 0, struct.pack(">I", 2**31 - 2**17))
HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + WIDE
STREAMS = range(1, 6001, 2)
LARGE = 10**12


def http(path: str, head: str = "", body: bytes = b"", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body


def statement(text: str) -> bytes:
    return http("/", f"Content-Length: {len(text)}\r\n", text.encode(), "POST")


def asked(text: str, encoders: int = 1) -> bytes:
    return handshake(encoders) + query("", text)


@cache
def points(connection: int, count: int = 20_000) -> bytes:
    """As many new series."""
    return b"".join(b"+m%d t=%d\r\n:1\r\n+1\r\n" % (connection, k) for k in range(count))


def of_http(unknown: str, method: str) -> dict[str, list[Payload]]:
    """Half requests, and those whose lengths lie."""
    chunked = http(unknown, "Transfer-Encoding: chunked\r\n", b"fffffffffffffffff\r\n", method)
    return {
        "silent": [Payload(b"")],
        "half heads": [Payload(b"GET / HTTP/1.1\r\nHos")],
        "half bodies": [Payload(http(unknown, "Content-Length: 1000000\r\n", b"\xff\xff\xff\xff", method))],
        "lengths": [
            Payload(http(unknown, f"Content-Length: {length}\r\n", b"x", method)) for length in (10**19, -1)
        ]
        + [Payload(chunked), Payload(b"x" * 10**6)],
    }


FLUSH = b"+FLUSH\r\n" * 1000
ENDLESS = "SELECT repeat('x', 1000000), number FROM numbers(1000000000000) FORMAT RowBinary"
COSTLY = (
    "SELECT length(repeat('x', 4000000000))",
    "SELECT length(groupArray(number)) FROM numbers(1000000000000)",
    "SELECT sum(sqrt(number)) FROM numbers(1000000000000)",
    f"SELECT {'+'.join(['1'] * 400_000)}",
    ENDLESS,
)
RECORDS = "SELECT * FROM records(block_rows = 1000000)"
PING = frame(6, 0, 0, bytes(8)) * 1000
ASKED = number(ASK) + sized("statistics") + sized("")
PAYLOADS: dict[str, dict[str, list[Payload]]] = {
    "flight": {
        "silent": [Payload(b"")],
        "half heads": [Payload(HELLO[:20]), Payload(HELLO + frame(1, 0, 1))],
        "half bodies": [Payload(HELLO + call(1, "DoPut") + frame(0, 0, 1, b"\0\0\1\0\0x"))],
        "resets": [
            Payload(HELLO + b"".join(call(k, "DoGet") + frame(3, 0, k, b"\0\0\0\x08") for k in STREAMS))
        ],
        "floods": [
            Payload(HELLO + PING, "again", again=len(HELLO)),
            Payload(HELLO + b"".join(got(k, LARGE, 100) for k in STREAMS)),
        ],
        "heavy": [
            Payload(HELLO + got(1, LARGE, 10**6)),
            Payload(HELLO + got(1, LARGE, 10**6), reads=False),
            Payload(HELLO + got(1, LARGE, 2**31 - 1)),
        ],
        "lengths": [
            Payload(HELLO + call(1, "DoPut") + frame(0, 0, 1, length + bytes(99)))
            for length in (b"\0\xff\xff\xff\xff", b"\0\x0f\xff\xff\xff", b"\1\0\0\0\1")
        ],
    },
    "http": of_http("/t", "PUT")
    | {
        "resets": [Payload(http("/records"), "closes")],
        "floods": [Payload(http("/.venturi/statistics") * 1000, "again")],
        "heavy": [
            Payload(http(f"/records?rows={LARGE}&rows_per_batch=1000000")),
            Payload(http(f"/records?rows={LARGE}&rows_per_batch=1000000"), reads=False),
            Payload(http(f"/records?rows={LARGE}&columns=10000", "Accept-Encoding: zstd\r\n")),
        ],
    },
    "charrow": {
        "silent": [Payload(b"")],
        "half heads": [Payload(handshake()[:50])],
        "half bodies": [Payload(asked(RECORDS)[:-10])],
        "resets": [Payload(asked(RECORDS), "closes")],
        "floods": [Payload(handshake(minor=2) + ASKED * 1000, "again", again=len(handshake(minor=2)))],
        "heavy": [Payload(asked(RECORDS, 64)), Payload(asked(RECORDS, 64), reads=False)],
        "lengths": [
            Payload(handshake()[:24] + number(2**40)),
            Payload(handshake() + number(0) + number(2**40)),
            Payload(handshake(2**40)),
        ],
    },
    "timeseries": {
        "silent": [Payload(b"")],
        "half heads": [Payload(b"+cpu.us")],
        "half bodies": [Payload(b"+a t=1\r\n:5")],
        "resets": [Payload(b"+a t=1\r\n:5\r\n+1\r\n", "closes")],
        "floods": [Payload(FLUSH, "again"), Payload(FLUSH, "again", reads=False)],
        "heavy": [Payload(points)],
        "lengths": [
            Payload(b"$99999999999\r\nx"),
            Payload(b"*99999999999\r\n"),
            Payload(b"+" + b"x" * 10**6),
        ],
    },
    "chdb": of_http("/", "POST")
    | {
        "resets": [Payload(statement(ENDLESS), "closes")],
        "floods": [Payload(statement("SELECT 1") * 1000, "again")],
        "heavy": [Payload(statement(text), reads=reads) for text in COSTLY for reads in (True, False)],
    },
}
