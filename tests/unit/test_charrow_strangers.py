"""Our client of charrow before a stranger's servers of 1.1 and 1.2, and our server before that stranger's
clients, which somebody wrote from docs/targets/charrow.md alone. What breaks the rules of the server is in
crates/servers/src/charrow/tests."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from xxhash import xxh3_64_intdigest as xxh3

from support.charrow import plain, served, serving
from support.charrow_peer import (
    ERROR,
    HELLO,
    NewPartition,
    Partition,
    Refused,
    fresh,
    handshake,
    number,
    query,
    shared,
    together,
)
from support.charrow_peer_server import NewServer, OldServer
from support.flight import Certificates, assert_same, failed, mixed, run_trial, succeeded, write_ipc
from support.read import ONCE, ran
from support.run import venturi

# ---- the digest of a block's values as docs/targets/charrow.md has it, by the xxh3 of its inventor


def _behind(state: int, number: int) -> int:
    return xxh3(number.to_bytes(8, "little"), state)


def digest(batch: pa.RecordBatch) -> int:
    """Of the values of a batch: integers and strings, with nulls or without."""
    state = batch.num_rows
    for column in batch.columns:
        state = _behind(state, _column(column))
    return state


def _column(column: pa.Array) -> int:
    # Without an offset into its buffers.
    column = pa.concat_arrays([column, column.slice(0, 0)]) if column.offset else column
    if column.null_count:
        bits = sum(1 << i for i, valid in enumerate(column.is_valid().to_pylist()) if valid)
        bitmap = bits.to_bytes((len(column) + 7) // 8, "little")
        validity = _behind(xxh3(bitmap), len(column))
        return _behind(_behind(0x6E756C6C, validity), _column(column.drop_null()))
    buffers = column.buffers()
    if pa.types.is_string(column.type):
        ends = struct.unpack_from(f"<{len(column) + 1}i", buffers[1]) if len(column) else (0,)
        data = buffers[2].to_pybytes()[ends[0] : ends[-1]] if buffers[2] else b""
        counted = struct.pack(f"<{len(column)}i", *(end - ends[0] for end in ends[1:]))
        return _behind(xxh3(counted), xxh3(data))
    return xxh3(buffers[1].to_pybytes()[: len(column) * column.type.bit_width // 8])


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
        assert _core.server_environment(f"charrow://{server.address}", "{}") == '{"cores": 1}'
    with OldServer(batches()) as old:
        assert _core.server_environment(f"charrow://{old.address}", "{}") is None


def test_a_server_that_answers_nothing_at_all_is_no_server_of_1_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        said = failed(get(address, timeout_ns=300_000_000), "timeout")
        # "In all" where a busy machine took a part of it to connect.
        assert said.startswith(f"{address}: no answer within 0.3 s")
        assert said.endswith(", neither to the handshake nor to a query")


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
        # With its ceilings.
        ran(tmp_path / "run", "--target", f"charrow://{server.address}", "--query", TEXT, *ONCE[:-1])


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
        words = ("--streams", "1,2", *ONCE, "--repeats", 2, "--query", TEXT)
        records = ran(out, "--target", f"charrow://{server.address}", *words)
    assert [record["outcome"] for record in records] == ["ok"] * 4
    assert {record["verification"]["achieved"] for record in records} == {"count"}
    assert "Values were not compared; rows were" in shown(out)


def test_what_was_not_compared_is_not_said_to_be(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with old_that("left out") as server:
        ran(out, "--target", f"charrow://{server.address}", *ONCE, "--query", TEXT)
    assert "Neither values nor rows were compared" in shown(out)


def test_a_1_1_client_is_served_by_the_strangers_server_of_1_2() -> None:
    with NewServer(batches()) as server:
        record = succeeded(get(server.address, options={"version": "1.1"}))
        assert record["counts"]["rows"] == ROWS and record["target"]["protocol"] == "1.1"
        assert {seen["minor"] for seen in server.handshakes} == {1}
        with Partition(server.address) as partition:
            assert partition.table("both", TEXT).num_rows == ROWS


# ---- our server


BLOCKS = 30


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("charrow")
    numbers = pa.table({"n": pa.array(range(ROWS), pa.int64()), "t": [f"row {i}" for i in range(ROWS)]})
    with pa.ipc.new_file(folder / "numbers.arrow", numbers.schema) as writer:
        writer.write_table(numbers, max_chunksize=ROWS // BLOCKS)
    pq.write_table(numbers, folder / "numbers.parquet", row_group_size=5000)
    write_ipc(plain(mixed(3000)), folder / "mixed.arrow")
    (folder / "small.csv").write_text("a,b\n1,x\n2,y\n")
    return folder


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[str]:
    streams = [{"name": "logs", "path": str(files / "numbers.parquet")}]
    tables = {name: files / f"{name}.arrow" for name in ("numbers", "mixed")}
    with served(tables, streams=streams, environment={"cores": {"usable": 2}}) as address:
        yield address


def test_a_whole_result_is_the_table(server: str) -> None:
    # Its name looks like parameters of 1.2, and its version does not.
    with Partition(server, client="old\nchecksum=xxh3\ncompression=lz4") as partition:
        assert_same(partition.table(fresh("a"), "SELECT * FROM mixed"), plain(mixed(3000)))
        # And the next query over the same connection.
        found = partition.table(fresh("b"), 'SELECT t, n FROM "numbers" LIMIT 2')
        assert found.to_pylist() == [{"t": "row 0", "n": 0}, {"t": "row 1", "n": 1}]
        found = partition.table(fresh("c"), "select n from logs").sort_by("n")
        assert found["n"].to_pylist() == list(range(ROWS))


@pytest.mark.parametrize("name", ["numbers", "logs"])
def test_partitions_of_1_1_share_every_row_once(server: str, name: str) -> None:
    found = shared(server, f"SELECT * FROM {name}", 3, 2, fresh(name))
    assert sorted(together(found)["n"].to_pylist()) == list(range(ROWS))


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd:22"])
def test_partitions_of_1_2_share_a_query(server: str, compression: str) -> None:
    identity = fresh("shared")
    found: list[pa.RecordBatch] = []
    told = []
    with contextlib.ExitStack() as stack:
        all_of_it = [
            stack.enter_context(NewPartition(server, partition=at, partitions=3, compression=compression))
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
            thread.join()
    assert sorted(pa.Table.from_batches(found)["n"].to_pylist()) == list(range(ROWS))
    assert {one["partition"]["index"] for one in told if one} == {0, 1, 2}
    assert sum(one["partition"]["blocks"] for one in told if one) == len(found) == BLOCKS
    # The end comes when nothing is left to deal.
    assert {(one["query"]["blocks"], one["query"]["rows"]) for one in told if one} == {(BLOCKS, ROWS)}


def test_what_may_be_asked_is_answered_as_the_page_says(server: str) -> None:
    trial = fresh("strange")
    with NewPartition(server, trial=trial, verify="count", sample=10_000_000) as partition:
        assert partition.hello["version"] == "1.2" and partition.hello["software"].startswith("venturi ")
        assert int(partition.hello["pid"]) > 0 and int(partition.hello["cpus"]) > 0
        names = partition.hello["asks"].split(",")
        assert {"account", "clock", "environment", "leave", "prepare", "stop"} <= set(names)
        before, then, after = time.monotonic_ns(), int(partition.question("clock")), time.monotonic_ns()
        assert before <= then <= after
        assert json.loads(partition.question("environment"))["cores"]["usable"] == 2
        assert partition.question("prepare", TEXT) == b""
        assert int(partition.question("tcp")) > 0
        assert partition.table(fresh("strange"), TEXT).num_rows == ROWS
        account = json.loads(partition.question("account", trial))
        assert (account["rows"], account["batches"], account["streams"]) == (ROWS, BLOCKS, 1)
        assert {"payload_bytes", "checksum", "stages", "user_ns", "system_ns"} <= set(account)
        # Handed over once; and after an Error the connection is closed.
        with pytest.raises(Refused, match="handed over already"):
            partition.question("account", trial)
        assert partition.closed()


def test_checksums_cover_what_the_page_says(server: str) -> None:
    trial = fresh("sums")
    with NewPartition(server, trial=trial, verify="checksum", checksum="xxh3") as partition:
        found = partition.table(fresh("sums"), TEXT).to_batches()
        assert len(partition.checksums) == BLOCKS
        assert all(xxh3(payload) == checksum for checksum, payload in partition.checksums)
        account = json.loads(partition.question("account", trial))
        assert int(account["checksum"], 16) == sum(map(digest, found)) % 2**64


def test_handshake_and_query_in_one_packet(server: str) -> None:
    host, _, port = server.rpartition(":")
    partition = NewPartition.__new__(NewPartition)
    partition.socket = socket.create_connection((host, int(port)))
    with partition:
        partition.schema, partition.statistics = None, None
        said = "test\npartition=0\npartitions=1\nfuture=ignored"
        partition.send(handshake(minor=2, client=said) + query(fresh("packet"), TEXT))
        flag, _ = partition.message()
        assert flag == HELLO, "Hello comes first"
        assert sum(batch.num_rows for batch in partition.blocks()) == ROWS


def test_over_tls(files: Path, certificates: Certificates) -> None:
    keys = {"tls_certificate": str(certificates.server), "tls_key": str(certificates.server_key)}
    # It has had its time before it has said anything: whatever it says is half of it.
    with served(**keys, patience_ns=1) as address:
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port))) as connection:
            # A record of 4 KiB, the first words of a client, of which no more comes.
            connection.sendall(bytes.fromhex("16030110000100 0ffc0303"))
            said = bytearray()
            with contextlib.suppress(ConnectionResetError):
                while piece := connection.recv(65536):
                    said += piece
            # It was never let in: no word of charrow's is said before hands are shaken.
            assert number(ERROR) not in said
    with served({"numbers": files / "numbers.arrow"}, **keys) as address:
        context = ssl.create_default_context(cafile=str(certificates.ca))
        partition = Partition.__new__(Partition)
        host, _, port = address.rpartition(":")
        raw = socket.create_connection((host, int(port)))
        with context.wrap_socket(raw, server_hostname="localhost") as partition.socket:
            partition.send(handshake())
            assert partition.table("tls", TEXT).num_rows == ROWS


def test_it_stops_gracefully_and_says_what_it_did(files: Path) -> None:
    with serving("--table", f"small={files / 'small.csv'}", "--rows-per-block", "1") as server:
        assert server.ready["tables"] == ["small"] and server.ready["environment"]["cores"]["usable"] > 0
        with Partition(server.address) as partition:
            found = partition.table("rows", "select b, a from small")
            assert found.to_pylist() == [{"b": "x", "a": 1}, {"b": "y", "a": 2}]
            assert found["a"].num_chunks == 2
            partition.ask("endless", "SELECT * FROM records()")
            assert partition.block() is not None
            code, stderr = server.stop()
            assert code == 0 and "Traceback" not in stderr
