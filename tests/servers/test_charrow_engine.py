"""ClickHouse's engine behind a server: what it hands over of a query, and how it ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from support.charrow import serving
from support.charrow_peer import Partition, fresh
from support.clickhouse import has_chdb
from support.flight import ServerProcess, run_trial, succeeded
from support.processes import cpu_seconds
from support.wait import HANG_SECONDS
from venturi.common.errors import VenturiError
from venturi.servers.charrow_engine import ChdbEngine


class Asked:
    """A query as the core hands it out, with a client behind it that wants so many pieces."""

    def __init__(self, text: str, wanted: int = 1_000_000, meet: threading.Barrier | None = None) -> None:
        self.id, self.text = "q", text
        self.pieces: list[bytes] = []
        self.error: str | None = None
        self.done = threading.Event()
        self._wanted, self._meet = wanted, meet

    def push(self, stream: bytes) -> bool:
        if self._meet and not self.pieces:
            self._meet.wait()
        self.pieces.append(stream)
        return len(self.pieces) < self._wanted

    def finish(self, error: str | None) -> None:
        self.error = error
        self.done.set()

    def table(self) -> pa.Table:
        self.done.wait()
        assert self.error is None, self.error
        return pa.concat_tables([pa.ipc.open_stream(piece).read_all() for piece in self.pieces])


class Server:
    """The core's side of it."""

    def __init__(self) -> None:
        self.queries: list[Asked] = []

    def next_query(self, seconds: float) -> Asked | None:
        if not self.queries:
            time.sleep(min(seconds, 0.01))
            return None
        return self.queries.pop(0)

    def ask(self, text: str, **how: Any) -> Asked:
        asked = Asked(text, **how)
        self.queries.append(asked)
        return asked


@pytest.fixture(scope="module")
def chdb() -> None:
    has_chdb()


@pytest.fixture
def server(chdb: None) -> Iterator[Server]:
    engine, server = ChdbEngine(), Server()
    engine.start(server)
    yield server
    engine.stop()


def test_a_result_comes_in_pieces_that_are_whole_streams(server: Server) -> None:
    text = "SELECT number AS n, toString(number) AS t, if(number % 7 = 0, NULL, number) AS maybe"
    text += " FROM numbers(300000)"
    asked = server.ask(text)
    table = asked.table()
    assert table.num_rows == 300_000 and len(asked.pieces) > 1
    assert table["n"].to_pylist() == list(range(300_000))
    assert table["t"][299_999].as_py() == "299999" and table["maybe"].null_count == 42_858


def test_several_queries_run_at_a_time(server: Server) -> None:
    # None gets past its first piece before all have one.
    meet = threading.Barrier(3)
    together = [server.ask("SELECT number FROM numbers(500000)", meet=meet) for _ in range(3)]
    assert [asked.table().num_rows for asked in together] == [500_000] * 3


def test_an_error_is_the_querys_answer_in_one_line(server: Server) -> None:
    early = server.ask("SELECT nothing FROM numbers(3)")
    late = server.ask("SELECT throwIf(number = 3000000) FROM numbers(5000000)")
    for asked, said in ((early, "UNKNOWN_IDENTIFIER"), (late, "throwIf")):
        asked.done.wait()
        assert asked.error is not None and said in asked.error and "\n" not in asked.error


def test_who_wants_no_more_ends_an_endless_query(server: Server) -> None:
    asked = server.ask("SELECT number FROM system.numbers", wanted=3)
    asked.done.wait()
    assert asked.error is None
    assert len(asked.pieces) == 3


def test_a_result_without_rows_has_a_schema_all_the_same(server: Server) -> None:
    asked = server.ask("SELECT number, 'x' AS s FROM numbers(10) WHERE number > 100")
    table = asked.table()
    assert table.num_rows == 0 and table.column_names == ["number", "s"]
    assert server.ask("CREATE TABLE nothing (a Int32) ENGINE = Memory").table().num_columns == 0


@pytest.mark.parametrize("end", ["", " ;\n", " -- to the end", " SETTINGS max_threads = 1"])
def test_a_result_without_rows_is_not_looked_for_twice(chdb: None, end: str) -> None:
    import chdb as module

    engine, server, connections = ChdbEngine(), Server(), list[Mock]()

    def connect(place: str) -> Mock:
        connections.append(Mock(wraps=module.connect(place)))
        return connections[-1]

    engine._chdb = SimpleNamespace(connect=connect)
    engine.start(server)
    text = f"SELECT number AS n, 'x' AS s FROM numbers(10) WHERE number > 100{end}"
    assert server.ask(text).table().column_names == ["n", "s"]
    engine.stop()
    calls = [call for connection in connections for call in connection.mock_calls]
    texts = [call.args[0] for call in calls if call[0] in ("send_query", "query")]
    assert texts.count(text) == 1
    assert texts.index(text) == len(texts) - 2 and texts[-1].endswith("LIMIT 0")


