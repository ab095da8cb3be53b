"""Trials of upserts straight through the core, without a command."""

from __future__ import annotations

import json
from typing import Any


def spec(
    target: str,
    *,
    rows: int | None = None,
    duration_s: float | None = None,
    streams: int = 1,
    working_set: int = 1000,
    rows_per_batch: int = 100,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A trial of `usage`; `rows` are those of every stream."""
    document = {
        "trial": "t",
        "target": target,
        "operation": "upsert",
        "options": options or {},
        "data": {
            "source": "usage",
            "working_set": working_set,
            "seed": 7,
            "loaded_unix_s": 1_790_000_000,
        },
        "rows_per_batch": rows_per_batch,
        "rows_per_stream": rows,
        "duration_ns": None if duration_s is None else int(duration_s * 1e9),
        "streams": streams,
        "threads": streams,
    }
    return document | more


def run_trial(target: str, **choices: Any) -> dict[str, Any]:
    """The record of a trial, as JSON says it."""
    from venturi import _core

    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(spec(target, **choices)), _core.Control()))
    return record
