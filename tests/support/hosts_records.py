"""Records of several hosts with a known truth: what loaders, servers and places did, by formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import synthetic
from venturi.analysis.results import Results
from venturi.report import run as runs
from venturi.report import terminal

ADDRESSES = ("10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5", "10.77.0.6")


def spread(loaders: int, servers: int = 1, slow: int | None = None) -> synthetic.Edit:
    """Gives a line `loaders` hosts and `servers` servers; the one numbered `slow` takes twice as long as the
    others, and the trial as long as it does. Loader i is a core's half busy, 100 (i + 1) us late."""

    def edit(line: dict[str, Any]) -> dict[str, Any]:
        p = line["parameters"]
        n = p.get("loaders") or loaders
        line["target"] |= {
            "address": ",".join(f"10.77.0.{10 + i}:31337" for i in range(servers)),
            "servers": servers,
        }
        streams = line["streams"]
        interval = line["times"]["interval_ns"]
        hosts, first = [], 0
        for i in range(n):
            count = len(streams) // n + (1 if i < len(streams) % n else 0)
            own = streams[first : first + count]
            took = interval if slow is None or i == slow else interval // 2
            if took < interval:
                for stream in own:
                    stream["end_ns"] //= 2
            hosts.append(
                {
                    **{"host": f"loader-{i + 1}", "address": ADDRESSES[i % len(ADDRESSES)]},
                    **{"node": f"node{i + 1}", "role": "loader", "lead": i == 0, "streams": [first, count]},
                    **{"rows": sum(s["rows"] for s in own), "batches": sum(s["batches"] for s in own)},
                    **{"payload_bytes": sum(s["payload_bytes"] for s in own), "interval_ns": took},
                    **{"start_skew_ns": 100_000 * (i + 1)},
                    **{"clock": {"offset_ns": -1_500_000 * i, "uncertainty_ns": 40_000}},
                    **{"cpu": {"user_ns": took // 4, "system_ns": took // 4}},
                    **{"resources": {"host": {"cores": 8, "busy_share": 0.1 * (i + 1)}}, "outcome": "ok"},
                    **{"error": None},
                }
            )
            first += count
        return line | {"hosts": hosts}

    return edit


def placed(matrix: list[dict[str, Any]], loaders: int | None = None) -> list[dict[str, Any]]:
    """The cells as `--on ray://...` has them."""
    return [{**p, "on": "ray", "loaders": p.get("loaders", loaders)} for p in matrix]


def both_places(path: Path, streams: tuple[int, ...] = (1, 2, 4), **options: Any) -> Path:
    """A run with both places: the model's remote rate is 0.7 of its local one."""
    return synthetic.make_run(path, synthetic.cells(("get",), streams, ("local", "remote")), **options)


def shown(results: Results, width: int = 100) -> str:
    return terminal.text(runs.document(results, brief=True), width).rstrip("\n")


def record(
    operation: str, streams: int, rows: int, ns: float, repeat: int = 0, **more: Any
) -> dict[str, Any]:
    """As little of a trial as a fit needs: rows of 32 bytes."""
    p = {"operation": operation, "streams": streams, "rows_per_stream": rows, **more}
    return {
        "cell": "-".join(f"{v}" for v in p.values()),
        "repeat": repeat,
        "parameters": p,
        "outcome": "ok",
        "counts": {"rows": rows * streams, "payload_bytes": 32 * rows * streams},
        "times": {"interval_ns": int(ns)},
    }
