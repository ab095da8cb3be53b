"""One way to read a query into Arrow batches, printed as a line of JSON: a process of its own for every turn.

The clock and the CPU time run from the query to the last batch. Imports are not timed, and connecting only
if the library does it within the query. Batches are counted and dropped as they come, if the library returns
them one by one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from bench import trial as core

Answer = dict[str, Any]
BATCH = 65_536


def venturi(request: Answer) -> Answer:
    """A trial as `venturi run` executes it, stage clocks, latencies and samples included, rows counted."""
    record = core.trial(
        target=request["url"],
        options={"query": request["query"], "format": request["form"]},
        data={"source": "remote"},
        rows_per_batch=BATCH,
        streams=1,
        threads=1,
    )
    cpu = record["cpu"]["client"]
    return {
        "rows": record["counts"]["rows"],
        "interval_ns": record["times"]["interval_ns"],
        "client_cpu_ns": cpu["user_ns"] + cpu["system_ns"],
        "stages": record["stages"]["client"],
    }


def _timed(batches: Callable[[], Iterable[Any]]) -> Answer:
    rows = 0
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    for batch in batches():
        rows += batch.num_rows
    took = time.perf_counter_ns() - began
    return {"rows": rows, "interval_ns": took, "client_cpu_ns": time.process_time_ns() - cpu}


def connectorx(request: Answer) -> Answer:
    """As one table (`arrow`) or in batches (`arrow_stream`); it connects within the time, once."""
    import connectorx

    def batches() -> Iterable[Any]:
        more = {"batch_size": BATCH} if request["returns"] == "arrow_stream" else {}
        found = connectorx.read_sql(
            request["url"], request["query"], return_type=request["returns"], protocol=request["form"], **more
        )
        return (found,) if request["returns"] == "arrow" else found

    return _timed(batches)


def adbc(request: Answer) -> Answer:
    """ADBC's own driver for PostgreSQL, by its Python interface."""
    import adbc_driver_postgresql.dbapi as driver

    with driver.connect(request["url"].replace("postgres://", "postgresql://")) as connection:
        cursor = connection.cursor()

        def batches() -> Iterable[Any]:
            cursor.execute(request["query"])
            return cursor.fetch_record_batch()

        found = _timed(batches)
        cursor.close()
    return found


def _arrow(cursor: Any) -> Iterable[Any]:
    """Rows of a DB-API cursor as batches."""
    import pyarrow as pa

    names = [column[0] for column in cursor.description]
    while rows := cursor.fetchmany(BATCH):
        yield pa.record_batch([pa.array(values) for values in zip(*rows, strict=True)], names=names)


def psycopg(request: Answer) -> Answer:
    """A cursor of the server's, in binary."""
    import psycopg

    with (
        psycopg.connect(request["url"]) as connection,
        connection.cursor("rows", binary=True) as cursor,
    ):
        return _timed(lambda: _arrow(cursor.execute(request["query"])))


def psycopg_copy(request: Answer) -> Answer:
    """COPY in binary whose bytes are thrown away: no batches, what receiving alone costs in Python."""
    import psycopg

    with psycopg.connect(request["url"]) as connection, connection.cursor() as cursor:
        cpu, began = time.process_time_ns(), time.perf_counter_ns()
        with cursor.copy(f"COPY ({request['query']}) TO STDOUT (FORMAT binary)") as copy:
            while copy.read():
                pass
        took, cpu = time.perf_counter_ns() - began, time.process_time_ns() - cpu
        return {"rows": cursor.rowcount, "interval_ns": took, "client_cpu_ns": cpu}


def pymysql(request: Answer) -> Answer:
    """A cursor that is not buffered."""
    import pymysql.cursors

    with (
        pymysql.connect(**request["login"], cursorclass=pymysql.cursors.SSCursor) as connection,
        connection.cursor() as cursor,
    ):

        def batches() -> Iterable[Any]:
            cursor.execute(request["query"])
            return _arrow(cursor)

        return _timed(batches)


def pandas(request: Answer) -> Answer:
    """Data frames of a streamed result, each turned into a batch."""
    import pandas as pd
    import pyarrow as pa
    import sqlalchemy

    engine = sqlalchemy.create_engine(request["url"])
    with engine.connect().execution_options(stream_results=True) as connection:

        def batches() -> Iterable[Any]:
            query = sqlalchemy.text(request["query"])
            for frame in pd.read_sql(query, connection, chunksize=BATCH):
                yield pa.RecordBatch.from_pandas(frame)

        return _timed(batches)


WAYS = {way.__name__: way for way in (venturi, connectorx, adbc, psycopg, psycopg_copy, pymysql, pandas)}

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(WAYS[request["way"]](request)))
