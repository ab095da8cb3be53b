"""One trial of Venturi's, in a process of its own: the spec as JSON, the figures that all clients print."""

from __future__ import annotations

import json
import sys

from venturi import _core


def main() -> None:
    record = json.loads(_core.run_trial(sys.argv[1], _core.Control()))
    if record["outcome"] != "ok":
        raise SystemExit(f"error: {record['error']}")
    cpu = record["cpu"]["client"]
    sampler = (record.get("resources") or {}).get("sampler") or {}
    figures = {
        "rows": record["counts"]["rows"],
        "seconds": record["times"]["interval_ns"] / 1e9,
        "cpu": (cpu["user_ns"] + cpu["system_ns"]) / 1e9,
        "sampler_cpu": (sampler.get("cpu_ns") or 0) / 1e9,
        "software": record["target"]["software"],
        "errors": record.get("errors"),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
