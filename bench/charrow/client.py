"""One trial of one way to get a table, printed as a line of JSON: a process of its own for every trial.

Every way ends with Arrow batches in the client's memory, rows counted; its clock runs from the request to the
last batch. What connects and imports before is not timed.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from typing import Any

Answer = dict[str, Any]


def venturi(request: Answer) -> Answer:
    """A trial as `venturi run` executes it, stage clocks, latencies and samples included, rows counted."""
    from venturi import _core

    flight = request["url"].startswith("flight")
    options: Answer = {"protocol": "perf"} if flight else {n: request[n] for n in ("encoders", "decoders")}
    data: Answer = {"source": "records", "columns": 4, "values": "random", "seed": 1}
    if request.get("query"):
        options["query"], data = request["query"], {"source": "remote"}
    rows = request.get("rows")
    spec = {
        "trial": uuid.uuid4().hex,
        "target": request["url"],
        "options": options,
        "operation": "get",
        "data": data,
        "rows_per_batch": request["rows_per_batch"],
        "rows_per_stream": rows // request["streams"] if rows and not request.get("query") else None,
        "streams": request["streams"],
        "threads": request["streams"],
        "verify": "count",
    }
    record = json.loads(_core.run_trial(json.dumps(spec), _core.Control()))
    if record["outcome"] != "ok":
        raise SystemExit(f"error: {record['error']}")
    cpu = record["cpu"]["client"]
    return {
        "rows": record["counts"]["rows"],
        "bytes": record["counts"]["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "client_cpu_ns": cpu["user_ns"] + cpu["system_ns"],
    }


def tcp(request: Answer) -> Answer:
    """Raw TCP from the same server process, messages as large as the blocks."""
    from venturi import _core

    spec = {
        "target": request["url"],
        "options": {},
        "direction": "get",
        "streams": request["streams"],
        "message_bytes": request["rows_per_batch"] * 32,
        "duration_ns": 500_000_000,
    }
    record = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    if record["outcome"] != "ok":
        raise SystemExit(f"error: {record['error']}")
    return {
        "rows": None,
        "bytes": record["bytes"],
        "interval_ns": record["interval_ns"],
        "client_cpu_ns": None,
    }


def _timed(batches: Callable[[], Iterable[Any]]) -> Answer:
    """Pulls all batches and counts them; bytes as Arrow's own buffers have them."""
    rows = moved = 0
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    for batch in batches():
        rows += batch.num_rows
        moved += batch.nbytes
    took = time.perf_counter_ns() - began
    return {
        "rows": rows,
        "bytes": moved,
        "interval_ns": took,
        "client_cpu_ns": time.process_time_ns() - cpu,
    }


def pyarrow_flight(request: Answer) -> Answer:
    """Python's Flight client, as its documentation shows, a path of a Flight server."""
    from pyarrow import flight

    client = flight.FlightClient(request["url"].replace("flight://", "grpc://"))
    info = client.get_flight_info(flight.FlightDescriptor.for_path(request["path"]))
    reader = client.do_get(info.endpoints[0].ticket)
    return _timed(lambda: (chunk.data for chunk in reader))


def chdb(request: Answer) -> Answer:
    """ClickHouse's engine in this process, its result streamed as Arrow: no transport at all."""
    import chdb
    import pyarrow as pa

    connection = chdb.connect(":memory:")
    connection.query("SELECT 1")

    def batches() -> Iterable[Any]:
        for piece in connection.send_query(request["query"], "ArrowStream"):
            yield from pa.ipc.open_stream(piece.bytes())

    return _timed(batches)


def clickhouse_connect(request: Answer) -> Answer:
    """The widely used driver over HTTP; its result is one table."""
    import clickhouse_connect as driver

    client = driver.get_client(dsn=request["url"])
    return _timed(lambda: client.query_arrow(request["query"]).to_batches())


WAYS = {
    "venturi": venturi,
    "tcp": tcp,
    "pyarrow-flight": pyarrow_flight,
    "chdb": chdb,
    "clickhouse-connect": clickhouse_connect,
}

if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(WAYS[asked["way"]](asked)))
