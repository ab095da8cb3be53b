"""`venturi serve charrow` before a client of version 1.1 that is not ours: whole results, blocks
shared among partitions, who comes late or goes away."""

from __future__ import annotations

import collections
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.charrow import (
    BLOCK,
    Partition,
    Refused,
    fresh,
    handshake,
    query,
    serving,
    shared,
    together,
)
from support.flight import Certificates, ServerProcess, assert_same, mixed, write_ipc
from support.run import venturi

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]
ROWS = 200_000


def plain(table: pa.Table) -> pa.Table:
    """With values for dictionaries, as the server has to send them."""
    at = table.schema.get_field_index("colour")
    return table.set_column(at, "colour", table["colour"].cast(pa.string())) if at >= 0 else table


def numbers(rows: int = ROWS) -> pa.Table:
    return pa.table(
        {"n": pa.array(range(rows), pa.int64()), "t": pa.array([f"row {i}" for i in range(rows)])}
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("charrow")
    write_ipc(mixed(3000), folder / "mixed.arrow")
    pq.write_table(numbers(), folder / "numbers.parquet", row_group_size=20_000)
    write_ipc(numbers(), folder / "numbers.arrow")
    (folder / "small.csv").write_text("a,b\n1,x\n2,y\n")
    return folder


@pytest.fixture(scope="module")
def server(files: Path) -> Iterator[ServerProcess]:
    arguments = ["--table", f"mixed={files / 'mixed.arrow'}", "--table", f"small={files / 'small.csv'}"]
    arguments += ["--table", f"numbers={files / 'numbers.parquet'}", "--rows-per-block", "1000"]
    arguments += ["--stream", f"logs={files / 'numbers.arrow'}"]
    with serving(*arguments) as running:
        yield running


def test_a_whole_result_is_the_table(server: ServerProcess) -> None:
    with Partition(server.address) as partition:
        found = partition.table(fresh("a"), "SELECT * FROM mixed")
        assert_same(found, plain(mixed(3000)))
        # And the next query over the same connection.
        assert partition.table(fresh("b"), "select b, a from small").to_pylist() == [
            {"b": "x", "a": 1},
            {"b": "y", "a": 2},
        ]
        assert partition.table(fresh("c"), 'SELECT n FROM "numbers" LIMIT 7')["n"].to_pylist() == list(
            range(7)
        )
        assert partition.table(fresh("d"), "SELECT n FROM logs").sort_by("n")["n"].to_pylist() == list(
            range(ROWS)
        )


def test_parquet_is_read_while_a_query_runs(files: Path) -> None:
    with serving("--stream", f"logs={files / 'numbers.parquet'}") as server:
        for partitions in (1, 3):
            found = shared(server.address, "SELECT * FROM logs", partitions, 2, f"parquet-{partitions}")
            assert sorted(together(found)["n"].to_pylist()) == list(range(ROWS))


def test_rows_made_are_those_that_were_asked_for(server: ServerProcess) -> None:
    with Partition(server.address, encoders=2) as partition:
        found = partition.table(fresh("r"), "SELECT * FROM records(rows = 100000, columns = 3, seed = 5)")
        assert (found.num_rows, found.num_columns) == (100_000, 3)
        again = partition.table(fresh("r2"), "SELECT * FROM records(rows = 100000, columns = 3, seed = 5)")
        assert found.combine_chunks().equals(again.combine_chunks())
        states = partition.table(fresh("s"), "SELECT * FROM state_rows(rows = 50000, seed = 3)")
        assert (states.num_rows, states.num_columns) == (50_000, 16)
        assert sum(column.null_count > 0 for column in states.columns) == 1


@pytest.mark.parametrize("partitions", range(1, 9))
@pytest.mark.parametrize("encoders", [1, 3])
def test_partitions_share_every_row_once(server: ServerProcess, partitions: int, encoders: int) -> None:
    for name in ("numbers", "logs"):
        identity = fresh(f"{name}-{partitions}-{encoders}")
        found = shared(server.address, f"SELECT * FROM {name}", partitions, encoders, identity)
        assert sorted(together(found)["n"].to_pylist()) == list(range(ROWS))


def test_64_partitions_on_one_encoder(server: ServerProcess) -> None:
    found = shared(server.address, "SELECT * FROM numbers", 64, 1, fresh("sixty-four"))
    assert sorted(together(found)["n"].to_pylist()) == list(range(ROWS))


def test_rows_are_turned_into_columns_once_each(server: ServerProcess) -> None:
    with Partition(server.address) as partition:
        alone = partition.table(
            fresh("states-1"), "SELECT * FROM state_rows(rows = 60000, seed = 1, block_rows = 1000)"
        )
    text = "SELECT * FROM state_rows(rows = 60000, seed = 1, block_rows = 1000)"
    parts = together(shared(server.address, text, 4, 4, fresh("states-4")))
    keys = [(name, "ascending") for name in ("l_orderkey", "l_linenumber", "l_partkey", "l_suppkey")]
    assert parts.sort_by(keys).combine_chunks().equals(alone.sort_by(keys).combine_chunks())


def test_a_slow_partition_gets_fewer_blocks(server: ServerProcess) -> None:
    text = "SELECT * FROM records(rows = 3000000, block_rows = 10000)"
    counts, identity = [0, 0], fresh("uneven")

    def work(at: int, pause: float) -> None:
        with Partition(server.address) as partition:
            partition.ask(identity, text)
            for _ in partition.blocks():
                counts[at] += 1
                time.sleep(pause)

    threads = [threading.Thread(target=work, args=(0, 0.0)), threading.Thread(target=work, args=(1, 0.02))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(counts) == 300 and counts[0] > 1.5 * counts[1]


def test_a_partition_that_comes_late_gets_a_share_or_the_end(server: ServerProcess) -> None:
    text, identity = "SELECT * FROM numbers", fresh("late")
    with (
        Partition(server.address) as first,
        Partition(server.address) as second,
        Partition(server.address) as third,
    ):
        # While it does not read, most of the result is left to deal: the buffers between do not grow.
        first.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        first.ask(identity, text)
        found = [first.block() for _ in range(5)]
        second.ask(identity, text)
        found.append(second.block())
        assert found[-1] is not None
        rest: list[list[pa.RecordBatch]] = [[], []]
        threads = [
            threading.Thread(target=lambda at=at, p=p: rest[at].extend(p.blocks()))  # type: ignore[misc]
            for at, p in enumerate((first, second))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        rows = together([[b for b in found if b], *rest])["n"].to_pylist()
        assert sorted(rows) == list(range(ROWS))
        # All is dealt: a schema, and the end.
        third.ask(identity, text)
        assert list(third.blocks()) == [] and third.schema is not None and third.schema.names == ["n", "t"]


def test_nobody_waits_for_a_partition_that_never_comes(server: ServerProcess) -> None:
    began = time.monotonic()
    hello = "venturi 0.1.0\npartition=0\npartitions=4"
    with Partition(server.address, client=hello) as partition:
        assert partition.table(fresh("alone"), "SELECT * FROM numbers").num_rows == ROWS
    assert time.monotonic() - began < 30


def test_a_partition_that_dies_fails_the_query_for_all(server: ServerProcess) -> None:
    text, identity = "SELECT * FROM records(rows = 100000000, block_rows = 20000)", fresh("dying")
    with Partition(server.address) as stays, Partition(server.address) as dies:
        stays.ask(identity, text)
        dies.ask(identity, text)
        assert dies.block() is not None and stays.block() is not None
        dies.reset()
        with pytest.raises(
            Refused, match=r'query "dying-\d+" failed: partition .* went away after \d+ blocks'
        ):
            for _ in stays.blocks():
                pass
        assert stays.closed()
        # Who asks for it now learns the same; another query is not disturbed.
        with Partition(server.address) as later, pytest.raises(Refused, match="went away"):
            later.table(identity, text)
        with Partition(server.address) as other:
            assert other.table(fresh("other"), "SELECT * FROM numbers").num_rows == ROWS


def test_a_partition_that_got_nothing_may_leave(server: ServerProcess) -> None:
    with Partition(server.address) as stays:
        leaves = Partition(server.address)  # a handshake, and no query
        stays.ask(fresh("leaving"), "SELECT * FROM numbers")
        leaves.reset()
        assert sum(b.num_rows for b in stays.blocks()) == ROWS


def test_a_run_ends_with_its_last_partition(server: ServerProcess) -> None:
    for _ in range(80):  # more than there may be queries at a time
        with Partition(server.address) as partition:
            partition.ask(fresh("endless"), "SELECT * FROM records()")
            assert partition.block() is not None
    deadline = time.monotonic() + 60
    while True:
        try:
            with Partition(server.address) as partition:
                assert partition.table(fresh("after"), "SELECT * FROM small").num_rows == 2
            return
        except Refused:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_a_new_client_is_answered_at_once(server: ServerProcess) -> None:
    """Version 1.2, of which the 1.1 client knows nothing but what stands in its specification."""
    raw = handshake(minor=2, client="test\nchecksum=xxh3\npartition=0\npartitions=1\nfuture=ignored")
    with Partition.__new__(Partition) as partition:
        host, _, port = server.address.rpartition(":")
        partition.socket = socket.create_connection((host, int(port)), 10)
        partition.send(raw)
        assert partition.number() == 12
        hello = dict(
            line.split("=", 1) for line in partition.exactly(partition.number()).decode().splitlines()
        )
        assert hello["version"] == "1.2" and hello["software"].startswith("venturi ")
        assert int(hello["pid"]) > 0 and int(hello["cpus"]) > 0
        partition.send(query(fresh("new"), "SELECT * FROM small"))
        flags = collections.Counter[int]()
        while True:
            flag = partition.number()
            if flag == BLOCK:  # of 1.2 with checksums: the end, and nothing else
                assert partition.number() == 0
                break
            if flag == 13:
                partition.exactly(8)
            flags[flag] += 1
            partition.exactly(partition.number())
        assert flags == {10: 1, 13: 1, 14: 1}


def test_an_old_client_gets_nothing_new(server: ServerProcess) -> None:
    # Its name looks like parameters, but its version does not.
    with Partition(server.address, client="old\nchecksum=xxh3\ncompression=lz4") as partition:
        assert partition.table(fresh("old"), "SELECT * FROM mixed").num_rows == 3000


def test_a_password_is_demanded(files: Path) -> None:
    with serving(
        "--table", f"small={files / 'small.csv'}", "--token-env", "SECRET", SECRET="s3cret"
    ) as server:
        with Partition(server.address, password="s3cret", user="me") as partition:
            assert partition.table("a", "SELECT * FROM small").num_rows == 2
        for password in ("", "wrong"):
            with Partition(server.address, password=password) as partition, pytest.raises(Refused) as refused:
                partition.table("b", "SELECT * FROM small")
            assert "s3cret" not in str(refused.value)


def test_over_tls(files: Path, certificates: Certificates) -> None:
    import ssl

    tls = ["--tls-certificate", str(certificates.server), "--tls-key", str(certificates.server_key)]
    with serving("--table", f"numbers={files / 'numbers.parquet'}", *tls) as server:
        context = ssl.create_default_context(cafile=str(certificates.ca))
        partition = Partition.__new__(Partition)
        host, _, port = server.address.rpartition(":")
        raw = socket.create_connection((host, int(port)), 10)
        with context.wrap_socket(raw, server_hostname="localhost") as partition.socket:
            partition.send(handshake())
            assert partition.table("tls", "SELECT * FROM numbers").num_rows == ROWS


def test_it_stops_gracefully_and_says_what_it_did(files: Path) -> None:
    with serving("--table", f"small={files / 'small.csv'}") as server:
        assert server.ready["tables"] == ["small"] and server.ready["environment"]["cores"]["usable"] > 0
        with Partition(server.address) as partition:
            partition.ask("endless", "SELECT * FROM records()")
            assert partition.block() is not None
            code, stderr = server.stop()
            assert code == 0 and "Traceback" not in stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--table", "t"), "--table t: must be written NAME=FILE"),
        (("--table", "t=missing.parquet"), "missing.parquet: no such file"),
        (("--stream", "t=missing.parquet"), "--stream t=missing.parquet: missing.parquet: no such file"),
        (("--stream", "t={csv}"), "neither Parquet nor Arrow IPC, and no other file is read from disk"),
        (("--table", "t={csv}", "--stream", "t={parquet}"), "two tables are called t; names tell them apart"),
        (("--engine", "spark"), "--engine spark: is not one of builtin, chdb"),
        (("--data", "x"), "--data is the directory of --engine chdb"),
        (("--engine", "chdb", "--table", "t={csv}"), "--engine chdb reads files by itself"),
        (("--query-memory", "1k"), "--query-memory 1k: must be at least 64KiB"),
        (("--handicap", "nap=1ms"), "--handicap: no stage is called 'nap'"),
        (("--stall-timeout", "0s"), "--stall-timeout 0s: must be above 0"),
        (
            ("--token-env", "NOT_SET_ANYWHERE"),
            "--token-env: the environment variable NOT_SET_ANYWHERE is not set",
        ),
        (("--tls-key", "{csv}"), "--tls-certificate and --tls-key go together"),
    ],
)
def test_mistakes_are_said_in_one_line(files: Path, arguments: tuple[str, ...], said: str) -> None:
    names = {"csv": str(files / "small.csv"), "parquet": str(files / "numbers.parquet")}
    done = venturi("serve", "charrow", "--port", "0", *(text.format(**names) for text in arguments))
    assert done.returncode in (2, 3), done.stderr
    assert said in done.stderr.replace("\n", " ") and "Traceback" not in done.stderr
