"""Upserts as a user runs them, into real databases: what is stored, what fails, what a run leaves behind."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.core import connecting_all_the_time, run_trial, spec
from support.proven import proven_instrument as proven_instrument  # a fixture
from support.read import ONCE, ran
from support.run import venturi
from support.synthetic import lines
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")
SHORT = ("--rows-per-stream", "200", "--working-set", "5k", *ONCE, "--repeats", 2)


def test_a_file_of_our_own_is_gone_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "tmp"
    mine.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(mine))
    done = venturi("run", "upsert-quick", "--out", tmp_path / "r", *SHORT, "--rows-per-batch", "1,100")
    assert (done.returncode, list(mine.iterdir())) == (0, []), done.stderr
    assert "rows/s" in done.stderr and "krows/s" in done.stdout
    found = lines(tmp_path / "r")
    assert len(found) == 2 * 2 * 2
    for line in found:
        assert (line["outcome"], line["verification"]["achieved"], line["errors"]) == ("ok", "sums", None)
        # What is measured is what was asked for, and its width is the one that limits are looked up by.
        bytes_per_row = line["counts"]["payload_bytes"] / line["counts"]["rows"]
        assert bytes_per_row == pytest.approx(line["parameters"]["row_bytes"], rel=0.15)
        assert line["target"]["software"].startswith("SQLite ")


def test_a_users_table_is_added_up(tmp_path: Path) -> None:
    data, file = tmp_path / "t.csv", tmp_path / "own.db"
    data.write_text("k,note,hits\n" + "".join(f"{i % 70},n{i},{i}\n" for i in range(100)))
    words = ("--data", data, "--key", "k", "--add", "hits", "--keep")
    size = ("--rows-per-batch", "30", "--rows-per-stream", "100")
    (line,) = ran(tmp_path / "r", "--target", f"sqlite://{file}", *words, *size, *ONCE)
    assert line["verification"]["rows"] == line["verification"]["expected_rows"] == 70
    # Keys 30 to 69 are in one row each.
    assert line["verification"]["read_back"] == 40
    # Whole batches: 30, 30, 30 and the 10 that are left.
    assert (line["counts"]["rows"], line["counts"]["batches"]) == (100, 4)
    with sqlite3.connect(file) as connection:
        rows = dict(connection.execute("select k, hits from venturi_t").fetchall())
    assert rows == {k: sum(i for i in range(100) if i % 70 == k) for k in range(70)}


def test_statements_go_nowhere(tmp_path: Path) -> None:
    words = ["--operation", "upsert", "--generate", "inline", "--dialect", "mysql,postgres,sqlite,duckdb"]
    assert all(
        line["counts"]["rows"] > 0 for line in ran(tmp_path / "r", "--target", "empty://", *words, *SHORT)
    )


def test_duckdb_finds_its_library(tmp_path: Path) -> None:
    found = ran(tmp_path / "r", "--target", "duckdb://local", "--method", "upsert,copy", *SHORT[:-2])
    assert {line["verification"]["achieved"] for line in found} == {"sums"}
    # Where the library lies is this machine's affair and no part of a run.
    assert "duckdb" not in json.dumps(found[0]["parameters"]).replace("duckdb://local", "")


# ---- files of SQLite, seen with Python's own


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


# ---- duckdb, straight through the core


def library() -> str:
    found = importlib.util.find_spec("_duckdb")
    assert found is not None and found.origin is not None
    return found.origin


def trial(file: Path, **choices: Any) -> dict[str, Any]:
    options = {"library": library(), **choices.pop("options", {})}
    return run_trial(f"duckdb://{file}", options=options, **choices)


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
