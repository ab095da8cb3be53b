"""Upserts as a user runs them, into databases that a run starts."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from support.link import started
from support.needs import require_server
from support.read import ran, records
from support.run import venturi
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")


SOFTWARE = {"mysql": "MariaDB", "postgres": "PostgreSQL"}


@pytest.mark.parametrize("scheme", SOFTWARE)
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
    found = ran(
        tmp_path / "r",
        *("--operation", "upsert", "--target", f"{scheme}://local", "--data", clicks),
        *("--key", "day,page", "--add", "hits", "--streams", "4", "--duration", "1s", "--repeats", "2"),
        *("--warmup", "0", "--no-report", "--no-ceilings"),
    )
    server = json.loads((tmp_path / "r" / "environment.json").read_text())["server"]
    assert server["software"]["server"].startswith(SOFTWARE[scheme]) and server["settings"]
    for line in found:
        assert line["target"]["software"].startswith(SOFTWARE[scheme])
        assert (line["outcome"], line["errors"]) == ("ok", None), line["error"]
        assert line["verification"]["achieved"] == "sums" and line["counts"]["rows"] > 1000
        (hits,) = line["verification"]["sums"]
        assert int(hits["found"]) == line["counts"]["rows"]


def has_rows(connection: psycopg.Connection[Any]) -> bool:
    try:
        return bool(connection.execute("SELECT FROM venturi_usage LIMIT 1").fetchall())
    except psycopg.Error:  # there is no table yet
        return False


def test_a_server_that_dies_is_a_failed_trial_and_the_sweep_can_be_finished(tmp_path: Path) -> None:
    require_server("postgres")
    path = tmp_path / "r"
    process = started(
        *("run", "--target", "postgres://local", "--out", path, "--json", "--no-report", "--no-ceilings"),
        *("--duration", "5s", "--working-set", "5k", "--rows-per-batch", "50", "--streams", "2"),
        *("--repeats", "2", "--warmup", "1", "--timeout", "10s"),
        cwd=tmp_path,
    )
    assert process.stdout is not None
    first = json.loads(process.stdout.readline())
    assert first["outcome"] == "ok", first["error"]
    # A table with rows in it is that of the next trial, which is under way.
    host, port = first["target"]["address"].rsplit(":", 1)
    with psycopg.connect(
        host=host, port=port, user="venturi", dbname="venturi", autocommit=True
    ) as connection:
        wait_until(lambda: has_rows(connection) or process.poll() is not None)
    os.kill(first["target"]["pid"], signal.SIGKILL)
    _, said = process.communicate()
    assert process.returncode == 5, said
    assert "warning: the server of postgres://local died" in said and "starting another" in said
    found = records(path)
    assert [line["outcome"] for line in found] == ["ok", "failed", "ok"]
    failed = found[1]
    assert failed["error"]["kind"] == "lost" and failed["error"]["stream"] is not None
    assert "the server of postgres://local died" in failed["error"]["message"]
    # What was acknowledged until then, and what nobody knows of.
    assert failed["counts"]["rows"] > 0 and failed["times"]["interval_ns"] > 0
    assert 1 <= failed["errors"]["in_doubt"]["batches"] <= 2
    assert failed["errors"]["in_doubt"]["rows"] == 50 * failed["errors"]["in_doubt"]["batches"]
    done = venturi("run", "--resume", path, "--retry-failed", "--quiet")
    assert done.returncode == 0, done.stderr
    again = records(path)
    assert again[:3] == found and [line["outcome"] for line in again[3:]] == ["ok"]
    assert (again[3]["repeat"], again[3]["warmup"]) == (failed["repeat"], failed["warmup"])
