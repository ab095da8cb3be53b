"""Upserts as a user runs them, into real databases: what is stored, what fails, what a run leaves behind."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.proven import proven_instrument as proven_instrument  # a fixture
from support.run import command, environment, venturi

SHORT = (
    *("--duration", "200ms", "--working-set", "5k", "--repeats", "2", "--warmup", "0"),
    *("--no-report", "--no-ceilings"),
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


def test_a_file_of_our_own_is_gone_afterwards(tmp_path: Path) -> None:
    mine = tmp_path / "tmp"
    mine.mkdir()
    done = subprocess.run(
        command("run", "upsert-quick", "--out", tmp_path / "r", *SHORT, "--rows-per-batch", "1,100"),
        capture_output=True,
        text=True,
        env=environment(TMPDIR=str(mine)),
        timeout=120,
        check=False,
    )
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
    done = venturi(
        *("run", "--target", f"sqlite://{file}", "--data", data, "--key", "k", "--add", "hits", "--keep"),
        *("--rows-per-batch", "30", "--rows-per-stream", "100", "--repeats", "1", "--warmup", "0"),
        *("--no-report", "--no-ceilings", "--out", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    (line,) = lines(tmp_path / "r")
    assert line["verification"]["rows"] == line["verification"]["expected_rows"] == 70
    # Whole batches: 30, 30, 30 and the 10 that are left.
    assert (line["counts"]["rows"], line["counts"]["batches"]) == (100, 4)
    with sqlite3.connect(file) as connection:
        rows = dict(connection.execute("select k, hits from venturi_t").fetchall())
    assert rows == {k: sum(i for i in range(100) if i % 70 == k) for k in range(70)}


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "own.db"
    with sqlite3.connect(file) as connection:
        connection.execute("create table sales (id integer primary key)")
    done = venturi("run", "--target", f"sqlite://{file}", "--table", "sales", "--out", tmp_path / "r", *SHORT)
    assert done.returncode == 5
    assert "sales exists already and is not Venturi's" in done.stderr and "Traceback" not in done.stderr
    with sqlite3.connect(file) as connection:
        assert connection.execute("select count(*) from sales").fetchall() == [(0,)]


def test_an_upsert_in_python(tmp_path: Path) -> None:
    import venturi as package

    run = package.run(
        target="sqlite://local", rows_per_batch=[10, 100], duration="100ms", working_set="2k", repeats=1,
        warmup=0, ceilings=False, out=tmp_path / "r",
    )  # fmt: skip
    found = run.trials.to_pylist()
    assert [row["operation"] for row in found] == ["upsert"] * 2
    assert all(row["rows"] > 0 and row["errors_refused"] == 0 for row in found)
    assert all(row["service_min_ns"] <= row["service_p50_ns"] <= row["service_max_ns"] for row in found)
    assert run.table("errors").num_rows == 0


def test_statements_go_nowhere(tmp_path: Path) -> None:
    done = venturi(
        "run", "--target", "empty://", "--operation", "upsert", "--generate", "inline",
        "--dialect", "mysql,postgres,sqlite,duckdb", "--out", tmp_path / "r", *SHORT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert all(line["counts"]["rows"] > 0 for line in lines(tmp_path / "r"))


def test_duckdb_finds_its_library(tmp_path: Path) -> None:
    done = venturi(
        *("run", "--target", "duckdb://local", "--method", "upsert,copy", "--out", tmp_path / "r", *SHORT)
    )
    assert done.returncode == 0, done.stderr
    assert {line["verification"]["achieved"] for line in lines(tmp_path / "r")} == {"sums"}
    # Where the library lies is this machine's affair and no part of a run.
    assert "duckdb" not in json.dumps(lines(tmp_path / "r")[0]["parameters"]).replace("duckdb://local", "")


MISTAKES = [
    (
        ("--target", "sqlite:///nowhere/x.db"),
        "error: --target: /nowhere: no such directory\nhint: make it: mkdir -p /nowhere\n",
    ),
    (
        ("--target", "mysql://me:hush@h/db"),
        "error: --target: a password in the URL would be stored with the run; "
        "use user and password_env (--user, --password-env)\n",
    ),
    (
        ("--target", "mysql://h", "--journal", "wal"),
        "error: --journal: mysql:// has no option journal\nhint: it belongs to sqlite://\n",
    ),
    (
        ("--target", "sqlite://local", "--no-setup"),
        "error: --no-setup: sqlite://local is new and empty, and needs its set-up\n"
        "hint: name a database of yours to upsert into a table that is there\n",
    ),
    (
        ("--target", "mysql://h", "--password-env", "VENTURI_NOT_SET"),
        "error: --password-env: the environment variable VENTURI_NOT_SET is not set\n"
        "hint: set it in this shell: export VENTURI_NOT_SET=…\n",
    ),
]


@pytest.mark.parametrize(("flags", "text"), MISTAKES)
def test_mistakes_are_one_line_before_anything_starts(
    tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    done = venturi("run", *flags, cwd=tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (3, text, "") and not list(tmp_path.iterdir())


def test_a_database_that_does_not_run_is_named(tmp_path: Path) -> None:
    done = venturi("run", "--target", "postgres://127.0.0.1:9/db", "--out", tmp_path / "r", *SHORT)
    assert done.returncode == 4
    assert "postgres://127.0.0.1:9/db never answered; its other trials are left out" in done.stderr or (
        "unreachable" in done.stderr
    )
    assert "venturi serve postgres, or --target postgres://local" in done.stderr
