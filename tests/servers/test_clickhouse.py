"""clickhouse://: gets and puts against a server of 2018 and against the engine of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.adbc import run
from support.clickhouse import Server
from support.read import RECORDS, get, good, put, refused

pytestmark = pytest.mark.usefixtures("core")

MIXED = (
    "SELECT number AS n, toString(number * 7) AS s, toDate(number % 20000) AS d, toFloat64(number) / 3 AS f, "
    "if(number % 3 = 0, NULL, toInt32(number)) AS i, toFixedString('abcd', 4) AS x, "
    "toDateTime(number, 'UTC') AS t, toDecimal64(number, 2) AS m, "
    "toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u, "
    "CAST(number % 2 + 1, 'Enum8(\\'even\\' = 1, \\'odd\\' = 2)') AS e FROM system.numbers LIMIT 200000"
)


def test_a_query_of_every_type_is_shared(clickhouse: Server) -> None:
    for form in ("native", "rowbinary"):
        for split in ("hash", "key", "none"):
            by = {} if split == "none" else {"split_by": "n"}
            record = get(clickhouse.url, streams=3, query=MIXED, format=form, split=split, **by)
            good(record, 600_000 if split == "none" else 200_000)
            assert [column["column"] for column in record["verification"]["sums"]] == ["n", "s", "i"]


def test_nulls_are_no_streams_loss(clickhouse: Server) -> None:
    for split in ("hash", "key"):
        record = get(clickhouse.url, streams=3, query=MIXED, split=split, split_by="i", verify="count")
        good(record, 200_000, "count")


def test_parts_of_a_table(clickhouse: Server) -> None:
    clickhouse.ask("DROP TABLE IF EXISTS parted")
    clickhouse.ask("CREATE TABLE parted (n UInt64) ENGINE = MergeTree ORDER BY n")
    for part in range(3):
        clickhouse.ask(f"INSERT INTO parted SELECT number FROM system.numbers LIMIT {1000 * (part + 1)}")
    record = get(clickhouse.url, streams=2, table="parted", split="parts")
    good(record, 6000)
    # More streams than parts.
    good(get(clickhouse.url, streams=5, table="parted", split="parts"), 6000)
    clickhouse.ask("DROP TABLE parted")


def test_a_put_into_a_table_with_other_columns(clickhouse: Server) -> None:
    clickhouse.ask("DROP TABLE IF EXISTS theirs")
    clickhouse.ask("CREATE TABLE theirs (b Int64, a Int64, d Int64, c Int64, more String) ENGINE = Log")
    clickhouse.ask("INSERT INTO theirs (a) VALUES (5)")
    record = put(clickhouse.url, streams=2, rows=10, table="theirs", setup=False)
    good(record, 20)
    assert record["verification"]["note"] == "1 rows were there before"
    assert clickhouse.ask("SELECT count(), min(more = '') FROM theirs") == "21\t1"
    record = put(clickhouse.url, data={**RECORDS, "columns": 5}, rows=10, table="theirs", setup=False)
    refused(record, "usage", "column e", "none of that name")
    clickhouse.ask("DROP TABLE theirs")


def test_what_cannot_be_is_one_line(clickhouse: Server) -> None:
    refused(get(clickhouse.url, table="nowhere"), "server", "Code: 60", "is it in another database?")
    refused(get(clickhouse.url, query="SELECT 1", settings={"max_threadz": 1}), "server", "max_threadz")
    refused(get(clickhouse.url, query="SELECT 1", format="arrow"), "usage", "18.16", "native or rowbinary")
    refused(get(clickhouse.url, query="SELECT 1", format="native", compression="zstd"), "usage", "none")
    refused(get(clickhouse.url, query="SELECT [1] AS a"), "protocol", "column a", "Array(UInt8)")
    refused(
        get(clickhouse.url, query="SELECT 1 AS a", streams=2, split="key", split_by="b"),
        "usage",
        "no such column",
    )
    refused(get(clickhouse.url, query="SELECT unhex('ff') AS a"), "protocol", "column a", "UTF-8")
    refused(get("clickhouse://127.0.0.1:1"), "usage", "table or query")
    # The server may say at once that this is no TLS, or wait for more of it.
    deaf = get(clickhouse.url.replace("clickhouse:", "clickhouse+tls:"), query="SELECT 1", patience_s=2)
    assert deaf["error"]["kind"] in ("tls", "unreachable") and "speak TLS" in deaf["error"]["message"]


@pytest.mark.parametrize(
    ("form", "compression"),
    [
        *((form, None) for form in ("arrow", "native", "rowbinary", "parquet")),
        *((form, "zstd") for form in ("arrow", "native", "rowbinary", "parquet")),
        *((form, "lz4") for form in ("arrow", "parquet")),
    ],
)
def test_every_format_of_today(engine: Server, form: str, compression: str | None) -> None:
    options = {"format": form, "compression": compression}
    good(put(engine.url, streams=2, rows=20_000, **options), 40_000)
    record = good(get(engine.url, data=RECORDS, streams=2, rows=20_000, **options), 40_000)
    assert record["target"]["software"].startswith("ClickHouse 26.")
    assert record["counts"]["payload_bytes"] >= 40_000 * 32
    record = get(engine.url, streams=3, query=MIXED, split="hash", split_by="n", **options)
    good(record, 200_000)


def test_low_cardinality(engine: Server) -> None:
    query = "SELECT toLowCardinality(toNullable(toString(number % 9))) AS s, number AS n FROM numbers(100000)"
    for form in ("arrow", "native", "rowbinary", "parquet"):
        good(get(engine.url, streams=1, query=query, format=form), 100_000)


@pytest.mark.parametrize(
    ("server", "form"),
    [
        *(("clickhouse", form) for form in ("native", "rowbinary")),
        *(("engine", form) for form in ("arrow", "native", "rowbinary", "parquet")),
    ],
)
def test_an_exception_after_many_rows(request: pytest.FixtureRequest, server: str, form: str) -> None:
    url = request.getfixturevalue(server).url
    query = "SELECT number, throwIf(number > 2900000) AS t FROM system.numbers LIMIT 3000000"
    record = get(url, streams=1, query=query, format=form, verify="none", batch=65_536)
    said = () if form == "parquet" else ("after ", " rows: ")
    refused(record, "server", *said, "Code: 395", "Value passed to 'throwIf'")
    # The connection's settings are those of the next request.
    good(get(url, streams=1, query="SELECT 1 AS a", format=form), 1)


def test_a_table_is_got_as_a_user_does(engine: Server, tmp_path: Path) -> None:
    engine.ask("DROP TABLE IF EXISTS trips")
    engine.ask("CREATE TABLE trips (id Int64, name String) ENGINE = MergeTree ORDER BY id")
    engine.ask("INSERT INTO trips SELECT number, toString(number) FROM numbers(100000)")
    shared = ("--streams", "1,2", "--split", "key", "--split-by", "id", "--server-settings", "max_threads=1")
    records = run(tmp_path / "run", engine.url, "--table", "trips", *shared)
    assert [r["verification"]["achieved"] for r in records] == ["sums", "sums"]
    assert all(r["parameters"]["data"] == "remote" for r in records)
    assert {r["parameters"]["server_settings"] for r in records} == {"max_threads=1"}
    # One that the server refuses the query by, 158: TOO_MANY_ROWS. It must have heard of it.
    for limit, outcome in ((100, "failed"), (100_000, "ok")):
        words = ("--streams", 1, "--server-settings", f"max_rows_to_read={limit}")
        (record,) = run(tmp_path / f"{limit}", engine.url, "--table", "trips", *words)
        assert record["outcome"] == outcome
        assert outcome == "ok" or "158" in record["error"]["message"], record["error"]
