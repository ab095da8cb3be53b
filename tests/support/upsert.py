"""Trials of upserts made by formula after docs/format.md: what the tests of figures, verdicts and reports of
databases read. A batch of n rows takes a + n/b; nothing here was measured.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from support import verdict
from venturi.common import hdr
from venturi.plan.cell import Cell
from venturi.store.writer import RunWriter

SECOND = 1_000_000_000
BATCH_NS = 400_000.0
"""a: what a batch costs."""
ROW_NS = 4_000.0
"""1/b: what a row costs, on one connection."""
ROW_BYTES = 67.0
ENVIRONMENT = {
    "run": "20261121-180000-upserts",
    "command": ["venturi", "run", "--target", "mysql://local", "--operation", "upsert", "--duration", "10s"],
    "started_unix_ns": 1_790_000_000_000_000_000,
    "client": {"host": "bench-1", "cpu": "Model CPU", "cores": {"logical": 8, "usable": 8}},
    "server": None,
}
MOST_CONNECTIONS = 4
"""Beyond so many connections the server does no more."""


def parameters(streams: int = 4, rows_per_batch: int = 500, **more: Any) -> dict[str, Any]:
    return {
        **{"operation": "upsert", "place": "local", "target": "mysql://local/venturi", "data": "usage"},
        **{"working_set": 1_000_000, "seed": 1, "row_bytes": ROW_BYTES, "rows_per_batch": rows_per_batch},
        **{"rows_per_stream": None, "duration_ns": 10 * SECOND, "streams": streams, "threads": streams},
        **{"in_flight": 1, "generate": "ahead", "max_errors": 0, "retries": 0, "statement": "text"},
        **{"rate": None, "verify": "checksum"},
        **more,
    }


def end(busy: float = 0.3, cores: int = 8, **parts: Any) -> dict[str, Any]:
    """One end's resources in ten seconds; `parts` as those of `verdict.end`."""
    found = verdict.end(busy, cores, process={"user_ns": 0, "system_ns": 0}, sockets={"rtt_ns": 60_000})
    more = {name: None if fields is None else {**found[name], **fields} for name, fields in parts.items()}
    return {**found, "window_ns": 10 * SECOND, **more}


def process(thread: float | None = None, waits_ns: int = 0) -> dict[str, Any]:
    """A database's process as the client's host sees it; its busiest thread fills so much of a core, and it
    waits so long for a CPU."""
    hidden = ("host", "cgroup", "network", "disk", "sockets")
    found = {**end(), "by": "client", **dict.fromkeys(hidden)}
    found["process"] = {**found["process"], "run_delay_ns": waits_ns}
    if thread is not None:
        found["process"] = {**found["process"], "threads": [{"name": "mariadbd", "cpu_share": thread}]}
    return found


