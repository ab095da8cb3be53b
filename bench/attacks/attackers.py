"""Attackers at other addresses: `python -m bench.attacks.attackers SERVER ATTACK PORT SECONDS ADDRESSES`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
import sys
import time
from typing import Any

from support.charrow_peer import ASK, BLOCK, handshake, number, query, sized

ATTACKS = {"silent": 1400, "halves": 1400, "resets": 64, "floods": 64, "heavy": 64, "tls": 1400, "shaken": 64}
"""Connections at a time of each address, four times as many upon the store. 500 a second are opened."""
TLS = ("tls", "shaken")
"""Upon a server with a certificate: handshakes that never end, and what follows one that has ended."""
CONTEXT = ssl.create_default_context()
CONTEXT.check_hostname, CONTEXT.verify_mode = False, ssl.CERT_NONE
PAUSE = 0.002
Payload = tuple[bytes, bytes, str]
"""What is sent once, what over and over, and then: `closes`, `deaf`, which reads nothing, or `slow`."""


def field(key: int, value: int) -> bytes:
    digits = [value >> shift & 0x7F | 0x80 for shift in range(0, value.bit_length(), 7)]
    return bytes([key, *digits[:-1], digits[-1] & 0x7F])


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body


def call(stream: int, method: str) -> bytes:
    fields = f":method POST :scheme http :path /arrow.flight.protocol.FlightService/{method} te trailers"
    texts = [bytes([len(word)]) + word.encode() for word in f"{fields} content-type application/grpc".split()]
    return frame(1, 4, stream, b"".join(b"\0" + a + b for a, b in zip(texts[::2], texts[1::2], strict=True)))


def got(stream: int, rows: int, batch: int) -> bytes:
    """A call with a ticket of Arrow's performance protocol."""
    perf = field(0x10, 1) + field(0x18, rows) + field(0x20, batch)
    ticket = b"\x0a" + bytes([len(perf)]) + perf + field(0x18, rows)
    text = b"\x0a" + bytes([len(ticket)]) + ticket
    return call(stream, "DoGet") + frame(0, 1, stream, b"\0" + struct.pack(">I", len(text)) + text)


def http(method: str, path: str, head: str = "", body: bytes = b"") -> bytes:
    head = head or f"Content-Length: {len(body)}\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode() + body


def only(*texts: bytes) -> list[Payload]:
    return [(text, b"", "") for text in texts]


def half(method: str, path: str) -> list[Payload]:
    """Requests of HTTP that are half, or of lengths that lie."""
    said = [("Content-Length", 10**6), ("Content-Length", 10**19), ("Transfer-Encoding", "chunked")]
    heads = (http(method, path, f"{name}: {value}\r\n", b"fffffffffffffffff\r\n") for name, value in said)
    return only(b"GET / HTTP/1.1\r\nHo", *heads)


HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 4, 2**31 - 1))
HELLO += frame(8, 0, 0, struct.pack(">I", 2**31 - 2**17))
PUT, LARGE = HELLO + call(1, "DoPut"), HELLO + got(1, 10**12, 10**6)
RESETS = HELLO + b"".join(call(k, "DoGet") + frame(3, 0, k, b"\0\0\0\x08") for k in range(1, 6001, 2))
STREAMS = HELLO + b"".join(got(k, 10**12, 100) for k in range(1, 6001, 2))
HANDS, RECORDS = handshake(), query("", "SELECT * FROM records(block_rows = 1000000)")
ASKED = number(ASK) + sized("statistics") + sized("")
TABLES = http("GET", f"/records?rows={10**12}&rows_per_batch=1000000")
COSTLY = (
    b"SELECT repeat('x', 1000000), number FROM numbers(1000000000000) FORMAT RowBinary",
    b"SELECT length(groupArray(number)) FROM numbers(1000000000000)",
)
POINT, FLUSHES = b"+a t=1\r\n:5\r\n+1\r\n", b"+FLUSH\r\n" * 100
SERIES = [b"".join(b"+m%d t=%d\r\n:1\r\n+1\r\n" % (n, k) for k in range(20_000)) for n in range(100)]
GOOD = {
    "flight": (HELLO + got(1, 1000, 100), b"grpc-status\x010"),
    "http": (http("GET", "/records?rows=1000"), b"\r\n0\r\n\r\n"),
    "charrow": (HANDS + query("", "SELECT * FROM records(rows = 1000)"), number(BLOCK) + number(0)),
    "timeseries": (POINT + FLUSHES[:8], b"+OK 1\r\n"),
    "chdb": (http("POST", "/", body=b"SELECT 7"), b"\r\n7\n"),
}
PAYLOADS: dict[str, dict[str, list[Payload]]] = {
    "flight": {
        "halves": [
            *only(HELLO + frame(1, 0, 1), PUT, PUT + frame(0, 0, 1, b"\0\xff000")),
            (PUT, frame(6, 0, 0, bytes(8)), ""),
        ],
        "resets": only(RESETS),
        "floods": [(HELLO, frame(6, 0, 0, bytes(8)) * 1000, ""), (STREAMS, b"", "")],
        "heavy": [(LARGE, b"", ""), (LARGE, b"", "deaf"), (HELLO + got(1, 10**12, 2**31 - 1), b"", "")],
    },
    "http": {
        "halves": half("PUT", "/t"),
        "resets": [(http("GET", "/records"), b"", "closes")],
        "floods": [(b"", http("GET", "/.venturi/statistics") * 100, "")],
        "heavy": [(TABLES, b"", ""), (TABLES, b"", "deaf")],
    },
    "charrow": {
        "halves": only(HANDS[:50], HANDS + RECORDS[:-10], HANDS[:24] + number(2**40)),
        "resets": [(HANDS + RECORDS, b"", "closes")],
        "floods": [(handshake(minor=2), ASKED * 100, "")],
        "heavy": [(handshake(64) + RECORDS, b"", ""), (handshake(64) + RECORDS, b"", "deaf")],
    },
    "timeseries": {
        "halves": only(b"+cpu.us", POINT[:-6], b"$99999999999\r\nx", b"+" + b"x" * 10**6),
        "resets": [(POINT, b"", "closes")],
        "floods": [(b"", FLUSHES, ""), (b"", FLUSHES, "deaf")],
        "heavy": only(*SERIES),
    },
    "chdb": {
        "halves": half("POST", "/"),
        "resets": [(http("POST", "/", body=COSTLY[0]), b"", "closes")],
        "floods": [(b"", http("POST", "/", body=b"SELECT 1") * 100, "")],
        "heavy": [(http("POST", "/", body=text), b"", then) for text in COSTLY for then in ("", "deaf")],
    },
}
with contextlib.suppress(ssl.SSLWantReadError):
    CONTEXT.wrap_bio(ssl.MemoryBIO(), hello := ssl.MemoryBIO()).do_handshake()
CLIENT, RECORD = hello.read(), b"\x16\x03\x01\x40\x00"
ALERTS, EMPTY, CHANGES = b"\x15\x03\x03\0\x02\x01\x5a", b"\x16\x03\x03\0\0", b"\x14\x03\x03\0\x01\x01"
HANDSHAKES: list[Payload] = [
    *only(b"", b"\x16", CLIENT[:100], CLIENT, RECORD + bytes(9000), TABLES, CLIENT + CLIENT),
    *((CLIENT[:k], b"", "closes") for k in (100, len(CLIENT))),
    *((first, b"\x01", "slow") for first in (RECORD, CLIENT + RECORD)),
    *((CLIENT, record * 1000, "deaf") for record in (ALERTS, EMPTY, CHANGES)),
]
for ways in PAYLOADS.values():
    shaken = [*only(b""), (b"", b"", "closes"), *ways["halves"], *ways["floods"], *ways["heavy"]]
    ways |= {"tls": HANDSHAKES, "shaken": shaken}


async def attacker(payload: Payload, due: list[float], **place: Any) -> None:
    first, again, then = payload
    while True:
        due[0] = max(due[0] + PAUSE, time.monotonic())
        await asyncio.sleep(due[0] - time.monotonic())
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", **place)
            due[1] += 1
            try:
                writer.write(first)
                await writer.drain()
                while then != "closes":
                    writer.write(again)
                    await writer.drain()
                    if then == "deaf":
                        await asyncio.sleep(0 if again else 3600)
                    elif then == "slow":
                        await asyncio.sleep(0.2)
                    elif not await reader.read(1 << 18):
                        break
            finally:
                writer.transport.abort()


async def attack(server: str, name: str, port: str, seconds: str, addresses: str) -> None:
    found, due = PAYLOADS[server].get(name, only(b"")), [0.0, 0]
    known = CONTEXT if name == "shaken" else None
    count = ATTACKS[name] * (4 if server == "timeseries" else 1)
    crowd = (
        attacker(found[k % len(found)], due, port=int(port), local_addr=(f"127.0.0.{2 + n}", 0), ssl=known)
        for n in range(int(addresses))
        for k in range(count)
    )
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.gather(*crowd), float(seconds))
    print(due[1])


if __name__ == "__main__":
    asyncio.run(attack(*sys.argv[1:]))
