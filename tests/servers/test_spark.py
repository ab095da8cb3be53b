"""Spark reads tables through Venturi's data source: types, columns, limits, shares, what goes wrong. It has
the whole of a table over each of the three ways: counts, sums and every value, against its source.

That table has 300,000 rows. VENTURI_SPARK_ROWS=10000000 makes it ten million, which takes some minutes and
9 GB of memory.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support import charrow as charrow_support
from support import needs_spark  # noqa: F401  # before what imports Spark
from support.clickhouse import Server, clickhouse, engine  # noqa: F401 - fixtures
from support.flight import Start
from support.spark import equal, read, sales, sums

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.xdist_group("spark")]
ROWS = 2000


def table(rows: int) -> Any:
    """Strings, nulls, decimals, dates, timestamps and what Spark has no type of its own for."""
    numbers = range(rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "small": pa.array((n % 256 for n in numbers), pa.uint8()),
            "count": pa.array((n * 3 for n in numbers), pa.uint64()),
            "ratio": pa.array((None if n % 7 == 0 else n / 3 for n in numbers), pa.float64()),
            "name": pa.array((None if n % 11 == 0 else f"näme {n % 1000}" for n in numbers), pa.string()),
            "price": pa.array((Decimal(n) / 100 for n in numbers), pa.decimal128(18, 2)),
            "day": pa.array((n % 20_000 for n in numbers), pa.int32()).cast(pa.date32()),
            "at": pa.array((n * 1_000_001 for n in numbers), pa.timestamp("ns", "Europe/Berlin")),
            "local": pa.array((n * 1_001 for n in numbers), pa.timestamp("us")),
            "ok": pa.array((n % 2 == 0 for n in numbers), pa.bool_()),
            "raw": pa.array((b"\x00\xff" * (n % 3) for n in numbers), pa.binary()),
            "list": pa.array(([n, n + 1] for n in numbers), pa.list_(pa.int32())),
        }
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("spark") / "table.parquet"
    pq.write_table(table(ROWS), path, row_group_size=256)
    return path


@pytest.fixture(scope="module")
def flight_url(start_reference_server: Start, file: Path) -> str:
    return f"flight://{start_reference_server('--data', f'sales={file}').address}"


def test_flight(spark: Any, flight_url: str) -> None:
    frame = read(spark, flight_url, table="sales")
    assert dict(frame.dtypes) == {
        **{"id": "bigint", "small": "smallint", "count": "decimal(20,0)", "ratio": "double"},
        **{"name": "string", "price": "decimal(18,2)", "day": "date", "at": "timestamp"},
        **{"local": "timestamp_ntz", "ok": "boolean", "raw": "binary", "list": "array<int>"},
    }
    collected = sorted(frame.collect())
    assert len(collected) == ROWS
    for got, want in zip(collected, table(ROWS).to_pylist(), strict=True):
        want["at"] = datetime.datetime.fromtimestamp(0) + datetime.timedelta(
            microseconds=want["id"] * 1_000_001 // 1000
        )
        want["raw"] = bytearray(want["raw"])
        assert got.asDict() == want


@pytest.fixture(scope="module")
def charrow_url(core: object, file: Path) -> Iterator[str]:
    with charrow_support.serving("--table", f"sales={file}") as server:
        yield f"charrow://{server.address}"


def test_what_the_server_does(spark: Any, charrow_url: str) -> None:
    """Columns and a limit; a schema of one's own is a list of columns too."""
    few = read(spark, charrow_url, table="sales", columns="name,id", limit=1000, partitions=2)
    assert few.columns == ["name", "id"] and few.count() == 1000
    reader = spark.read.format("venturi").schema("price decimal(18,2), id bigint")
    told = reader.option("url", charrow_url).option("table", "sales").load()
    assert told.columns == ["price", "id"]
    assert told.selectExpr("sum(id)").collect()[0][0] == ROWS * (ROWS - 1) // 2


