"""`mysql://` against a real MariaDB: what is upserted is there, once, by both protocols."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from support.core import connecting_all_the_time
from support.database import Database
from support.holding import HoldingRelay
from support.mysql import found_sums, refusal, run
from support.read import file_of

pytestmark = pytest.mark.usefixtures("core")


@pytest.mark.parametrize("statement", ["text", "prepared"])
@pytest.mark.parametrize("rows_per_batch", [1, 500, 8_000])
def test_every_row_is_there_once(mariadb: Database, statement: str, rows_per_batch: int) -> None:
    table = f"venturi_my_{statement}_{rows_per_batch}"
    rows = max(rows_per_batch, 250 if rows_per_batch == 1 else 10_000)
    options = {"statement": statement, "keep": True}
    record = run(mariadb.url, table, rows_per_batch=rows_per_batch, rows_per_stream=rows, options=options)
    assert record["outcome"] == "ok", record["error"]
    verification = record["verification"]
    assert verification["achieved"] == "sums"
    assert verification["rows"] == verification["expected_rows"] > 0
    hits, total = mariadb.run_sql(f"SELECT SUM(hits), COUNT(*) FROM {table}")[0]
    assert hits == found_sums(record)["hits"]
    assert total == verification["rows"]
    batches = 2 * -(-rows // rows_per_batch)
    assert record["counts"]["batches"] == batches == record["latency"]["service"]["count"]
    assert record["counts"]["stored_bytes"] > 16_384
    assert record["errors"] is None
    mariadb.run_sql(f"DROP TABLE {table}")


def test_the_streams_connections_are_read_and_no_others(mariadb: Database) -> None:
    with connecting_all_the_time():
        record = run(mariadb.url, "venturi_sockets", streams=3, threads=3)
    assert record["outcome"] == "ok", record["error"]
    sockets = record["resources"]["client"]["sockets"]
    assert sockets["count"] == 3 and sockets["rtt_ns"] > 0
    counts = record["counts"]
    # A row is text of some 90 bytes; nothing but the batches and their answers is counted.
    assert 0.5 < counts["wire_bytes"] / (90 * counts["rows"]) < 3


def test_batches_of_ten_thousand_rows(mariadb: Database) -> None:
    record = run(mariadb.url, "venturi_ten_thousand", rows_per_batch=10_000, rows_per_stream=40_000)
    assert record["outcome"] == "ok", record["error"]
    assert record["counts"]["rows"] == 80_000
    found_sums(record)
    line = refusal(
        mariadb.url, "venturi_ten_thousand", rows_per_batch=10_000, options={"statement": "prepared"}
    )
    assert "80000 parameters" in line and "--rows-per-batch 8191" in line and "--statement text" in line


def test_a_users_table(mariadb: Database, tmp_path: Path) -> None:
    """Keys, what is added, what is overwritten; awkward text; nulls; a last batch that is shorter."""
    count = 1_203
    columns = {
        "name": pa.array([f'it\'s {i % 600} \\ "ö" \U0001f30d' for i in range(count)]),
        "hits": pa.array(range(count), pa.int64()),
        "share": pa.array([None if i % 7 == 0 else i / 3 for i in range(count)], pa.float64()),
        "paid": pa.array([Decimal(i) / 100 for i in range(count)], pa.decimal128(10, 2)),
        "day": pa.array([datetime.date(2026, 1, 1 + i % 28) for i in range(count)]),
        "seen": pa.array(
            [datetime.datetime(2026, 1, 1, 12, 0, 0, i) for i in range(count)], pa.timestamp("us")
        ),
        "raw": pa.array([bytes([0, 39, 92, i % 256]) for i in range(count)], pa.binary()),
        "ok": pa.array([i % 2 == 0 for i in range(count)]),
    }
    table = pa.table(columns)
    data = file_of(tmp_path / "sales.arrow", table)

    def rows(statement: str) -> list[tuple[object, ...]]:
        record = run(
            mariadb.url,
            "venturi_sales",
            data=data,
            upsert={"key": ["name"], "add": ["hits"]},
            rows_per_batch=100,
            rows_per_stream=1_300,
            streams=1,
            threads=1,
            options={"statement": statement, "keep": True},
        )
        assert record["outcome"] == "ok", record["error"]
        assert record["verification"]["rows"] == 600
        assert found_sums(record)["hits"] == sum(range(count))
        return mariadb.run_sql("SELECT * FROM venturi_sales ORDER BY name")

    by_text, prepared = rows("text"), rows("prepared")
    assert by_text == prepared
    last = next(row for row in by_text if row[0] == columns["name"][599].as_py())
    assert (
        last[1] == 599 + 1_199 and last[3] == Decimal("11.99") and last[6] == bytes([0, 39, 92, 1_199 % 256])
    )
    assert last[5] == datetime.datetime(2026, 1, 1, 12, 0, 0, 1_199)
    mariadb.run_sql("DROP TABLE venturi_sales")


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
