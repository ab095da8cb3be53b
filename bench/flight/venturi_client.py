"""One trial of Venturi's client, or of its TCP probe, printed as the C++ client prints its own.

A process of its own for every trial, as the C++ client is. The trial is what `venturi run`
would execute, latencies, stage clocks and samples included; only the check is `count`,
which is all that the C++ client does.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

from venturi import _core


def flight(request: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "trial": uuid.uuid4().hex,
        "target": f"flight://{request['address']}",
        "options": {"protocol": "perf"},
        "operation": request["operation"],
        "data": {"source": "records", "columns": 4, "values": "random", "seed": 1},
        "rows_per_batch": request["rows_per_batch"],
        "rows_per_stream": request["rows_per_stream"],
        "streams": request["streams"],
        "threads": request["streams"],
        "verify": "count",
    }
    record = json.loads(_core.run_trial(json.dumps(spec), _core.Control()))
    if record["outcome"] != "ok":
        raise SystemExit(f"error: {record['error']}")
    counts, cpu = record["counts"], record["cpu"]["client"]
    return {
        "operation": request["operation"],
        "streams": request["streams"],
        "rows": counts["rows"],
        "bytes": counts["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "batches": counts["batches"],
        "user_ns": cpu["user_ns"],
        "system_ns": cpu["system_ns"],
        "stages": record["stages"],
    }


def probe(request: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "target": f"flight://{request['address']}",
        "direction": request["operation"],
        "streams": request["streams"],
        "message_bytes": request["rows_per_batch"] * 32,
        "duration_ns": 500_000_000,
    }
    record = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    if record["outcome"] != "ok":
        raise SystemExit(f"error: {record['error']}")
    return {
        "operation": request["operation"],
        "streams": request["streams"],
        "bytes": record["bytes"],
        "interval_ns": record["interval_ns"],
        "batches": 0,
        "user_ns": 0,
        "system_ns": 0,
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(probe(asked) if asked["kind"] == "probe" else flight(asked)))