def test_a_limit_of_spark_harms_nobody(spark: Any, charrow_url: str) -> None:
    """Tasks that have enough leave, and the others go on."""
    endless = {"table": "records(columns = 2, block_rows = 1000)", "partitions": 4}
    frame = read(spark, charrow_url, **endless)
    assert len(frame.take(5000)) == 5000
    assert frame.limit(3000).groupBy().count().collect()[0][0] == 3000
    whole = read(spark, charrow_url, table="records(rows = 50, block_rows = 10)", partitions=4)
    assert len(whole.take(100)) == 50


def test_a_share_is_dealt_once(spark: Any, charrow_url: str) -> None:
    """Each action asks anew; a task that is run again within one must not get other rows for its share."""
    frame = read(spark, charrow_url, table="sales", partitions=2).select("id")
    for _ in range(2):
        assert len(frame.collect()) == ROWS
    rows = frame.rdd  # outside of Spark SQL, where actions have no names
    assert rows.count() == ROWS
    with pytest.raises(Exception, match="has had its share already"):
        rows.count()


def test_the_dead_fail_the_job(spark: Any, charrow_url: str) -> None:
    frame = read(spark, charrow_url, table="records(block_rows = 1000)", partitions=2)

    def dies(rows: Iterator[Any]) -> Iterator[Any]:
        next(rows)
        os._exit(1)
        yield from rows

    with pytest.raises(Exception, match=r"went away after|has had its share already|exited unexpectedly"):
        frame.rdd.mapPartitions(dies).count()


SALES = int(os.environ.get("VENTURI_SPARK_ROWS", "300000"))


@pytest.fixture(scope="module")
def source() -> Any:
    return sales(SALES)


@pytest.fixture(scope="module")
def sales_file(tmp_path_factory: pytest.TempPathFactory, source: Any) -> Path:
    path = tmp_path_factory.mktemp("spark") / "sales.parquet"
    pq.write_table(source, path, row_group_size=16_384)
    return path


@pytest.fixture(scope="module")
def expected(spark: Any, sales_file: Path, source: Any) -> tuple[Any, ...]:
    """Of the source itself, as Spark reads its file and as Arrow counts it."""
    found = sums(spark.read.parquet(str(sales_file)))
    assert found[:9] == (
        SALES,
        SALES * (SALES - 1) // 2,
        pc.sum(source["quantity"]).as_py(),
        pc.sum(source["price"]).as_py(),
        pc.sum(pc.utf8_length(source["region"])).as_py(),
        pc.count(source["ratio"]).as_py(),
        pc.max(source["day"]).as_py(),
        pc.max(source["at"]).as_py().replace(tzinfo=None),
        pc.sum(source["ok"]).as_py(),
    )
    return found


