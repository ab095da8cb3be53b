"""`mysql://` against a real MariaDB: what is upserted is there, once, by both protocols."""

from __future__ import annotations

import pytest

from support.core import connecting_all_the_time
from support.database import Database
from support.holding import HoldingRelay
from support.mysql import refusal, run

pytestmark = pytest.mark.usefixtures("core")


@pytest.mark.parametrize(
    ("statement", "rows_per_batch", "rows"),
    [("text", 1, 250), ("prepared", 1, 250), ("prepared", 8_000, 16_000), ("text", 10_000, 40_000)],
)
def test_batches_of_one_row_and_of_many(
    mariadb: Database, statement: str, rows_per_batch: int, rows: int
) -> None:
    options = {"statement": statement}
    record = run(mariadb.url, "venturi_sizes", rows_per_batch=rows_per_batch, rows=rows, options=options)
    assert (record["error"], record["errors"]) == (None, None)
    assert record["verification"]["rows"] == record["verification"]["expected_rows"] > 0
    assert all(line["expected"] == line["found"] for line in record["verification"]["sums"])
    assert record["counts"]["rows"] == 2 * rows
    assert record["counts"]["batches"] == 2 * -(-rows // rows_per_batch)


def test_the_streams_connections_are_read_and_no_others(mariadb: Database) -> None:
    with connecting_all_the_time():
        record = run(mariadb.url, "venturi_sockets", streams=3)
    assert record["outcome"] == "ok", record["error"]
    sockets = record["resources"]["client"]["sockets"]
    assert sockets["count"] == 3 and sockets["rtt_ns"] > 0
    counts = record["counts"]
    # A row is text of some 90 bytes; nothing but the batches and their answers is counted.
    assert 0.5 < counts["wire_bytes"] / (90 * counts["rows"]) < 3


def test_a_statement_has_so_many_parameters(mariadb: Database) -> None:
    line = refusal(mariadb.url, "venturi_x", rows_per_batch=10_000, options={"statement": "prepared"})
    assert "80000 parameters" in line and "--rows-per-batch 8191" in line and "--statement text" in line


def test_options_of_the_server_and_of_others(mariadb: Database) -> None:
    options = {"storage": "Aria", "keep": True, "partitions": 20, "shard_key": ["customer_code"],
               "init": ["SET SESSION lock_wait_timeout = 77"]}  # fmt: skip
    record = run(mariadb.url, "venturi_aria", options=options)
    assert record["outcome"] == "ok", record["error"]
    assert "partitions, shard_key: for SingleStore only" in record["verification"]["note"]
    where = "TABLE_SCHEMA = 'venturi' AND TABLE_NAME = 'venturi_aria'"
    assert mariadb.run_sql(f"SELECT ENGINE FROM information_schema.TABLES WHERE {where}") == [("Aria",)]
    mariadb.run_sql("DROP TABLE venturi_aria")
    line = refusal(mariadb.url, "venturi_init", options={"init": ["SET no_such = 1"]})
    assert 'init "SET no_such = 1"' in line and "1193" in line
    assert "answers one statement before it takes the next" in refusal(mariadb.url, "venturi_x", in_flight=2)


def test_streams_are_spread_over_hosts(mariadb: Database) -> None:
    with HoldingRelay(mariadb.port) as one, HoldingRelay(mariadb.port) as two:
        both = f"127.0.0.1:{one.own_port},127.0.0.1:{two.own_port}"
        record = run(f"mysql://venturi@{both}/venturi", "venturi_hosts", streams=4)
    assert record["outcome"] == "ok", record["error"]
    assert record["target"]["address"] == both and record["counts"]["rows"] == 40_000
    # A row is text of some 90 bytes, and each took half of them.
    assert all(relay.passed > 20_000 * 45 for relay in (one, two))
