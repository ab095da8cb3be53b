"""What the tests of Spark share: a session, a table of any size made in no time, its digest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NAMES = 1000


@contextlib.contextmanager
def session(cores: int = 2, memory: str = "4g", **more: str) -> Iterator[Any]:
    """A local Spark that tells nobody of itself, knows our format, and may collect as much as there is."""
    from pyspark.sql import SparkSession

    from venturi.spark import register

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": memory,
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(cores),
        **more,
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("venturi-tests")
    made = builder.config(map=settings).getOrCreate()
    try:
        register(made)
        yield made
    finally:
        made.stop()


def read(spark: Any, url: str, **options: Any) -> Any:
    """A DataFrame of our data source."""
    reader = spark.read.format("venturi").option("url", url)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def sales(rows: int, micros: bool = True) -> pa.Table:
    """Numbers, strings, decimals, a date and times, with nulls; a million rows take a tenth of a second.
    `micros`: times have digits after the second."""
    n = np.arange(rows, dtype=np.int64)
    names = pa.array([f"näme {i}" for i in range(_NAMES)])
    step = 1_000_003 if micros else 1_000_000
    return pa.table(
        {
            "id": pa.array(n),
            "quantity": pa.array((n * 7 % 2_000_003 - 1_000_001).astype(np.int32)),
            "ratio": pa.array(n / 2, mask=n % 7 == 0),  # which old servers read exactly
            "region": names.take(pa.array(n % _NAMES, mask=n % 11 == 0)),
            "name": pc.binary_join_element_wise("customer", pa.array(n * 31 % rows).cast(pa.string()), " "),
            "price": _decimals(n * 12_347 % 10**12 - 10**11, n % 13 == 0),
            "day": pa.array((n % 19_999 + 1).astype(np.int32)).cast(pa.date32()),
            "at": pa.array(n * step, pa.timestamp("us", "UTC"), mask=n % 17 == 0),
            "ok": pa.array(n % 2 == 0),
        }
    )


def _decimals(hundredths: Any, nulls: Any) -> Any:
    """decimal(18, 2), laid out by hand: a cast would scale every value."""
    words = np.empty((len(hundredths), 2), np.int64)
    words[:, 0], words[:, 1] = hundredths, hundredths >> 63
    present = pa.array(~nulls).buffers()[1]
    return pa.Array.from_buffers(pa.decimal128(18, 2), len(hundredths), [present, pa.py_buffer(words)])


def sums(frame: Any) -> tuple[Any, ...]:
    """The rows, sums of numbers, decimals and lengths, extremes of times; and one number of all values,
    whatever their order."""
    from pyspark.sql import functions as f

    every = f.xxhash64(*frame.columns)
    found = frame.agg(
        f.count(f.lit(1)),
        f.sum("id"),
        f.sum("quantity"),
        f.sum("price"),
        f.sum(f.length("region")),
        f.count("ratio"),
        f.max("day"),
        f.max("at"),
        f.count_if("ok"),
        f.bit_xor(every),
        f.sum(every.bitwiseAND(0xFFFF)),
    )
    return tuple(found.collect()[0])


def equal(collected: pa.Table, source: pa.Table) -> None:
    """Every row of `source` was collected once, every value as it is there, whatever the order."""
    assert collected.column_names == source.column_names
    ids = collected["id"].to_numpy()
    assert len(ids) == source.num_rows
    assert (np.sort(ids) == np.arange(source.num_rows)).all(), "rows are missing, or there twice"
    expected = source.take(pa.array(ids))
    for name in source.column_names:
        found = collected[name].cast(source.schema.field(name).type)
        assert found.equals(expected[name]), f"column {name} differs"
