"""Our server of charrow before a stranger's client of 1.1 and 1.2, which somebody wrote from
docs/targets/charrow.md alone. What breaks the rules is in crates/servers/src/charrow/tests."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.charrow import served, serving
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
    sized,
    together,
)
from support.flight import Certificates, assert_same, mixed, write_ipc
from support.xxh3 import digest, xxh3

pytestmark = pytest.mark.usefixtures("core")
ROWS, BLOCKS = 30_000, 30
TEXT = "SELECT * FROM numbers"


def plain(table: pa.Table) -> pa.Table:
    """With values for dictionaries, as the server has to send them."""
    at = table.schema.get_field_index("colour")
    return table.set_column(at, "colour", table["colour"].cast(pa.string())) if at >= 0 else table


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


def test_an_endless_query_ends_by_stop_and_by_leave(server: str) -> None:
    trial, identity = fresh("endless"), fresh("leaves")
    with NewPartition(server, trial=trial) as partition:
        partition.ask(fresh("endless"), "SELECT * FROM records(block_rows = 1000)")
        assert partition.block() is not None
        with NewPartition(server) as other:
            assert other.question("stop", trial) == b""
        assert sum(1 for _ in partition.blocks()) >= 0 and partition.statistics is not None
    with NewPartition(server, partition=0, partitions=2) as leaves:
        leaves.ask(identity, TEXT)
        assert leaves.block() is not None
        leaves.send(number(1) + sized("leave") + sized(""))
        with contextlib.suppress(EOFError, ConnectionResetError):
            while leaves.block() is not None:
                pass
    with NewPartition(server, partition=1, partitions=2) as stays:
        assert stays.table(identity, TEXT).num_rows < ROWS  # it did not fail


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
