"""sqlite://: upserts into files, seen with Python's own SQLite."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.core import connecting_all_the_time, run_trial, spec
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")


def test_connections_of_others_are_not_the_trial_s(tmp_path: Path) -> None:
    with connecting_all_the_time():
        record = run_trial(f"sqlite://{tmp_path / 'x.db'}", duration_s=0.5)
    assert record["error"] is None
    assert record["resources"]["client"]["sockets"] is None and record["counts"]["wire_bytes"] == 0


def test_a_killed_client_leaves_whole_batches(tmp_path: Path) -> None:
    file = tmp_path / "x.db"
    document = spec(f"sqlite://{file}", duration_s=60, working_set=50_000, options={"keep": True})
    code = "import sys; from venturi import _core; _core.run_trial(sys.argv[1], _core.Control())"
    child = subprocess.Popen([sys.executable, "-c", code, json.dumps(document)])

    def rows() -> int:
        try:
            with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as database:
                found: int = database.execute("SELECT count(*) FROM venturi_usage").fetchone()[0]
                return found
        except sqlite3.OperationalError:
            return 0

    wait_until(rows)
    child.kill()
    child.wait()
    found = rows()
    assert found > 0 and found % 100 == 0


LINES: dict[str, tuple[dict[str, Any], str]] = {
    "in_flight": ({"in_flight": 2}, "take more streams"),
    "options": ({"options": {"journl": "wal"}}, "journl"),
    "synchronous": ({"options": {"synchronous": "maybe"}}, "extra"),
    "init": ({"options": {"init": ["SELEC 1"]}}, "--init"),
}


@pytest.mark.parametrize("name", LINES)
def test_mistakes_are_lines(tmp_path: Path, name: str) -> None:
    more, words = LINES[name]
    record = run_trial(f"sqlite://{tmp_path / 'x.db'}", rows=100, **more)
    assert words in record["error"]["message"]
