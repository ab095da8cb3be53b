"""One trial of one way to get a table, printed as a line of JSON: a process of its own for every trial.

Every way ends with Arrow batches in the client's memory, rows counted. Its clock runs from the request to the
last batch; connecting and importing come before.
"""

from __future__ import annotations

import json
import sys

from bench import Line
from bench import trial as core


def venturi(request: Line) -> Line:
    """A trial as `venturi run` executes it, with stage clocks, latencies and samples; rows are counted."""
    charrow = request["url"].startswith("charrow")
    record = core.trial(
        target=request["url"],
        options={name: request[name] for name in ("encoders", "decoders")}
        if charrow
        else {"protocol": "perf"},
        rows_per_batch=request["rows_per_batch"],
        rows_per_stream=request["rows"] // request["streams"],
        streams=request["streams"],
        threads=request["streams"],
        timeout_ns=170_000_000_000,
    )
    cpu = record["cpu"]["client"]
    return {
        "rows": record["counts"]["rows"],
        "bytes": record["counts"]["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "client_cpu_ns": cpu["user_ns"] + cpu["system_ns"],
    }


def raw(request: Line) -> Line:
    """Raw TCP from the same server process, or its raw Unix socket."""
    record = core.probe(request["url"], "get", request["streams"])
    return {"bytes": record["bytes"], "interval_ns": record["interval_ns"]}


def memory(request: Line) -> Line:
    """Copies in this process's memory, by as many threads as there are streams."""
    record = core.memory(request["streams"])
    return {"bytes": record["bytes"], "interval_ns": record["interval_ns"]}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps({"venturi": venturi, "raw": raw, "memory": memory}[request["way"]](request)))
