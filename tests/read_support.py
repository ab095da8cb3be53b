"""Gets from databases straight through the core, and what a good record of one must say."""

from __future__ import annotations

import json
from typing import Any

RECORDS = {"source": "records", "columns": 4, "seed": 3}
REMOTE = {"source": "remote"}


def spec(
    url: str,
    *,
    data: dict[str, Any] | None = None,
    streams: int = 1,
    rows: int | None = None,
    batch: int = 4096,
    verify: str = "checksum",
    duration_s: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """A get; without `data` it is of the server's own."""
    return {
        "trial": "test", "target": url, "options": options, "operation": "get", "data": data or REMOTE,
        "rows_per_batch": batch, "streams": streams, "threads": streams, "verify": verify,
        "rows_per_stream": rows, "timeout_ns": 20_000_000_000,
        "duration_ns": None if duration_s is None else int(duration_s * 1e9),
    }  # fmt: skip


def get(url: str, **choices: Any) -> dict[str, Any]:
    from venturi import _core

    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(spec(url, **choices)), _core.Control()))
    return record


def good(record: dict[str, Any], rows: int, achieved: str = "sums") -> dict[str, Any]:
    """All rows have arrived, and it is known by what."""
    assert record["error"] is None, record["error"]["message"]
    found = record["verification"]
    assert (record["counts"]["rows"], found["expected_rows"], found["rows"]) == (rows, rows, rows)
    assert found["achieved"] == achieved, found
    return record


def refused(record: dict[str, Any], kind: str, *parts: str) -> str:
    """The error's line, which has these parts."""
    assert record["error"] is not None
    message: str = record["error"]["message"]
    assert record["error"]["kind"] == kind, message
    assert "\n" not in message
    for part in parts:
        assert part in message, message
    return message


def sums(record: dict[str, Any]) -> dict[str, int]:
    return {one["column"]: int(one["found"]) for one in record["verification"]["sums"]}
