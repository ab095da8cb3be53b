"""Spark reads tables through Venturi's data source: types, columns, limits, shares, what goes wrong. That all
of a table comes is in test_spark_tables.py."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import charrow as charrow_support
from support import needs_spark  # noqa: F401  # before what imports Spark
from support.flight import Start
from support.spark import read

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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"table": "nothing"}, "nothing"),
        ({"table": "sales", "columns": "id,nothing"}, "nothing"),
    ],
)
def test_mistakes_are_named(spark: Any, charrow_url: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        read(spark, charrow_url, **options).count()
