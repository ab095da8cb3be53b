"""Gets and puts straight through the core, runs by the command, and what a good record must say."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from support.core import run
from support.holding import during
from support.run import venturi

RECORDS = {"source": "records", "columns": 4, "seed": 3}
REMOTE = {"source": "remote"}
ONCE = ("--repeats", "1", "--warmup", "0", "--no-report", "--no-ceilings")
"""One trial of each cell, and nothing else."""


def spec(
    url: str,
    operation: str = "get",
    *,
    data: dict[str, Any] | None = None,
    streams: int = 1,
    rows: int | None = None,
    batch: int = 4096,
    verify: str = "checksum",
    duration_s: float | None = None,
    patience_s: float = 300.0,
    **options: Any,
) -> dict[str, Any]:
    """A get or a put; without `data` it is of the server's own."""
    return {
        "trial": "test", "target": url, "options": options, "operation": operation, "data": data or REMOTE,
        "rows_per_batch": batch, "streams": streams, "threads": streams, "verify": verify,
        "rows_per_stream": rows, "timeout_ns": int(patience_s * 1e9),
        "duration_ns": None if duration_s is None else int(duration_s * 1e9),
    }  # fmt: skip


def get(url: str, **choices: Any) -> dict[str, Any]:
    return run(spec(url, **choices))


def put(url: str, rows: int | None = None, **choices: Any) -> dict[str, Any]:
    """Without `data` it is of RECORDS."""
    return get(url, operation="put", rows=rows, **{"data": RECORDS, **choices})


def records(out: Path) -> list[dict[str, Any]]:
    """The trials of a run, which may still go on."""
    path = out / "trials.jsonl"
    # Not yet a line: one whose end is not there.
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def ran(out: Path, *words: object, code: int = 0, **given: Any) -> list[dict[str, Any]]:
    """The trials of `venturi run` with these words, which ends with this code."""
    done = venturi("run", *words, "--out", out, **given)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    return records(out)


def file_of(path: Path, table: Any) -> dict[str, Any]:
    """Data of an Arrow table, which is written there."""
    import pyarrow.ipc

    with pyarrow.ipc.new_file(path, table.schema) as ipc:
        ipc.write_table(table)
    return {"source": "file", "path": "x", "ipc": str(path)}


def by_splits(*splits: dict[str, str]) -> pytest.MarkDecorator:
    """A test that is one for each of these ways in which streams share rows."""
    return pytest.mark.parametrize("split", splits, ids=lambda split: "-".join(split.values()))


def cancelled(given: dict[str, Any]) -> dict[str, Any]:
    """The record of a trial in this process of a statement that gives no rows, cancelled while the statement
    computes: nothing else here takes CPU time."""
    spent = time.process_time()
    # Much more than the set-up takes; the statement may run before the phase is "ready".
    return during(given, lambda _: time.process_time() > spent + 0.25, lambda control: control.cancel())


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