def trial(
    given: Mapping[str, Any] | None = None,
    *,
    repeat: int = 0,
    client: Mapping[str, float] | None = None,
    cpu: tuple[float, float | None] = (0.2, 2.0),
    client_end: dict[str, Any] | None = None,
    server_end: dict[str, Any] | None = None,
    batch_ns: float | None = None,
    same_machine: bool | None = True,
    round_trip: int | None = 50_000,
    noise: float = 0.01,
    errors: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A trial of ten seconds. `client` are shares of its worker time, `cpu` cores of both ends; `batch_ns` is
    the mean time of a batch, else by the formula."""
    p = parameters(**(given or {}))
    streams, rows, lanes = p["streams"], p["rows_per_batch"], p["streams"] * p["in_flight"]
    cell = Cell(p).id
    chance = random.Random(f"{cell}/{repeat}")
    crowd = max(1.0, lanes / MOST_CONNECTIONS)
    each = (batch_ns or (BATCH_NS + ROW_NS * rows) * crowd) * (1 + noise * chance.gauss(0, 1))
    interval = 10 * SECOND + int(each / 2)
    batches = int(lanes * interval / each)
    if p["rate"]:
        batches = min(batches, int(p["rate"] * 10))
    # Log-normal round the mean; the longest are commits that met a checkpoint.
    points = [each * chance.lognormvariate(-0.02, 0.2) for _ in range(400)] + [8 * each, 20 * each]
    counts: dict[int, int] = {}
    for at, value in enumerate(points):
        share = batches // 402 + 1 if at < 400 else 2
        counts[int(value)] = counts.get(int(value), 0) + share
    service = hdr.summary(counts)
    response = None
    schedule = None
    if p["rate"]:
        held = lanes * SECOND / each >= p["rate"]
        late = {
            int(v + (0 if held else 10 * SECOND * (at / 402))): n for at, (v, n) in enumerate(counts.items())
        }
        response = hdr.summary(late)
        intended = int(p["rate"] * 10)
        schedule = {
            "rate": p["rate"],
            "intended": intended,
            "late": 0 if held else batches,
            "max_lag_ns": 0 if held else 9 * SECOND,
        }
    client = {"send": 0.08, "await_reply": 0.92} if client is None else client
    spent = 10 * SECOND * lanes
    found = errors or {}
    doubt = (found.get("in_doubt") or {}).get("rows", 0)
    hits = 200 * rows * batches
    # What both ends use of eight cores, and a little for the kernel.
    idle = (cpu[0] + (cpu[1] or 0.0)) / 8 + 0.02
    return {
        "format": 1, "kind": "trial", "run": ENVIRONMENT["run"], "trial": f"{cell}-{repeat}", "cell": cell,
        "repeat": repeat, "warmup": False, "order": repeat, "outcome": "ok", "error": None, "parameters": p,
        "target": {"address": "127.0.0.1:3306", "software": "MariaDB 10.11", "reference": False,
                   "protocol": "mysql", "pid": 4711, "round_trip_ns": round_trip},
        "counts": {"rows": rows * batches, "batches": batches, "stored_bytes": 96_000_000,
                   "payload_bytes": int(ROW_BYTES * rows * batches), "wire_bytes": 0},
        "times": {"started_unix_ns": 0, "setup_ns": SECOND, "interval_ns": interval, "verify_ns": SECOND,
                  "start_skew_ns": 0, "steady_ns": interval, "steady_rows": rows * batches,
                  "steady_payload_bytes": int(ROW_BYTES * rows * batches)},
        "verification": {"requested": "checksum", "achieved": "sums", "expected_rows": 800_000,
                         "rows": 800_000, "expected_checksum": None, "checksum": None, "note": None,
                         "sums": [{"column": "hits", "expected": str(hits), "in_doubt": str(200 * doubt),
                                   "found": str(hits)}]},
        "errors": errors,
        "cpu": {"client": _cpu(cpu[0]), "server": None if cpu[1] is None else _cpu(cpu[1])},
        "stages": {"client": {n: int(s * spent) for n, s in client.items()}, "server": None},
        "workers": {"client": {"workers": lanes, "time_ns": spent}, "server": None},
        "resources": {
            "same_machine": same_machine,
            "clock": {"offset_ns": 0, "uncertainty_ns": 0},
            "sampler": {"samples": 100, "cpu_ns": 0, "share": 0.0005},
            "client": _used(end(idle) if client_end is None else client_end, cpu[0]),
            "server": _used(process() if server_end is None else (server_end or None), cpu[1]),
        },
        "streams": [
            {"stream": s, "thread": s, "rows": rows * batches // streams, "batches": batches // streams,
             "payload_bytes": 0, "start_ns": 0, "first_batch_ns": int(each), "end_ns": interval,
             "connect_ns": 500_000, "stages": {}}
            for s in range(streams)
        ],
        "latency": {"service": service, "response": response},
        "schedule": schedule, "pin": None,
        "instrument": {"clock_read_ns": 22.0, "clock_reads": 4 * batches, "share": 0.00002},
        **more,
    }  # fmt: skip


def _used(found: dict[str, Any] | None, cores: float | None) -> dict[str, Any] | None:
    if found is not None and cores is not None:
        found["process"] = {**found["process"], **_cpu(cores)}
    return found


def _cpu(cores: float) -> dict[str, int]:
    return {"user_ns": int(cores * 7 * SECOND), "system_ns": int(cores * 3 * SECOND)}


def repeated(
    given: Mapping[str, Any] | None = None, repeats: int = 5, **settings: Any
) -> list[dict[str, Any]]:
    return [trial(given, repeat=r, **settings) for r in range(repeats)]


def sweep(
    streams: Iterable[int] = (4,), batches: Iterable[int] = (500,), repeats: int = 5, **more: Any
) -> list[dict[str, Any]]:
    """Trials over connections and rows per batch."""
    cells = [{"streams": s, "rows_per_batch": n, **more} for s in streams for n in batches]
    return [line for one in cells for line in repeated(one, repeats)]


def make_run(path: Path, lines: Iterable[Mapping[str, Any]]) -> Path:
    """A run directory of these lines."""
    with RunWriter.create(path) as writer:
        writer.write_scenario('name = "upserts"\n\n[workload]\noperation = "upsert"\n')
        writer.write_environment(ENVIRONMENT)
        for line in lines:
            writer.append_trial(dict(line))
    return path
