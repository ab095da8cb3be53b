"""One trial of Venturi's client, or of its TCP probe, printed as the C++ client prints its own.

Each trial is a process, as each of the C++ client is. It is what `venturi run` would execute, with latencies,
stage clocks and samples; only the check is `count`, which is all that the C++ client does.
"""

from __future__ import annotations

import json
import sys

from bench import Line
from bench import trial as core


def flight(request: Line) -> Line:
    record = core.trial(
        target=f"flight://{request['address']}",
        options={"protocol": "perf"},
        operation=request["operation"],
        rows_per_batch=request["rows_per_batch"],
        rows_per_stream=request["rows_per_stream"],
        streams=request["streams"],
        threads=request["streams"],
    )
    counts = record["counts"]
    return {
        "rows": counts["rows"],
        "bytes": counts["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        **record["cpu"]["client"],
    }


def probe(request: Line) -> Line:
    record = core.probe(f"flight://{request['address']}", request["operation"], request["streams"])
    return {"bytes": record["bytes"], "interval_ns": record["interval_ns"], "user_ns": 0, "system_ns": 0}


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    print(json.dumps(probe(request) if request["client"] == "probe" else flight(request)))
