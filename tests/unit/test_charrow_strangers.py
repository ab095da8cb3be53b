"""Our client of charrow before a stranger's servers of 1.1 and 1.2, which somebody wrote from
docs/targets/charrow.md alone; also before such as break the rules."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.charrow_peer import Partition
from support.charrow_peer_server import NewServer, OldServer
from support.flight import failed, run_trial, succeeded
from support.run import venturi
from support.xxh3 import digest

pytestmark = pytest.mark.usefixtures("core")
ROWS = 30_000
TEXT = "SELECT * FROM numbers"


def batches(rows: int = ROWS, of: int = 1000) -> list[pa.RecordBatch]:
    table = pa.table(
        {"n": pa.array(range(rows), pa.int64()), "t": pa.array([f"row {i}" for i in range(rows)])}
    )
    return table.to_batches(max_chunksize=of)


def get(address: str, **changes: Any) -> dict[str, Any]:
    options = {"query": TEXT} | changes.pop("options", {})
    return run_trial(f"charrow://{address}", options=options, data={"source": "remote"}, **changes)


def shown(run: Path) -> str:
    """What `venturi show` says, without the ends of its lines."""
    return " ".join(venturi("show", run).stdout.split())


def asked(server: OldServer) -> set[tuple[str, str]]:
    """The queries, but for the one that finds out the version."""
    return {(identity, text) for identity, text in server.asked if not identity.endswith("/version")}


# ---- of 1.1


@pytest.mark.parametrize("refuses", [None, "error", "close"])
@pytest.mark.parametrize(("streams", "decoders"), [(1, 0), (4, 1), (2, 3)])
def test_old_servers_meet_a_new_client_in_three_ways(
    refuses: str | None, streams: int, decoders: int
) -> None:
    with OldServer(batches(), refuses) as old:
        options = {"decoders": decoders, "encoders": 3}
        record = succeeded(get(old.address, streams=streams, options=options))
        assert record["counts"]["rows"] == ROWS and record["counts"]["batches"] == ROWS // 1000
        assert sum(stream["rows"] for stream in record["streams"]) == ROWS
        assert record["target"]["reference"] is False and record["target"]["protocol"] == "1.1"
        # What was offered first, and what was spoken in the end.
        assert {seen["minor"] for seen in old.handshakes} == {1, 2}
        assert [seen["minor"] for seen in old.handshakes][-streams:] == [1] * streams
        assert {(seen["encoder"], seen["encoders"]) for seen in old.handshakes} == {("Arrow", 3)}
        ((_, text),) = asked(old)
        assert text == TEXT


def test_version_1_1_says_nothing_of_1_2() -> None:
    with OldServer(batches()) as old:
        succeeded(get(old.address, options={"version": "1.1", "user": "me"}))
        assert {seen["minor"] for seen in old.handshakes} == {1}
        assert {seen["user"] for seen in old.handshakes} == {"me"}
        assert not any("\n" in seen["client"] for seen in old.handshakes)


def test_what_a_server_refuses_is_said() -> None:
    with OldServer(batches()) as old:
        old.error = "Code: 60. DB::Exception: Table default.nothing doesn't exist"
        said = failed(get(old.address), "server")
        assert "Table default.nothing doesn't exist" in said
        # By an error it answers all the same.
        assert [seen["minor"] for seen in old.handshakes] == [2, 1, 1]


@pytest.mark.parametrize("change", ["cut", "shorter", "noise", "huge", "other"])
def test_a_server_that_breaks_off_or_lies_is_an_error_and_no_result(change: str) -> None:
    other = pa.record_batch({"x": pa.array([1.5])})

    def changed(at: int, payload: bytes) -> bytes | None:
        if at != 7:
            return payload
        return {
            "cut": None,
            "shorter": payload[:-100],
            "noise": payload[:16] + b"\xff" * (len(payload) - 16),
            "huge": payload[:8] + b"\xff\xff\xff\x7f" + payload[12:],
            "other": other.serialize().to_pybytes(),
        }[change]

    with OldServer(batches(20_000)) as old:
        old.change = changed
        record = get(old.address)
        assert record["outcome"] == "failed" and record["error"]["message"]


# ---- which version it is


def test_a_hello_that_comes_late_is_waited_for() -> None:
    """It comes only when the client asks a query, and nothing of 1.2 is asked before it."""
    with NewServer(batches(), {"clock": clock}) as server:
        server.late = 1
        record = succeeded(get(server.address, streams=3))
        assert server.late == server.early == 0
        assert record["target"]["protocol"] == "1.2" and record["target"]["round_trip_ns"] is not None
        assert {name for name, _ in server.questions} == {"clock"}


def test_a_question_outside_of_a_trial_waits_for_hello_too() -> None:
    from venturi import _core

    with NewServer(batches(), {"environment": lambda _: '{"cores": 1}'}) as server:
        server.late = 1
        assert _core.charrow_environment(f"charrow://{server.address}", "{}") == '{"cores": 1}'
    with OldServer(batches()) as old:
        assert _core.charrow_environment(f"charrow://{old.address}", "{}") is None


def test_a_server_that_answers_nothing_at_all_is_no_server_of_1_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = failed(get(address, timeout_ns=300_000_000), "timeout")
        assert said == f"{address}: no answer within 0.3 s, neither to the handshake nor to a query"


# ---- of 1.2


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
            kind = "verification" if fault in ("left out", "twice", "lost") else "protocol"
            assert said in failed(record, kind), record["error"]


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


def test_venturi_run_measures_a_strangers_server(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with NewServer(batches(), account(ROWS)) as server:
        words = "--streams 1,2 --repeats 2 --warmup 0 --no-report --no-ceilings --query"
        target = ("--target", f"charrow://{server.address}", "--out", out)
        done = venturi("run", *target, *words.split(), TEXT)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]
    assert [record["outcome"] for record in records] == ["ok"] * 4
    assert {record["verification"]["achieved"] for record in records} == {"count"}
    assert "Values were not compared; rows were" in shown(out)


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
