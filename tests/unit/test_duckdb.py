"""duckdb://: the installed DuckDB through its C API, straight through the core."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pytest

from support.core import run_trial

pytestmark = pytest.mark.usefixtures("core")

WAYS: list[dict[str, Any]] = [{}, {"statement": "text"}, {"method": "copy"}]


def library() -> str:
    found = importlib.util.find_spec("_duckdb")
    assert found is not None and found.origin is not None
    return found.origin


def trial(file: Path, **choices: Any) -> dict[str, Any]:
    options = {"library": library(), **choices.pop("options", {})}
    return run_trial(f"duckdb://{file}", options=options, **choices)


def rows(file: Path, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(file), read_only=True) as database:
        return database.execute(query).fetchall()


def test_a_users_table_of_every_type(tmp_path: Path) -> None:
    import datetime as dt
    import decimal

    when = dt.datetime(2026, 2, 28, 23, 59, 59, 123456)
    table = pa.table(
        {
            "id": pa.array([1, 2, 1, 3], pa.int16()),
            "name": pa.array(["it's", None, "a string that is longer than twelve bytes", "x"]),
            "face": pa.array([when] * 4, pa.timestamp("us")),
            "day": pa.array([dt.date(1969, 12, 31)] * 4),
            "price": pa.array(
                [decimal.Decimal("-12345.678"), decimal.Decimal("0.001")] * 2, pa.decimal128(12, 3)
            ),
            "ratio": pa.array([0.5, -2.5, 3.0, None], pa.float32()),
            "raw": pa.array([b"\x00\xff", b"", b"'", None], pa.binary()),
            "ok": pa.array([True, False, None, True]),
            "large": pa.array([2**62, 1, 2**62, 0], pa.uint64()),
        }
    )
    ipc = tmp_path / "x.arrow"
    with pa.ipc.new_file(ipc, table.schema) as writer:
        writer.write_table(table)
    answers = []
    for at, way in enumerate(WAYS):
        file = tmp_path / f"{at}.duckdb"
        record = trial(
            file,
            rows=4,
            rows_per_batch=4,
            options={"keep": True, **way},
            data={"source": "file", "path": "x", "ipc": str(ipc)},
            upsert={"key": ["id"], "add": ["large"]},
        )
        assert record["error"] is None, record["error"]
        assert "1 rows of the file" in record["verification"]["note"]
        answers.append(rows(file, "SELECT * FROM venturi_x ORDER BY id"))
    assert answers[0] == answers[1] == answers[2]
    first, second, third = answers[0]
    assert (first[1], first[8]) == ("a string that is longer than twelve bytes", 2**63)
    assert (second[2], second[4], second[6], third[7]) == (when, decimal.Decimal("0.001"), b"", True)


def test_streams_conflict_and_nothing_is_lost(tmp_path: Path) -> None:
    # One batch of rows for all streams, so that they meet.
    record = trial(tmp_path / "x.duckdb", rows=2000, streams=4, working_set=100, retries=50, max_errors=1000)
    assert record["error"] is None, record["error"]
    assert record["verification"]["achieved"] == "sums"
    refused = (record["errors"] or {"refused": {"batches": 0}})["refused"]["batches"]
    assert record["counts"]["batches"] + refused == 80


LINES: dict[str, tuple[dict[str, Any], str]] = {
    "in_flight": ({"in_flight": 2}, "take more streams"),
    "library": ({"options": {"library": "/no/such.so"}}, "C API"),
    "not a library": ({"options": {"library": __file__}}, "C API"),
    "statement": ({"options": {"method": "copy", "statement": "text"}}, "method = upsert"),
    "init": ({"options": {"init": ["SELEC 1"]}}, "--init"),
    "no table": ({"options": {"setup": False}}, "no such file"),
}


@pytest.mark.parametrize("name", LINES)
def test_mistakes_are_lines(tmp_path: Path, name: str) -> None:
    more, words = LINES[name]
    record = trial(tmp_path / "x.duckdb", rows=100, **more)
    assert words in record["error"]["message"]


def test_a_file_that_cannot_be_had(tmp_path: Path) -> None:
    record = trial(tmp_path / "no" / "x.duckdb", rows=100)
    assert "directory" in record["error"]["message"]
    (tmp_path / "text").write_text("no database" * 1000)
    record = trial(tmp_path / "text", rows=100)
    assert "name another file" in record["error"]["message"]
    file = tmp_path / "held.duckdb"
    code = f"import duckdb, sys; c = duckdb.connect({str(file)!r}); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None and child.stdout.readline()
        record = trial(file, rows=100)
        assert "another process" in record["error"]["message"]
        child.communicate()
