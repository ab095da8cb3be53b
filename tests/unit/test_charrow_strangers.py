"""Ends of charrow that somebody wrote from docs/targets/charrow.md alone, before Venturi's: a client of 1.2
before `venturi serve charrow`, servers of 1.1 and 1.2 before `venturi run`; also such as break the rules."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.charrow import serving
from support.charrow_peer import (
    ERROR,
    NewPartition,
    Partition,
    Refused,
    fresh,
    handshake,
    number,
    query,
    sized,
)
from support.charrow_peer_server import NewServer, OldServer
from support.flight import ServerProcess, run_trial, succeeded
from support.run import venturi
from support.xxh3 import digest, xxh3

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]
ROWS = 30_000
TEXT = "SELECT * FROM numbers"


def batches(rows: int = ROWS, of: int = 1000) -> list[pa.RecordBatch]:
    table = pa.table(
        {"n": pa.array(range(rows), pa.int64()), "t": pa.array([f"row {i}" for i in range(rows)])}
    )
    return table.to_batches(max_chunksize=of)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    path = tmp_path_factory.mktemp("charrow-strangers") / "numbers.parquet"
    pq.write_table(pa.Table.from_batches(batches()), path)
    with serving("--table", f"numbers={path}", "--rows-per-block", "1000") as running:
        yield running


def get(address: str, **changes: Any) -> dict[str, Any]:
    options = {"query": TEXT} | changes.pop("options", {})
    return run_trial(f"charrow://{address}", options=options, data={"source": "remote"}, **changes)


def shown(run: Path) -> str:
    """What `venturi show` says, without the ends of its lines."""
    return " ".join(venturi("show", run).stdout.split())


# A stranger's client


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd", "zstd:1", "zstd:22"])
def test_partitions_of_1_2_share_a_query(ours: ServerProcess, compression: str) -> None:
    identity = fresh(f"shared {compression}")
    found: list[pa.RecordBatch] = []
    told = []
    with contextlib.ExitStack() as stack:
        all_of_it = [
            stack.enter_context(
                NewPartition(ours.address, partition=at, partitions=3, compression=compression)
            )
            for at in range(3)
        ]

        def read(partition: NewPartition) -> None:
            partition.ask(identity, TEXT)
            found.extend(partition.blocks())
            told.append(partition.statistics)

        threads = [threading.Thread(target=read, args=(partition,)) for partition in all_of_it]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(pa.Table.from_batches(found)["n"].to_pylist()) == list(range(ROWS))
    assert {one["partition"]["index"] for one in told if one} == {0, 1, 2}
    assert sum(one["partition"]["blocks"] for one in told if one) == len(found) == ROWS // 1000
    # The end comes when nothing is left to deal.
    assert {(one["query"]["blocks"], one["query"]["rows"]) for one in told if one} == {(len(found), ROWS)}


def test_what_may_be_asked_is_answered_as_the_page_says(ours: ServerProcess) -> None:
    trial = fresh("strange")
    with NewPartition(ours.address, trial=trial, verify="count", sample=10_000_000) as partition:
        assert partition.hello["version"] == "1.2"
        names = partition.hello["asks"].split(",")
        assert {"account", "clock", "environment", "leave", "prepare", "stop"} <= set(names)
        before, then, after = time.monotonic_ns(), int(partition.question("clock")), time.monotonic_ns()
        assert before <= then <= after
        assert json.loads(partition.question("environment"))["cores"]["usable"] > 0
        assert partition.question("prepare", TEXT) == b""
        assert int(partition.question("tcp")) > 0
        assert partition.table(fresh("strange"), TEXT).num_rows == ROWS
        account = json.loads(partition.question("account", trial))
        assert (account["rows"], account["batches"], account["streams"]) == (ROWS, ROWS // 1000, 1)
        assert {"payload_bytes", "checksum", "stages", "user_ns", "system_ns"} <= set(account)
        # Handed over once; and after an Error the connection is closed.
        with pytest.raises(Refused, match="handed over already"):
            partition.question("account", trial)
        assert partition.closed()


def test_checksums_cover_what_the_page_says(ours: ServerProcess) -> None:
    trial = fresh("sums")
    with NewPartition(ours.address, trial=trial, verify="checksum", checksum="xxh3") as partition:
        found = partition.table(fresh("sums"), TEXT).to_batches()
        assert len(partition.checksums) == ROWS // 1000
        assert all(xxh3(payload) == checksum for checksum, payload in partition.checksums)
        account = json.loads(partition.question("account", trial))
        assert int(account["checksum"], 16) == sum(map(digest, found)) % 2**64


def test_an_endless_query_ends_by_stop_and_by_leave(ours: ServerProcess) -> None:
    trial, identity = fresh("endless"), fresh("leaves")
    with NewPartition(ours.address, trial=trial) as partition:
        partition.ask(fresh("endless"), "SELECT * FROM records(block_rows = 1000)")
        assert partition.block() is not None
        with NewPartition(ours.address) as other:
            assert other.question("stop", trial) == b""
        assert sum(1 for _ in partition.blocks()) >= 0 and partition.statistics is not None
    with NewPartition(ours.address, partition=0, partitions=2) as leaves:
        leaves.ask(identity, TEXT)
        assert leaves.block() is not None
        leaves.send(number(1) + sized("leave") + sized(""))
        with contextlib.suppress(EOFError, ConnectionResetError):
            while leaves.block() is not None:
                pass
    with NewPartition(ours.address, partition=1, partitions=2) as stays:
        assert stays.table(identity, TEXT).num_rows < ROWS  # it did not fail


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"partition": 4, "partitions": 4}, "partition=4 of partitions=4: they are numbered from 0 to 3"),
        ({"partitions": 0}, "partitions=0: there is at least 1"),
        ({"partition": -1}, 'partition="-1" is not a number'),
        ({"checksum": "md5"}, "known are none, xxh3"),
        ({"compression": "zstd:23"}, "with a level of 1 to 22"),
    ],
)
def test_parameters_that_cannot_be_are_refused_in_band(
    ours: ServerProcess, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refused) as refused:
        NewPartition(ours.address, **parameters)
    assert said in str(refused.value)


@pytest.mark.parametrize("minor", [-1, 0, 3, 2**40])
def test_another_minor_version_is_refused_in_band(ours: ServerProcess, minor: int) -> None:
    with Partition(ours.address, minor=minor) as partition:
        with pytest.raises(Refused, match=f"version 1.{minor}; this server speaks 1.1 and 1.2"):
            partition.block()
        assert partition.closed()


def test_partitions_that_count_themselves_differently_are_refused(ours: ServerProcess) -> None:
    identity = fresh("unlike")
    with NewPartition(ours.address, partition=0, partitions=2) as one:
        one.ask(identity, "SELECT * FROM records()")
        assert one.block() is not None
        said = "has 2 partitions, and this one says that there are 3"
        other = NewPartition(ours.address, partition=1, partitions=3)
        with other, pytest.raises(Refused, match=said):
            other.table(identity, "SELECT * FROM records()")
        assert one.block() is not None


def test_the_thirteenth_of_twelve_connections_is_told(tmp_path: Path) -> None:
    with serving("--max-connections", "12") as server, contextlib.ExitStack() as stack:
        for _ in range(12):
            stack.enter_context(NewPartition(server.address))
        for minor in (1, 2):
            with Partition(server.address, minor=minor) as late:
                with pytest.raises(Refused, match=r"12 connections are open.*--max-connections"):
                    late.table("late", "SELECT * FROM records(rows = 1)")
                assert late.closed()
        # And it is what a run says.
        failed = get(server.address)
        assert failed["outcome"] == "failed" and "12 connections are open" in failed["error"]["message"]


def test_a_silent_connection_is_told_why_it_is_closed() -> None:
    with serving("--patience", "1s") as server:
        host, _, port = server.address.rpartition(":")
        with socket.create_connection((host, int(port)), 20) as connection:
            said = b"".join(iter(lambda: connection.recv(65536), b""))
            assert said.startswith(number(ERROR)) and b"within 1 s" in said
        # After the handshake there is no hurry.
        with Partition(server.address) as partition:
            time.sleep(1.5)
            assert partition.table("late", "SELECT * FROM records(rows = 10)").num_rows == 10


# A stranger's servers


def account(rows: int, **more: Any) -> dict[str, Any]:
    return {"account": lambda trial: json.dumps({"rows": rows, **more})}


def clock(_: str) -> str:
    return str(time.monotonic_ns())


@pytest.mark.parametrize("lists", [True, False])
@pytest.mark.parametrize(("streams", "decoders"), [(1, 0), (4, 1), (3, 2)])
def test_a_server_of_1_2_is_measured_and_counted(streams: int, decoders: int, lists: bool) -> None:
    with NewServer(batches(), {"clock": clock}, lists=lists) as server:
        record = succeeded(get(server.address, streams=streams, options={"decoders": decoders}))
        assert record["counts"]["rows"] == ROWS
        found = record["verification"]
        assert (found["achieved"], found["expected_rows"]) == ("count", ROWS)
        assert found["note"] == "this server tells no checksum of the values"
        assert record["target"]["protocol"] == "1.2" and record["target"]["software"] == "stranger 1.0"
        assert record["target"]["reference"] is False
        # Nothing is asked that was not offered.
        assert {name for name, _ in server.questions} == ({"clock"} if lists else set())
        assert (record["target"]["round_trip_ns"] is not None) is lists


def test_nothing_is_asked_before_hello() -> None:
    with NewServer(batches(), {"clock": clock}) as server:
        server.hello_after = 0.1
        # The server is a thread of this process: late by a second, it is taken for one of 1.1.
        for _ in range(3):
            record = succeeded(get(server.address, streams=3))
            assert server.early == 0
            if record["target"]["protocol"] == "1.2":
                break
        assert record["target"]["protocol"] == "1.2" and server.questions


REFUSES_ALL = dict.fromkeys(("account", "clock", "environment", "prepare", "samples", "tcp", "watch"))


def test_a_server_that_answers_every_question_by_an_error_is_measured(tmp_path: Path) -> None:
    class Refuses(NewServer):
        def _answer(self, peer: Partition, name: str, payload: str) -> None:
            self.answers.pop(name, None)
            super()._answer(peer, name, payload)

    def never(_: str) -> str:
        raise AssertionError

    with Refuses(batches(), dict.fromkeys(REFUSES_ALL, never)) as server:
        offered = dict(server.answers)
        record = succeeded(get(server.address, streams=2))
        assert {name for name, _ in server.questions} >= {"account", "clock", "prepare", "watch"}
        assert record["verification"]["achieved"] == "count"
        assert "this server does not answer account" in record["verification"]["note"]
        server.answers.update(offered)
        out = tmp_path / "run"
        arguments = ["--repeats", "1", "--warmup", "0", "--no-report", "--out", out]
        done = venturi("run", "--target", f"charrow://{server.address}", "--query", TEXT, *arguments)
        assert done.returncode == 0, done.stderr


def test_values_are_compared_with_a_strangers_server_that_sums_them_up() -> None:
    def some(rows: int) -> pa.RecordBatch:
        numbers = pa.array([None if i % 3 else i for i in range(rows)], pa.int64())
        return pa.record_batch({"n": numbers, "t": [f"{i}" * (i % 40) for i in range(rows)]})

    found = [some(rows) for rows in (1, 7, 8, 30, 300, 1000)]
    rows, checksum = sum(batch.num_rows for batch in found), sum(map(digest, found)) % 2**64
    with NewServer(found, account(rows, checksum=f"{checksum:x}")) as server:
        told = succeeded(get(server.address, streams=2))["verification"]
        assert (told["achieved"], told["checksum"]) == ("checksum", f"{checksum:016x}")
        assert told["checksum"] == told["expected_checksum"] and told["note"] is None


@pytest.mark.parametrize(
    ("answers", "achieved", "outcome"),
    [
        (account(ROWS), "count", "ok"),
        (account(ROWS, stages={"send": 5}), "count", "ok"),
        (account(ROWS + 1), None, "failed"),
        (account(ROWS, checksum="7"), None, "failed"),
        (account(ROWS, checksum="not hexadecimal"), None, "failed"),
        ({"account": lambda trial: "{}"}, None, "failed"),
    ],
    ids=["rows", "half", "other-rows", "other-values", "no-checksum", "no-rows"],
)
def test_an_account_is_believed_as_far_as_it_goes(
    answers: dict[str, Any], achieved: str | None, outcome: str
) -> None:
    with NewServer(batches(), answers) as server:
        record = get(server.address, streams=2)
        assert record["outcome"] == outcome, record["error"]
        if achieved:
            assert record["verification"]["achieved"] == achieved
        else:
            assert [name for name, _ in server.questions].count("account") >= 1


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("left out", "blocks are missing, or came twice"),
        ("twice", "blocks are missing, or came twice"),
        ("lost", "the client counted 29000 rows, the server's statistics 30000"),
        ("trailing", "header says"),
        ("schema", "with bytes behind it"),
    ],
)
@pytest.mark.parametrize("decoders", [0, 2])
def test_a_server_of_1_2_that_breaks_the_rules_fails_the_trial(fault: str, said: str, decoders: int) -> None:
    with NewServer(batches(), fault=fault) as server:
        for streams in (1, 3):
            record = get(server.address, streams=streams, options={"decoders": decoders})
            assert record["outcome"] == "failed"
            assert said in record["error"]["message"], record["error"]


@pytest.mark.parametrize("fault", ["left out", "twice", "trailing", "schema"])
def test_and_a_reader_of_one_partition_notices_too(fault: str) -> None:
    from venturi import _core

    with NewServer(batches(), fault=fault) as server, pytest.raises((RuntimeError, pa.ArrowException)):
        for _ in _core.charrow_reader(f"charrow://{server.address}", TEXT, "{}"):
            pass
    with NewServer(batches()) as server:
        reader = _core.charrow_reader(f"charrow://{server.address}", TEXT, "{}")
        assert sum(batch.num_rows for batch in reader) == ROWS


def old_that(fault: str) -> OldServer:
    """A server of 1.1 that leaves block 3 out, or sends it twice."""
    whole = batches()
    return OldServer(whole[:3] + whole[4:] if fault == "left out" else [*whole[:4], *whole[3:]])


@pytest.mark.parametrize("verify", ["checksum", "count"])
@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_where_nothing_can_be_compared_the_record_says_so(version: str, verify: str) -> None:
    with old_that("left out") if version == "1.1" else NewServer(batches(), fault="silent") as server:
        record = succeeded(get(server.address, verify=verify))
        found = record["verification"]
        assert (found["achieved"], found["expected_rows"]) == ("acknowledged", None)
        assert found["note"] == "nothing was compared: the server does not say how many rows it sent"


@pytest.mark.parametrize("fault", ["left out", "twice"])
def test_rows_that_are_known_beforehand_are_compared_before_any_server(fault: str) -> None:
    data = {"source": "records", "columns": 4, "seed": 1}
    with old_that(fault) as server:
        record = run_trial(f"charrow://{server.address}", data=data, streams=2, rows_per_stream=ROWS // 2)
        assert record["outcome"] == "failed"
        assert "the query 30000" in record["error"]["message"]


def test_a_duration_ends_where_the_server_has_no_stop() -> None:
    with NewServer(batches(), endless=True) as server:
        record = succeeded(get(server.address, streams=2, duration_ns=300_000_000))
        assert record["counts"]["rows"] > 0
        assert record["verification"]["achieved"] == "acknowledged"


@pytest.mark.parametrize(("fault", "code"), [(None, 0), ("left out", 1), ("twice", 1)])
def test_venturi_run_measures_a_strangers_server(tmp_path: Path, fault: str | None, code: int) -> None:
    out = tmp_path / "run"
    with NewServer(batches(), account(ROWS), fault=fault) as server:
        arguments = ["--streams", "1,2", "--repeats", "2", "--warmup", "0", "--no-report", "--no-ceilings"]
        arguments += ["--out", str(out)]
        done = venturi("run", "--target", f"charrow://{server.address}", "--query", TEXT, *arguments)
    records = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    if code == 0:
        assert done.returncode == 0, done.stderr
        assert [record["outcome"] for record in records] == ["ok"] * 4
        assert {record["verification"]["achieved"] for record in records} == {"count"}
        assert "Values were not compared; rows were" in shown(out)
    else:
        assert done.returncode != 0
        assert {record["outcome"] for record in records} == {"failed"}
        assert {record["error"]["kind"] for record in records} == {"verification"}


def test_what_was_not_compared_is_not_said_to_be(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with old_that("left out") as server:
        arguments = ["--repeats", "2", "--warmup", "0", "--no-report", "--no-ceilings", "--out", out]
        done = venturi("run", "--target", f"charrow://{server.address}", "--query", TEXT, *arguments)
    assert done.returncode == 0, done.stderr
    assert "Neither values nor rows were compared" in shown(out)


def test_a_1_1_client_is_served_by_the_strangers_server_of_1_2() -> None:
    with NewServer(batches()) as server:
        record = succeeded(get(server.address, options={"version": "1.1"}))
        assert record["counts"]["rows"] == ROWS and record["target"]["protocol"] == "1.1"
        assert {seen["minor"] for seen in server.handshakes} == {1}
        with Partition(server.address) as partition:
            assert partition.table("both", TEXT).num_rows == ROWS


def test_handshake_and_query_in_one_packet(ours: ServerProcess) -> None:
    host, _, port = ours.address.rpartition(":")
    partition = NewPartition.__new__(NewPartition)
    partition.socket = socket.create_connection((host, int(port)), 15)
    with partition:
        partition.schema, partition.statistics = None, None
        partition.send(handshake(minor=2) + query(fresh("packet"), TEXT))
        flag, _ = partition.message()
        assert flag == 12, "Hello comes first"
        assert sum(batch.num_rows for batch in partition.blocks()) == ROWS
