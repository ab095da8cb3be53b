"""Spark reads what Venturi measures: `spark.read.format("venturi").option("url", "charrow://...")`.

Arrow batches go from the socket to Spark as they are: no row is made in Python. docs/spark.md.
"""

from __future__ import annotations

import contextlib
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from venturi.common.errors import VenturiError
from venturi.spark.options import Options
from venturi.spark.transports import spark_schema, transport


def register(session: Any) -> None:
    """Makes the format "venturi" known to a Spark session. Spark runs a data source in a Python that it
    starts: `python3`, where nobody has named one. For a local master that becomes this one, which has
    Venturi."""
    context = getattr(session, "_sc", None)  # a session of Spark Connect has none
    if context is not None and context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    session.dataSource.register(VenturiSource)


class VenturiSource(DataSource):
    """The data source; its options are those of `Options`. The server does `columns` and `limit`."""

    @classmethod
    def name(cls) -> str:
        return "venturi"

    def schema(self) -> StructType:
        with _in_a_line():
            options = Options.parse(_plain(self.options))
            return spark_schema(transport(options).schema())

    def reader(self, schema: StructType) -> Reader:
        with _in_a_line():
            return Reader(Options.parse(_plain(self.options)), schema)


class Share(InputPartition):
    """What one Spark task reads."""

    def __init__(self, index: int, share: Any, run: str) -> None:
        super().__init__(index)
        self.share = share
        self.run = run


class Reader(DataSourceReader):
    """Reads the columns of `schema` in parallel, by their names."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[Share]:
        with _in_a_line():
            names = tuple(self._schema.names)
            shares = transport(self._options).shares(names, self._options.partitions or _cores())
        run = uuid.uuid4().hex
        return [Share(index, share, run) for index, share in enumerate(shares)] or [Share(0, None, run)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Share)
        if partition.share is None:
            return
        with _in_a_line():
            yield from self._read(partition)

    def _read(self, partition: Share) -> Iterator[Any]:
        wanted = _as_spark_reads(self._schema)
        for batch in transport(self._options).read(partition.share, f"{partition.run}-{_action()}"):
            if batch.schema.names != wanted.names:
                raise VenturiError(
                    f"the server's columns are {', '.join(batch.schema.names)}; planned were "
                    f"{', '.join(wanted.names)}",
                    hint="the table has changed since the plan was made: read it again",
                )
            if batch.num_rows:
                yield batch if batch.schema == wanted else _cast(batch, wanted)


@contextlib.contextmanager
def _in_a_line() -> Iterator[None]:
    """Spark shows what an error says, and not its hint."""
    from http.client import HTTPException

    import pyarrow as pa

    try:
        yield
    except VenturiError as error:
        raise VenturiError(f"{error.message}; {error.hint}" if error.hint else error.message) from None
    except (pa.ArrowException, OSError, HTTPException) as error:
        reason = " ".join(str(error).split())
        raise VenturiError(f"the server's answer cannot be read: {reason or type(error).__name__}") from None


def _as_spark_reads(schema: StructType) -> Any:
    """The Arrow schema that Spark compares the first batch with, to the names of a list's items."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def _cast(batch: Any, schema: Any) -> Any:
    """The batch in Spark's types; nanoseconds are cut off."""
    import pyarrow as pa

    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            if column.type == pa.uint32() and pa.types.is_timestamp(field.type):
                # ClickHouse's DateTime: the number of a second.
                column = column.cast(pa.int64()).cast(pa.timestamp("s", field.type.tz))
            columns.append(column.cast(field.type, safe=not pa.types.is_temporal(field.type)))
        except pa.ArrowException as error:
            reason = " ".join(str(error).split())
            raise VenturiError(
                f"column {field.name}: {column.type} does not become {field.type}: {reason}"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _action() -> str:
    """Names the action that runs. Spark plans a DataFrame once; the tasks of each action share a query."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return (context and context.getLocalProperty("spark.sql.execution.id")) or "none"


def _cores() -> int:
    from venturi.common.environment import usable_cores

    return usable_cores()


def _plain(options: Mapping[str, str]) -> dict[str, str]:
    return {str(name): str(value) for name, value in options.items()}
