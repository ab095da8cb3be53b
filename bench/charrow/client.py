"""One trial of one way to get a table, printed as a line of JSON: a process of its own for every trial.

Every way ends with Arrow batches in the client's memory, rows counted; its clock runs from the request to the
last batch. What connects and imports before is not timed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

Answer = dict[str, Any]


def venturi(request: Answer) -> Answer:
    """A trial as `venturi run` executes it, stage clocks, latencies and samples included, rows counted."""
    import core_trials

    scheme, streams, query = request["url"].partition(":")[0], request["streams"], request.get("query")
    scheme = scheme.partition("+")[0]
    options: Answer = {"protocol": "perf"}
    if scheme == "charrow":
        options = {name: request[name] for name in ("encoders", "decoders")}
    elif scheme == "clickhouse":
        options = {"format": request["format"], "split": "none"}
    more = {"rows_per_stream": request["rows"] // streams} if not query else {"data": {"source": "remote"}}
    record = core_trials.trial(
        target=request["url"],
        options=options | ({"query": query} if query else {}),
        rows_per_batch=request["rows_per_batch"],
        streams=streams,
        threads=streams,
        **more,
    )
    cpu = record["cpu"]["client"]
    return {
        "rows": record["counts"]["rows"],
        "bytes": record["counts"]["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "client_cpu_ns": cpu["user_ns"] + cpu["system_ns"],
    }


def tcp(request: Answer) -> Answer:
    """Raw TCP from the same server process, or its raw Unix socket."""
    import core_trials

    return _alone(core_trials.probe(request["url"], "get", request["streams"]))


def memory(request: Answer) -> Answer:
    """Copies in this process' memory, by as many threads as there are streams."""
    import core_trials

    return _alone(core_trials.memory(request["streams"]))


def _alone(record: Answer) -> Answer:
    """Of a limit."""
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
    # As the others ask for it: it would compress by itself.
    connection.query("SET output_format_arrow_compression_method = 'none'")

    def batches() -> Iterable[Any]:
        for piece in connection.send_query(request["query"], "ArrowStream"):
            yield from pa.ipc.open_stream(piece.bytes())

    return _timed(batches)


def clickhouse_connect(request: Answer) -> Answer:
    """The widely used driver over HTTP: its result as one table, or batch by batch. Server and client share
    the machine, so nothing is compressed."""
    import clickhouse_connect as driver

    client = driver.get_client(dsn=request["url"], compress=False)
    settings = {"output_format_arrow_compression_method": "none"}

    def batches() -> Iterable[Any]:
        if request["method"] == "query_arrow":
            yield from client.query_arrow(request["query"], settings=settings).to_batches()
            return
        with client.query_arrow_stream(request["query"], settings=settings) as stream:
            for piece in stream:
                yield from piece.to_batches() if hasattr(piece, "to_batches") else (piece,)

    return _timed(batches)


WAYS = {
    "venturi": venturi,
    "tcp": tcp,
    "memory": memory,
    "pyarrow-flight": pyarrow_flight,
    "chdb": chdb,
    "clickhouse-connect": clickhouse_connect,
}

if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(WAYS[asked["way"]](asked)))