def whole(frame: Any, expected: tuple[Any, ...], source: Any) -> None:
    assert sums(frame) == expected
    # Java has what a task answers several times over, and charrow deals the whole table to the few that run.
    small = frame if SALES <= 2_000_000 else frame.repartition(SALES // 500_000)
    equal(small.toArrow(), source)


def test_the_whole_table_by_charrow(
    spark: Any, sales_file: Path, source: Any, expected: tuple[Any, ...]
) -> None:
    with charrow_support.serving("--table", f"sales={sales_file}") as server:
        options = {"partitions": 2, "encoders": 2, "checksum": True}
        frame = read(spark, f"charrow://{server.address}", table="sales", **options)
        assert frame.rdd.getNumPartitions() == 2
        whole(frame, expected, source)


def test_the_whole_table_by_flight(
    spark: Any, sales_file: Path, source: Any, expected: tuple[Any, ...], start_reference_server: Start
) -> None:
    server = start_reference_server("--data", f"sales={sales_file}")
    whole(read(spark, f"flight://{server.address}", table="sales"), expected, source)
    server.stop()


@pytest.fixture(scope="module")
def stored(engine: Server, sales_file: Path) -> Server:  # noqa: F811
    """ClickHouse's engine of today with the table in it."""
    rows = f"SELECT * FROM file('{sales_file}', Parquet)"
    engine.ask(f"CREATE TABLE sales ENGINE = MergeTree ORDER BY tuple() AS {rows}")
    return engine


@pytest.mark.parametrize("split", [{"partitions": 1}, {"partitions": 3}, {"partitions": 2, "split_by": "id"}])
def test_the_whole_table_by_clickhouse(
    spark: Any, stored: Server, source: Any, expected: tuple[Any, ...], split: dict[str, Any]
) -> None:
    """A null in any of the columns must not lose its row, however the rows are shared."""
    frame = read(spark, stored.url, table="sales", **split)
    assert frame.rdd.getNumPartitions() == split["partitions"]
    if split["partitions"] == 2:
        whole(frame, expected, source)
    else:
        assert sums(frame) == expected


def test_what_clickhouse_does(spark: Any, stored: Server) -> None:
    """Columns, a limit, a query, a schema of one's own, and packed answers."""
    few = read(spark, stored.url, table="sales", columns="name,id", limit=1000, partitions=2)
    assert few.columns == ["name", "id"] and few.count() == 1000
    query = "SELECT region, sum(price) AS total FROM sales WHERE id % 2 = 0 GROUP BY region"
    asked = read(spark, stored.url, query=query, partitions=2, compression="zstd", split_by="region")
    table = spark.read.format("venturi").schema("price decimal(18,2), id bigint, region string")
    mine = table.option("url", stored.url).option("table", "sales").load()
    expected = mine.where("id % 2 = 0").groupBy("region").agg({"price": "sum"})
    assert sorted(map(tuple, asked.collect()), key=str) == sorted(map(tuple, expected.collect()), key=str)


def test_types_of_clickhouse(spark: Any, engine: Server) -> None:  # noqa: F811
    """A DateTime is a time, though it comes as a number; a UInt32 stays one."""
    query = (
        "SELECT toDateTime(number * 86400, 'Europe/Berlin') AS at, toUInt32(number) AS n, "
        "toNullable(toDateTime('2026-03-01 00:00:00', 'UTC')) AS maybe, toDate(number) AS day, "
        "toDecimal64(number, 3) AS price, toLowCardinality(toString(number)) AS text, "
        "if(number = 1, NULL, toFloat64(number)) AS ratio, toUInt64(number) AS large FROM numbers(3)"
    )
    frame = read(spark, engine.url, query=query, partitions=2, split_by="n")
    assert dict(frame.dtypes) == {
        **{"at": "timestamp", "n": "bigint", "maybe": "timestamp", "day": "date"},
        **{"price": "decimal(18,3)", "text": "string", "ratio": "double", "large": "decimal(20,0)"},
    }
    got = frame.selectExpr(
        "n", "unix_seconds(at)", "date_format(maybe, 'yyyy-MM-dd HH:mm')", "price", "ratio"
    )
    assert [tuple(row) for row in sorted(got.collect())] == [
        (n, n * 86400, "2026-03-01 00:00", Decimal(n), None if n == 1 else float(n)) for n in range(3)
    ]


BREAKS_OFF = "SELECT number, throwIf(number > 2900000, 'on purpose') AS t FROM numbers(3000000)"


@pytest.mark.parametrize(
    ("at", "options", "said"),
    [
        ("charrow_url", {"table": "nothing"}, "nothing"),
        ("charrow_url", {"table": "sales", "columns": "id,nothing"}, "nothing"),
        ("stored", {"table": "nothing"}, "answers [45].*Code: 60"),
        (
            "stored",
            {"query": "SELECT toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba0') AS u"},
            "u: Spark has no type",
        ),
        ("stored", {"table": "sales", "encoders": "2"}, "'encoders' means nothing for clickhouse://"),
        ("engine", {"query": BREAKS_OFF, "partitions": "1"}, "the server's answer cannot be read"),
        ("clickhouse", {"user": "venturi", "query": "SELECT 1 AS a"}, "does not know: it is too old"),
    ],
)
def test_mistakes_are_named(
    spark: Any, request: pytest.FixtureRequest, at: str, options: dict[str, str], said: str
) -> None:
    """So are an answer that breaks off, and a server without Arrow."""
    server = request.getfixturevalue(at)
    with pytest.raises(Exception, match=said):
        read(spark, server if at == "charrow_url" else server.url, **options).count()
