"""One trial of either client, in a process of its own: what it took, as a line of JSON.

Both count rows, and nothing else. The clock runs from the call to its end, with the connection and the data
ready before. CPU time is that of both processes in that time.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import pyarrow.flight as flight

from bench import Line
from bench import trial as core
from bench.wide import tables


def venturi(request: Line) -> Line:
    record = core.trial(
        target=f"flight://{request['address']}",
        options={},
        operation=request["operation"],
        data={"source": "file", "path": request["file"], "ipc": request["file"]},
        rows_per_batch=request["rows_per_batch"],
        rows_per_stream=request["rows_per_batch"] * request["batches"],
        streams=1,
        threads=1,
        timeout_ns=120_000_000_000,
    )
    cpu = [record["cpu"][end] for end in ("client", "server")]
    return {
        "rows": record["counts"]["rows"],
        "payload": record["counts"]["payload_bytes"],
        "seconds": record["times"]["interval_ns"] / 1e9,
        "cpu": [(end["user_ns"] + end["system_ns"]) / 1e9 for end in cpu],
    }


def pyarrow(request: Line) -> Line:
    server = (~request["pid"] << 3) | 2  # Linux: the clock of another process's CPU time
    path = Path(request["file"])
    schema, ready = tables.batches(path)
    with flight.connect(f"grpc://{request['address']}") as client:

        def run(count: int) -> int:
            if request["operation"] == "get":
                return tables.get(client, path, count)
            return tables.put(client, schema, ready, count)

        run(max(1, request["batches"] // 20))
        cpu = [time.process_time(), time.clock_gettime(server)]
        began = time.perf_counter()
        rows = run(request["batches"])
        seconds = time.perf_counter() - began
        spent = [time.process_time() - cpu[0], time.clock_gettime(server) - cpu[1]]
    return {"rows": rows, "seconds": seconds, "cpu": spent}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps({"venturi": venturi, "pyarrow": pyarrow}[request["way"]](request)))
