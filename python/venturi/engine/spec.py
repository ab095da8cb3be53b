"""One trial: from a cell to the spec that Rust executes, and back to the record that is stored.

Both documents are described in docs/format.md. An `Executor` turns a spec into a
record: `CoreExecutor` by measuring.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from venturi.common.credentials import without_named
from venturi.plan.cell import Cell

FORMAT_VERSION = 1
# Of the text of an error. What peers say, as a rule one line, is bounded by them alone.
_MOST_TEXT = 4000


def trial_id(run: str, cell: str, repeat: int, warmup: bool, order: int) -> str:
    """An id that is unique in a run (and, by the run's name, among runs)."""
    text = f"{run}\0{cell}\0{repeat}\0{warmup}\0{order}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def build_spec(
    cell: Cell,
    trial: str,
    target: str,
    data: Mapping[str, Any],
    timeout_ns: int = 30_000_000_000,
    sample_interval_ns: int = 100_000_000,
    options: Mapping[str, Any] | None = None,
    ingest: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The trial spec of docs/format.md. `target` is the address to use, with the real host and port;
    `options`, where given, are those of the cell with what depends on this machine; `ingest` says which
    columns of a file make points."""
    p = cell.parameters
    upserts = {name: p[name] for name in ("in_flight", "generate", "max_errors", "retries") if p.get(name)}
    if p["operation"] == "ingest":
        upserts["generate"] = p["generate"] or "inline"
        if ingest is not None:
            upserts["ingest"] = dict(ingest)
    if p.get("key"):
        upserts["upsert"] = {"key": p["key"], "add": p.get("add") or []}
    return {
        "trial": trial,
        "target": target,
        "options": dict(cell.options if options is None else options),
        "operation": p["operation"],
        "data": dict(data),
        "rows_per_batch": p["rows_per_batch"],
        "rows_per_stream": p.get("rows_per_stream"),
        "duration_ns": p.get("duration_ns"),
        "streams": p["streams"],
        "threads": p["threads"],
        "rate": p.get("rate"),
        **upserts,
        # For whoever places them; the engine of each hears of its share only.
        **({"loaders": p["loaders"]} if p.get("loaders") else {}),
        # For whoever makes it.
        **({name: p[name] for name in ("link", "backplane", "cross") if p.get(name)}),
        "verify": p["verify"],
        "include_setup": p["include_setup"],
        "pin": p.get("pin"),
        "timeout_ns": timeout_ns,
        "sample_interval_ns": sample_interval_ns,
    }


def trial_line(
    record: Mapping[str, Any], *, run: str, trial: str, cell: Cell, repeat: int, warmup: bool, order: int
) -> dict[str, Any]:
    """A line of trials.jsonl: the record with what Python adds, in a fixed order."""
    line = {
        "format": FORMAT_VERSION,
        "kind": "trial",
        "run": run,
        "trial": trial,
        "cell": cell.id,
        "repeat": repeat,
        "warmup": warmup,
        "order": order,
        "parameters": dict(cell.parameters),
        **without_named(record),
    }
    _shorten_errors(line)
    return line


def shortened(text: Any) -> Any:
    """The text of an error, cut to what somebody may want to read."""
    long = isinstance(text, str) and len(text) > _MOST_TEXT
    return f"{text[:_MOST_TEXT]}... ({len(text):,} characters)" if long else text


def _shorten_errors(line: dict[str, Any]) -> None:
    kinds = line.get("errors")
    for one in (line.get("error"), *((kinds.get("kinds") or ()) if isinstance(kinds, dict) else ())):
        if isinstance(one, dict) and "message" in one:
            one["message"] = shortened(one["message"])


def failed_record(
    kind: str, message: str, outcome: str = "failed", started_unix_ns: int = 0
) -> dict[str, Any]:
    """The record of a trial that did not even begin: everything zero, with its reason."""
    return {
        "outcome": outcome,
        "error": {"kind": kind, "message": message, "stream": None},
        "target": None,
        "counts": {"rows": 0, "batches": 0, "payload_bytes": 0, "wire_bytes": 0, "stored_bytes": None},
        "times": {
            "started_unix_ns": started_unix_ns,
            "setup_ns": 0,
            "interval_ns": 0,
            "verify_ns": 0,
            "start_skew_ns": 0,
            "steady_ns": 0,
            "steady_rows": 0,
            "steady_payload_bytes": 0,
        },
        "verification": None,
        "errors": None,
        "cpu": None,
        "stages": None,
        "workers": None,
        "resources": None,
        "streams": [],
        "latency": None,
        "schedule": None,
        "pin": None,
        "instrument": None,
        "samples": None,
    }


def completed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with every field there: one that broke off early may have little but its error."""
    error = record.get("error") or {}
    empty = failed_record(error.get("kind", "internal"), error.get("message", ""))
    return {**empty, **record}
