"""Trials of `mysql://` by spec."""

from __future__ import annotations

import json
from typing import Any

from venturi import _core

WORKING_SET = 20_000


def spec(url: str, table: str, **more: Any) -> dict[str, Any]:
    """20,000 rows on two streams; `options` in `more` are added to the table's name."""
    options = {"table": table, **more.pop("options", {})}
    made: dict[str, Any] = {
        "trial": table,
        "target": url,
        "operation": "upsert",
        "data": {"source": "usage", "working_set": WORKING_SET, "seed": 1, "loaded_unix_s": 1_790_000_000},
        "rows_per_batch": 500,
        "rows_per_stream": 10_000,
        "streams": 2,
        "threads": 2,
        "timeout_ns": 300_000_000_000,
    }
    if "duration_ns" in more:
        made.pop("rows_per_stream")
    return {**made, **more, "options": options}


def run(url: str, table: str, **more: Any) -> dict[str, Any]:
    record = _core.run_trial(json.dumps(spec(url, table, **more)), _core.Control())
    made: dict[str, Any] = json.loads(record) if isinstance(record, str) else record
    return made


def found_sums(record: dict[str, Any]) -> dict[str, int]:
    """The sums that were found; each is what was acknowledged."""
    sums = {line["column"]: int(line["found"]) for line in record["verification"]["sums"]}
    for line in record["verification"]["sums"]:
        assert line["expected"] == line["found"] and line["in_doubt"] == "0"
    return sums


def refusal(url: str, table: str, **more: Any) -> str:
    """The line of a trial that must not begin."""
    record = run(url, table, **more)
    assert record["outcome"] == "failed", record
    message: str = record["error"]["message"]
    assert "\n" not in message and len(message) < 600, message
    return message
