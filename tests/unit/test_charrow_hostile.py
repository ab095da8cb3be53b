"""`venturi serve charrow` before clients that do wrong: errors in band, lies, halves of messages, who does
not read, and what all of them may cost."""

from __future__ import annotations

import contextlib
import itertools
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.charrow import (
    ERROR,
    HEADER,
    Partition,
    Refused,
    fresh,
    handshake,
    number,
    query,
    serving,
    sized,
)
from support.flight import Certificates, ServerProcess

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("charrow") / "small.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    return f"small={path}"


@pytest.fixture(scope="module")
def server(small: str) -> Iterator[ServerProcess]:
    """One that soon gives up."""
    with serving("--table", small, "--patience", "2s", "--stall-timeout", "2s") as running:
        yield running


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT * FROM nothing", "nothing"),
        ("SELECT z FROM small", "z"),
        ("DROP TABLE small", "the query, at character 1"),
        ("SELECT * FROM small WHERE a = 1", "at character"),
        ("SELECT * FROM records(rows = many)", "rows"),
        ("", "query"),
    ],
)
def test_errors_are_in_band_and_close(server: ServerProcess, text: str, said: str) -> None:
    with Partition(server.address) as partition:
        with pytest.raises(Refused, match=said):
            partition.table(f"wrong {text}", text)
        assert partition.closed()


def test_one_id_is_one_text(server: ServerProcess) -> None:
    identity = fresh("same")
    with Partition(server.address) as one, Partition(server.address) as other:
        one.ask(identity, "SELECT * FROM records()")
        assert one.block() is not None
        with pytest.raises(Refused, match=identity):
            other.table(identity, "SELECT * FROM small")


@pytest.mark.parametrize(
    "raw",
    [
        handshake(encoders=0),
        handshake(encoders=1025),
        handshake(encoders=-1),
        handshake(encoder="Parquet"),
        handshake(encoder_version=2),
        handshake(major=2),
        number(77),
        number(HEADER) + number(1) + number(1) + number(-1),
        number(HEADER) + number(1) + number(1) + number(2**62),
        handshake() + number(HEADER) + sized("q") + number(2**40),
        handshake() + number(HEADER) + number(-5),
        handshake() + number(99),
        handshake() + query("q" * 70_000, "SELECT * FROM small"),
        handshake()[:20],
        handshake()[:-1],
        handshake() + number(HEADER) + number(1000) + b"half an id",
        handshake() + number(HEADER) + sized("q") + number(-1),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + b" " * 64,
    ],
)
def test_lies_get_an_error_and_a_closed_connection(server: ServerProcess, raw: bytes) -> None:
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(raw)
        connection.shutdown(socket.SHUT_WR)
        said = bytearray()
        try:
            while piece := connection.recv(65536):
                said += piece
        except ConnectionResetError:
            pass
        assert struct.unpack(">q", said[:8])[0] == ERROR, bytes(said[:60])
        assert len(said) == 16 + struct.unpack(">q", said[8:16])[0]
    assert server.process.poll() is None


def trickle(connection: socket.socket, raw: bytes, limit: float = 30.0) -> bytes:
    """Sends a byte now and then until the other side closes; what it says meanwhile."""
    said = bytearray()
    until = time.monotonic() + limit
    connection.settimeout(0.05)
    for at in itertools.count():
        assert time.monotonic() < until, "it may take for ever"
        with contextlib.suppress(TimeoutError):
            try:
                piece = connection.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            said += piece
        with contextlib.suppress(OSError):
            connection.sendall(raw[at : at + 1])
    return bytes(said)


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize(
    ("begun", "rest"),
    [
        (handshake()[:24] + number(60_000), b"q" * 10_000),
        (handshake() + number(HEADER) + number(60_000), b"q" * 10_000),
        (handshake() + number(HEADER) + sized("q") + number(2**20), b"q" * 10_000),
    ],
    ids=["handshake", "query-id", "query"],
)
def test_half_a_message_is_given_up(server: ServerProcess, begun: bytes, rest: bytes, silent: bool) -> None:
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as connection:
        connection.sendall(begun)
        began = time.monotonic()
        said = trickle(connection, b"" if silent else rest)
        assert time.monotonic() - began > 0.9
        assert struct.unpack(">q", said[:8])[0] == ERROR
        assert b"to its end what it wants within 2 s" in said


def test_half_a_tls_handshake_is_given_up(small: str, certificates: Certificates) -> None:
    tls = ["--tls-certificate", str(certificates.server), "--tls-key", str(certificates.server_key)]
    with serving("--table", small, "--patience", "1s", *tls) as server:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), 10) as connection:
            # A record of 4 KiB: a client's first words, of which the rest comes byte by byte.
            connection.sendall(bytes.fromhex("16030110000100 0ffc0303"))
            began = time.monotonic()
            said = trickle(connection, b"x" * 4000)
            # Given up in time, and never let in: no word of charrow's is said before hands are shaken.
            assert 0.9 < time.monotonic() - began < 30 and number(ERROR) not in said


def test_strangers_cost_little(server: ServerProcess) -> None:
    """All they may say, and nothing to its end."""
    host, _, port = server.address.rpartition(":")
    long = "x" * 65_536
    said = handshake(client=long, database=long, user=long, password=long)
    said += number(HEADER) + sized(long) + number(2**20) + b"q" * (2**20 - 1)
    before = resident(server)
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(socket.create_connection((host, int(port)), 10))
            connection.sendall(said)
        assert resident(server) - before < 64 * 2**20


def resident(server: ServerProcess) -> int:
    pages = int(Path(f"/proc/{server.process.pid}/statm").read_text().split()[1])
    return pages * 4096


def test_a_client_that_stops_reading_holds_no_more_than_the_querys_memory() -> None:
    with serving("--query-memory", "16MiB", "--stall-timeout", "60s") as server:
        with Partition(server.address) as partition:
            partition.table("warm", "SELECT * FROM state_rows(rows = 400000, block_rows = 10000)")
        before = resident(server)
        with Partition(server.address, encoders=2) as partition:
            partition.ask("held", "SELECT * FROM state_rows(rows = 40000000, block_rows = 10000)")
            assert partition.block() is not None
            time.sleep(2.0)
            assert resident(server) - before < 120 * 2**20


def test_a_partition_that_does_not_read_fails_the_query_after_a_while(server: ServerProcess) -> None:
    text, identity = "SELECT * FROM records(block_rows = 20000)", fresh("stalled")
    with Partition(server.address) as reads, Partition(server.address) as sleeps:
        sleeps.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reads.ask(identity, text)
        sleeps.ask(identity, text)
        began = time.monotonic()
        with pytest.raises(Refused, match=r'query "stalled-\d+" failed: partition'):
            for _ in reads.blocks():
                assert time.monotonic() - began < 20
        assert time.monotonic() - began > 1.5