def test_a_text_that_is_no_subquery_has_a_schema_too(server: Server) -> None:
    table = server.ask("SELECT number AS n FROM numbers(10) WHERE n > 100; -- all of it").table()
    assert table.num_rows == 0 and table.column_names == ["n"]


def get(address: str, text: str) -> dict[str, Any]:
    target, options = f"charrow://{address}", {"query": text}
    # A busy machine takes its time, which is not what is measured here.
    patient = {"sample_interval_ns": 20_000_000, "timeout_ns": 120_000_000_000}
    return succeeded(run_trial(target, options=options, **patient))


def of_server(record: dict[str, Any]) -> list[float]:
    """The seconds of CPU that a record tells of its server: by its account, and by its samples."""
    told = record["cpu"]["server"], record["resources"]["server"]["process"]
    return [(one["user_ns"] + one["system_ns"]) / 1e9 for one in told]


@pytest.mark.usefixtures("core")
def test_what_the_engines_threads_use_is_the_servers(chdb: None) -> None:
    text = "SELECT max(sipHash64(number, toString(number))) AS m FROM numbers_mt(10000000)"
    with serving("--engine", "chdb") as running:
        get(running.address, "SELECT 1 AS warm")
        before = cpu_seconds(running.process.pid)
        record = get(running.address, text)
        used = cpu_seconds(running.process.pid) - before
    assert used > 0.3, "the query is to use much more than a server that only sends a row"
    for told in of_server(record):
        assert 0.8 * used - 0.1 < told < used + 0.1
    generated = record["stages"]["server"]["generate"] / 1e9
    assert 0.8 * used - 0.1 < generated < used + 0.1


IN_A_CHILD = """
import json, subprocess, sys, threading
from venturi import _core

spec = {"server": "charrow", "host": "127.0.0.1", "port": 0, "engine": "outside"}
server = _core.serve(json.dumps(spec))
print(json.dumps({"address": server.address}), flush=True)

def answer(query):
    done = subprocess.run([sys.executable, sys.argv[1], query.text], stdout=subprocess.PIPE)
    query.push(done.stdout)
    query.finish()

while True:
    query = server.next_query(0.2)
    if query is not None:
        threading.Thread(target=answer, args=(query,)).start()
"""
THE_CHILD = """
import sys, time
import pyarrow as pa

while time.process_time() < float(sys.argv[1]):
    pass
schema = pa.schema([("n", pa.int64())])
with pa.ipc.new_stream(sys.stdout.buffer, schema) as stream:
    stream.write(pa.record_batch({"n": [1, 2, 3]}, schema=schema))
"""


@pytest.mark.usefixtures("core")
def test_what_an_engine_in_a_child_process_uses_is_the_servers(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(IN_A_CHILD)
    (tmp_path / "child.py").write_text(THE_CHILD)
    with ServerProcess([sys.executable, str(tmp_path / "server.py"), str(tmp_path / "child.py")]) as running:
        record = get(running.address, "1.5")
    assert record["counts"]["rows"] == 3
    for told in of_server(record):
        assert told >= 1.4


def test_a_directory_keeps_what_was_made(chdb: None, tmp_path: Path) -> None:
    made = ("CREATE TABLE t (a Int32) ENGINE = MergeTree ORDER BY a", "INSERT INTO t VALUES (3), (1)")
    for texts in (made, ("SELECT a FROM t ORDER BY a",)):
        with (
            serving("--engine", "chdb", "--data", tmp_path / "data") as running,
            Partition(running.address, timeout=HANG_SECONDS) as partition,
        ):
            tables = [partition.table(fresh("kept"), text) for text in texts]
    assert tables[-1].to_pydict() == {"a": [1, 3]}


def test_without_chdb_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chdb", None)
    with pytest.raises(VenturiError, match="--engine chdb needs the package chdb") as raised:
        ChdbEngine()
    assert raised.value.hint is not None and "pip install 'venturi[chdb]'" in raised.value.hint


@pytest.mark.usefixtures("core")
def test_a_trial_gets_what_the_engine_answers(chdb: None) -> None:
    text = "SELECT number AS n, toString(number) AS t, toDecimal64(number, 2) AS d FROM numbers(1000000)"
    with serving("--engine", "chdb") as running:
        target = f"charrow://{running.address}"
        for streams in (1, 3):
            options = {"query": text, "encoders": 2}
            record = succeeded(run_trial(target, streams=streams, options=options))
            assert record["counts"]["rows"] == 1_000_000
            assert record["verification"]["achieved"] == "checksum"
        said = run_trial(target, options={"query": "SELECT nothing FROM numbers(3)"})
        assert said["outcome"] == "failed" and "UNKNOWN_IDENTIFIER" in said["error"]["message"]
        # And the next one finds the engine well.
        found = succeeded(run_trial(target, options={"query": "SELECT 1 AS one"}))
        assert found["counts"]["rows"] == 1
