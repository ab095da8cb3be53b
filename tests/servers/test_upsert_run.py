"""Upserts as a user runs them, into real databases: what is stored, what fails, what a run leaves behind."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from support.needs import require_server
from support.run import command, environment, venturi
from venturi.common.core import load_core

pytestmark = pytest.mark.slow

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


@pytest.mark.parametrize("scheme", ["mysql", "postgres"])
def test_streams_that_meet_in_the_same_rows_do_not_wait_for_each_other_in_a_ring(
    scheme: str, tmp_path: Path
) -> None:
    """Each batch of the file has the same few keys in an order of its own: two statements that lock them as
    they come each wait for the other, and the database refuses one."""
    require_server(scheme)
    draw = random.Random(1)
    keys = [(day, f"/page/{page}") for day in range(10) for page in range(100)]
    rows = [key for _ in range(100) for key in draw.sample(keys, 500)]
    clicks = tmp_path / "clicks.csv"
    clicks.write_text("day,page,hits\n" + "".join(f"{day},{page},1\n" for day, page in rows))
    words = command(
        *("run", "--operation", "upsert", "--target", f"{scheme}://local", "--data", clicks),
        *("--key", "day,page", "--add", "hits", "--streams", "4", "--duration", "1s", "--repeats", "2"),
        *("--warmup", "0", "--no-report", "--no-ceilings", "--out", tmp_path / "r"),
    )
    done = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    for line in lines(tmp_path / "r"):
        assert (line["outcome"], line["errors"]) == ("ok", None), line["error"]
        assert line["verification"]["achieved"] == "sums" and line["counts"]["rows"] > 1000
        (hits,) = line["verification"]["sums"]
        assert int(hits["found"]) == line["counts"]["rows"]


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


def test_limits_are_measured_with_the_same_statements(tmp_path: Path) -> None:
    done = venturi(
        *("run", "--target", "sqlite://local", "--synchronous", "full", "--generate", "ahead,inline"),
        *("--duration", "100ms", "--working-set", "2k", "--repeats", "1", "--warmup", "0", "--no-report"),
        *("--ceilings", "once", "--fresh-ceilings", "--out", tmp_path / "r"),
    )
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "r" / "ceilings.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in text]
    assert {line["kind"] for line in found} == {"memory", "disk", "engine"}
    assert {line["path"] for line in found if line["kind"] == "disk"} == {tempfile.gettempdir()}
    engine = {line["data"]: line for line in found if line["kind"] == "engine"}
    assert set(engine) == {"usage, statements built ahead", "usage, statements of sqlite built inline"}
    assert all(line["outcome"] == "ok" and line["bytes"] for line in engine.values())


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


@pytest.mark.parametrize("scheme", ["postgres", "mysql", "cassandra"])
def test_a_server_that_dies_is_a_failed_trial_and_the_sweep_can_be_finished(
    tmp_path: Path, scheme: str
) -> None:
    require_server(scheme)
    load_core()
    path = tmp_path / "r"
    process = subprocess.Popen(
        command(
            *(
                "run",
                "--target",
                f"{scheme}://local",
                "--out",
                path,
                "--json",
                "--no-report",
                "--no-ceilings",
            ),
            *("--duration", "6s", "--working-set", "5k", "--rows-per-batch", "50", "--streams", "2"),
            *("--repeats", "2", "--warmup", "1", "--timeout", "10s"),
        ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["outcome"] == "ok", first["error"]
    # By then the next trial has made its table, as long as that took the first one, and is under way.
    try:
        process.wait(first["times"]["setup_ns"] / 1e9 + 2.5)
    except subprocess.TimeoutExpired:
        os.kill(first["target"]["pid"], signal.SIGKILL)
    _, said = process.communicate(timeout=180)
    assert process.returncode == 5, said
    assert f"warning: the server of {scheme}://local died" in said and "starting another" in said
    found = lines(path)
    assert [line["outcome"] for line in found] == ["ok", "failed", "ok"]
    failed = found[1]
    assert failed["error"]["kind"] == "lost" and failed["error"]["stream"] is not None
    # What was acknowledged until then, and what nobody knows of.
    assert failed["counts"]["rows"] > 0 and failed["times"]["interval_ns"] > 0
    assert 1 <= failed["errors"]["in_doubt"]["batches"] <= 2
    assert failed["errors"]["in_doubt"]["rows"] == 50 * failed["errors"]["in_doubt"]["batches"]
    done = venturi("run", "--resume", path, "--retry-failed", "--quiet")
    assert done.returncode == 0, done.stderr
    again = lines(path)
    assert again[:3] == found and [line["outcome"] for line in again[3:]] == ["ok"]
    assert (again[3]["repeat"], again[3]["warmup"]) == (failed["repeat"], failed["warmup"])


def test_the_environment_says_how_a_server_of_ours_is_set(tmp_path: Path) -> None:
    require_server("postgres")
    done = venturi("run", "--target", "postgres://local", "--out", tmp_path / "r", *SHORT)
    assert done.returncode == 0, done.stderr
    server = json.loads((tmp_path / "r" / "environment.json").read_text())["server"]
    assert server["software"]["server"].startswith("PostgreSQL") and server["settings"]
    (name,) = {line["target"]["software"] for line in lines(tmp_path / "r")}
    assert name.startswith("PostgreSQL")


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
