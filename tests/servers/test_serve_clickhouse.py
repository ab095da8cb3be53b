"""`venturi serve clickhouse`, `clickhouse://local`, and the handler before ClickHouse's engine."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from support.clickhouse import Server, engine, has_chdb, old_server  # noqa: F401 - a fixture
from support.flight import ServerProcess
from support.read import ONCE, ran
from support.run import command, venturi, venturi_process
from support.wait import HANG_SECONDS, wait_until
from venturi.servers.throwaway.chdb_http import CONNECTIONS, STATEMENTS, joined


def test_pieces_of_arrow_become_one_stream() -> None:
    def stream(first: int) -> bytes:
        sink = io.BytesIO()
        batch = pa.record_batch({"a": [first, first + 1], "s": ["x", None]})
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return sink.getvalue()

    whole = b"".join(bytes(piece) for piece in joined([stream(1), stream(3), stream(5)], "ArrowStream"))
    table = pa.ipc.open_stream(whole).read_all()
    assert table["a"].to_pylist() == [1, 2, 3, 4, 5, 6] and table["s"].null_count == 3
    assert whole.endswith(b"\xff\xff\xff\xff\0\0\0\0") and whole.count(b"\xff\xff\xff\xff\0\0\0\0") == 1


def test_pieces_of_rows_have_one_head() -> None:
    # Two columns; the second name is longer than a length of one byte can say.
    head = b"\x02\x01a\xc8\x01" + b"n" * 200 + b"\x05UInt8\x06String"
    pieces = [head + b"\x01\x01x", head + b"\x02\x01y"]
    found = b"".join(bytes(piece) for piece in joined(pieces, "RowBinaryWithNamesAndTypes"))
    assert found == head + b"\x01\x01x\x02\x01y"
    assert b"".join(map(bytes, joined([b"ab", b"cd"], "Native"))) == b"abcd"
    with pytest.raises(KeyError):
        list(joined([b"PAR1"], "Parquet"))


@pytest.mark.parametrize(
    "form", ["ArrowStream", "Native", "RowBinaryWithNamesAndTypes", "Parquet", "CSVWithNames"]
)
def test_whole_answers(engine: Server, form: str) -> None:  # noqa: F811
    """Streamed or not, what arrives is what the engine makes of it in one go."""
    query = "SELECT number AS n, toString(number % 7) AS s FROM numbers(300000) ORDER BY n"
    sums = "SELECT count(), sum(n), sum(length(s)) FROM "
    direct = engine.ask(f"{sums} ({query})")
    engine.ask("CREATE TABLE back (n UInt64, s String) ENGINE = Memory")
    try:
        rows = engine.post(f"{query} FORMAT {form}".encode(), {}, {})
        assert engine.post(rows, {"query": f"INSERT INTO back (n, s) FORMAT {form}"}, {}) == b""
        assert engine.ask(f"{sums} back") == direct
    finally:
        engine.ask("DROP TABLE back")


def test_the_format_that_jdbc_asks_for(engine: Server) -> None:  # noqa: F811
    headers = {"X-ClickHouse-Format": "JSONEachRow"}
    assert engine.post(b"SELECT 1 AS a", {}, headers) == b'{"a":1}\n'


def test_settings_are_a_requests_own(engine: Server) -> None:  # noqa: F811
    ask = "SELECT value FROM system.settings WHERE name = 'max_block_size'"
    usual = engine.ask(ask)
    assert engine.ask(ask, max_block_size="1234") == "1234" != usual
    assert engine.ask(ask) == usual
    for wrong, said in (
        ({"max_threadz": "1"}, "max_threadz"),
        ({"a b": "1"}, "a b"),
        ({"database": "x"}, "x"),
    ):
        with pytest.raises(AssertionError, match=rf"Code: \d+.*{said}.*version 2"):
            engine.ask("SELECT 1", **wrong)
    with pytest.raises(AssertionError, match=r"Code: 62"):
        engine.ask("SELEKT 1")
    assert engine.ask("SELECT 'a\\'b'") == "a\\'b" and engine.ask("SELECT 1 WHERE 0") == ""


def serve(*words: str) -> ServerProcess:
    return ServerProcess(
        command("serve", "clickhouse", "--port", "0", "--json", "--exit-with-parent", *words)
    )


@pytest.mark.parametrize("kind", ["server", "chdb"])
def test_served_by_hand_and_kept(kind: str, tmp_path: Path) -> None:
    if kind == "chdb":
        has_chdb()
    with old_server() if kind == "server" else contextlib.nullcontext():
        served_and_kept(kind, tmp_path)


def served_and_kept(kind: str, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    for there in (False, True):
        with serve("--engine", kind, "--data", kept, "--set", "max_threads=1") as served:
            hello = served.ready
            assert hello["software"].startswith("ClickHouse ") and hello["url"].endswith("/venturi")
            assert ("chdb" in hello["software"]) is (kind == "chdb")
            assert hello["settings"] == {"max_threads": "1"}
            words = ["--target", hello["url"], "--operation", "put", "--data", "builtin:birdstrikes"]
            words += ["--no-setup"] if there else ["--keep"]
            words += ["--rows-per-stream", "10k", "--wire-format", "native", *ONCE]
            ran(tmp_path / f"run{there}", *words)
            said = served.process.communicate()[1]
        assert served.process.returncode == 0 and not Path(hello["directory"]).exists(), said
    other = "server" if kind == "chdb" else "chdb"
    with pytest.raises(AssertionError, match=f"its tables are of --engine {kind}|not installed here"):
        serve("--engine", other, "--data", kept)


def test_what_cannot_start_says_why() -> None:
    has_chdb()
    wrong = ("--port", "0", "--engine", "chdb", "--set", "max_threadz=1")
    done = venturi_process("serve", "clickhouse", *wrong, timeout=HANG_SECONDS)
    assert done.returncode == 4 and "max_threadz" in done.stderr and "Traceback" not in done.stderr
    done = venturi("serve", "clickhouse", "--engine", "duck")
    assert done.returncode == 2 and "--engine duck: is not one of auto, server, chdb" in done.stderr


class Handled:
    """The handler before the engine, in a process that may have so much memory."""

    def __init__(self, folder: Path, memory: int) -> None:
        words = [str(folder), "--memory", str(memory)]
        module = "venturi.servers.throwaway.chdb_http"
        self.process = subprocess.Popen([sys.executable, "-m", module, *words], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        self.address = ("127.0.0.1", int(self.process.stdout.readline()))

    def send(self, statement: str) -> socket.socket:
        """A client that has asked this, and reads nothing yet."""
        client = socket.create_connection(self.address, HANG_SECONDS)
        body = statement.encode()
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        return client

    def ask(self, statement: str) -> str:
        """The answer, as a good client has it."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.address[1]}/", statement.encode())
        try:
            with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
                return str(answer.read().decode().strip())
        except urllib.error.HTTPError as refused:
            return str(refused.read().decode())

    def has(self, name: str) -> int:
        """A figure of /proc/PID/status."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(rf"{name}:\s+(\d+)", status)[0])


@pytest.fixture(scope="module")
def handled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Handled]:
    has_chdb()
    server = Handled(tmp_path_factory.mktemp("engine"), ENGINE_BYTES)
    yield server
    server.process.kill()
    server.process.communicate()


ENGINE_BYTES = 10**9
ENDLESS = "SELECT repeat('x', 1000000), number FROM numbers(1000000000000) FORMAT RowBinary"
COSTLY = (
    "SELECT length(repeat('x', 4000000000))",
    "SELECT length(groupArray(number)) FROM numbers(1000000000000)",
    f"{ENDLESS.removesuffix('RowBinary')} Parquet",
    f"SELECT {'(' * 5000}1{')' * 5000}",
    f"SELECT {'+'.join(['1'] * 400_000)}",
)


def is_abandoned(server: Handled) -> None:
    for _ in range(3 * STATEMENTS):
        with server.send(ENDLESS) as client:
            assert client.recv(1 << 20)


def many_connections(server: Handled) -> None:
    crowd = [socket.create_connection(server.address, HANG_SECONDS) for _ in range(3 * CONNECTIONS)]
    assert server.ask("SELECT 7") == "7"
    for client in crowd:
        client.close()


def costly(server: Handled) -> None:
    for statement in COSTLY:
        assert "Exception: " in server.ask(statement), statement[:60]
    for _ in range(STATEMENTS):
        # Nothing comes of it, so only a look at the connection tells that the client has left.
        server.send("SELECT sum(sqrt(number)) FROM numbers(1000000000000)").close()


def half_open(server: Handled) -> None:
    crowd = [server.send(ENDLESS) for _ in range(STATEMENTS // 2)]
    for text in (
        b"POST / HTTP/1.1\r\nHos",
        b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nSEL",
        b"P" * 60_000,
    ):
        for _ in range(CONNECTIONS):
            crowd.append(socket.create_connection(server.address, HANG_SECONDS))
            crowd[-1].sendall(text)
    assert server.ask("SELECT 7") == "7"
    for client in crowd:
        client.close()


def beside_an_upload(server: Handled) -> None:
    """Who sends rows is not the one that has been silent longest."""
    server.ask("CREATE TABLE uploaded (b UInt8) ENGINE = Memory")
    piece = b"100000\r\n" + bytes(2**20) + b"\r\n"

    def arrived(size: int) -> bool:
        kept = Path(tempfile.gettempdir()).glob("rows-*/rows")
        return size in [place.stat().st_size for place in kept]

    with socket.create_connection(server.address, HANG_SECONDS) as client:
        asked = b"POST /?query=INSERT+INTO+uploaded+FORMAT+RowBinary HTTP/1.1\r\n"
        client.sendall(asked + b"Transfer-Encoding: chunked\r\n\r\n" + piece)
        wait_until(lambda: arrived(2**20))
        crowd = [socket.create_connection(server.address, HANG_SECONDS) for _ in range(CONNECTIONS - 1)]
        client.sendall(piece)
        wait_until(lambda: arrived(2**21))
        assert server.ask("SELECT 7") == "7"
        client.sendall(b"0\r\n\r\n")
        assert b" 200 " in client.recv(4096)
    for one in crowd:
        one.close()


@pytest.mark.parametrize("attack", [is_abandoned, many_connections, costly, half_open, beside_an_upload])
def test_an_attack_harms_no_good_client(handled: Handled, attack: Callable[[Handled], None]) -> None:
    attack(handled)
    assert handled.ask("SELECT 7") == "7"
    wait_until(lambda: handled.ask("SELECT count() FROM system.processes") == "1")
    assert handled.has("VmHWM") * 1024 < ENGINE_BYTES + 800 * 2**20
    assert handled.has("Threads") < 2 * CONNECTIONS + 500


@pytest.mark.parametrize(
    "text",
    [
        b"POST / HTTP/1.1\r\n" + b"A: " + b"x" * 70_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5000000\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    ],
)
def test_a_request_that_is_too_large_ends_its_connection(handled: Handled, text: bytes) -> None:
    with socket.create_connection(handled.address, HANG_SECONDS) as client:
        client.sendall(text)
        with contextlib.suppress(ConnectionResetError):
            said = client.makefile("rb").read()
            assert said == b"" or b"too large" in said
