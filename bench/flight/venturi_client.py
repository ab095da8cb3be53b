"""One trial of Venturi's client, or of its TCP probe, printed as the C++ client prints its own.

A process of its own for every trial, as the C++ client is. The trial is what `venturi run`
would execute, latencies, stage clocks and samples included; only the check is `count`,
which is all that the C++ client does.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import core_trials


def flight(request: dict[str, Any]) -> dict[str, Any]:
    record = core_trials.trial(
        target=f"flight://{request['address']}",
        options={"protocol": "perf"},
        operation=request["operation"],
        rows_per_batch=request["rows_per_batch"],
        rows_per_stream=request["rows_per_stream"],
        streams=request["streams"],
        threads=request["streams"],
    )
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
    record = core_trials.probe(f"flight://{request['address']}", request["operation"], request["streams"])
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
