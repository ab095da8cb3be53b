"""Run directories for the tests of everything after the clock, made by formula after docs/format.md.

Written with the package's own writer and `ModelExecutor`, so what is read here is what `venturi run`
writes; the odd ones (interrupted, imported-like, hostile names) are made by editing records, because no
sane run yields them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from support.model import ModelExecutor
from venturi.engine.spec import build_spec, trial_id, trial_line
from venturi.plan.cell import Cell
from venturi.store.writer import RunWriter

ROW_BYTES = 32
SCENARIO = """\
# Resolved by venturi
name = "synthetic"

[workload]
operation = ["get", "put"]
"""
ENVIRONMENT = {
    "run": "20261121-084500-synthetic",
    "command": ["venturi", "run", "synthetic", "--repeats", "5"],
    "started_unix_ns": 1_790_000_000_000_000_000,
    "client": {
        "hostname": "bench-1",
        "cpu": {"model": "Model CPU", "cores": 8},
        "kernel": "6.1.0",
        "venturi": "0.1.0",
    },
    "server": {
        "hostname": "bench-1",
        "cpu": {"model": "Model CPU", "cores": 8},
        "kernel": "6.1.0",
        "venturi": "0.1.0",
    },
}
Edit = Callable[[dict[str, Any]], dict[str, Any] | None]


def parameters(operation: str, streams: int, place: str = "local", **more: Any) -> dict[str, Any]:
    """The flat parameters of a cell, as `trials.jsonl` has them."""
    host = "127.0.0.1" if place == "local" else "bench-2"
    return {
        **{"operation": operation, "place": place, "target": f"flight://{host}:31337", "data": "records"},
        **{"columns": 4, "values": "random", "seed": 1, "row_bytes": float(ROW_BYTES)},
        **{"rows_per_batch": 4096, "rows_per_stream": 10_000_000, "bytes_per_stream": None},
        **{"duration_ns": None, "streams": streams, "threads": streams, "rate": None, "verify": "checksum"},
        **{"include_setup": False, "pin": None, "compression": None, "connections": "per-stream"},
        **{"window": None, "protocol": "auto", "ack": "stream"},
        **more,
    }


def cells(
    operations: Iterable[str] = ("get", "put"),
    streams: Iterable[int] = (1, 2, 4),
    places: Iterable[str] = ("local",),
    rows: Iterable[int] = (10_000_000,),
    **more: Any,
) -> list[dict[str, Any]]:
    return [
        parameters(o, n, place, rows_per_stream=r, **more)
        for o in operations
        for place in places
        for n in streams
        for r in rows
    ]


def make_run(
    path: Path,
    matrix: list[dict[str, Any]] | None = None,
    repeats: int = 5,
    warmup: int = 1,
    fail: str | None = None,
    kind: str = "lost",
    edit: Edit | None = None,
    ceilings: bool = True,
    samples: bool = True,
    environment: Mapping[str, Any] | None = None,
) -> Path:
    """A run directory. `fail` is a condition over the spec; `edit` changes or drops (None) each line."""
    matrix = cells() if matrix is None else matrix
    executor = ModelExecutor(fail=fail, kind=kind)
    name = str(ENVIRONMENT["run"])
    with RunWriter.create(path) as writer:
        writer.write_scenario(SCENARIO)
        writer.write_environment(ENVIRONMENT if environment is None else environment)
        order = 0
        for repeat in range(-warmup, repeats):
            for p in matrix:
                cell, warm = Cell(p), repeat < 0
                trial = trial_id(name, cell.id, max(repeat, 0), warm, order)
                data = {"source": "records", "columns": p["columns"], "values": p["values"], "seed": 1}
                spec = build_spec(
                    cell, trial, p["target"], data, sample_interval_ns=20_000_000 if samples else 0
                )
                # The formula needs options only to evaluate conditions.
                record = json.loads(executor.run_trial(json.dumps(spec), executor.control()))
                line: dict[str, Any] | None = trial_line(
                    record, run=name, trial=trial, cell=cell, repeat=max(repeat, 0), warmup=warm, order=order
                )
                order += 1
                if edit is not None and line is not None:
                    line = edit(line)
                if line is not None:
                    writer.append_trial(line)
        if ceilings:
            for direction in ("get", "put"):
                for n in sorted({p["streams"] for p in matrix}):
                    for repeat in range(3):
                        spec = {
                            "streams": n,
                            "message_bytes": 131072,
                            "direction": direction,
                            "duration_ns": 500_000_000,
                        }
                        probe = json.loads(executor.probe_tcp(json.dumps(spec), executor.control()))
                        writer.append_ceiling(
                            {
                                "format": 1,
                                "kind": "tcp",
                                "direction": direction,
                                "streams": n,
                                "message_bytes": 131072,
                                "repeat": repeat,
                                **probe,
                            }
                        )
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


def imported(line: dict[str, Any]) -> dict[str, Any]:
    """What an importer of foreign results can fill: counts, interval, parameters, little else."""
    kept = {
        k: line[k] for k in ("format", "run", "trial", "cell", "repeat", "warmup", "parameters", "outcome")
    }
    p = {k: line["parameters"][k] for k in ("operation", "streams", "rows_per_stream")}
    return kept | {
        "parameters": p,
        "counts": {"rows": line["counts"]["rows"], "payload_bytes": line["counts"]["payload_bytes"]},
        "times": {"interval_ns": line["times"]["interval_ns"]},
    }


def without_server(line: dict[str, Any]) -> dict[str, Any]:
    """A foreign server: no stages, no CPU, no name."""
    return line | {
        "stages": {"client": line["stages"]["client"], "server": None},
        "cpu": {"client": line["cpu"]["client"], "server": None},
        "target": line["target"] | {"software": None, "reference": False},
    }


HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)> $\\alpha$ \x1b[31m & \"quoted\" | pipe"


def hostile(line: dict[str, Any]) -> dict[str, Any]:
    """Names and errors as an unfriendly server or file could choose them."""
    line["parameters"]["data"] = HOSTILE
    line["target"] = {**(line["target"] or {}), "software": HOSTILE, "address": "127.0.0.1:1</td>"}
    if line["repeat"] == 1 and not line["warmup"]:
        line |= {"outcome": "failed", "error": {"kind": "server", "message": HOSTILE, "stream": 0}}
    stages = line["stages"]["client"]
    stages[HOSTILE] = 1000
    return line
