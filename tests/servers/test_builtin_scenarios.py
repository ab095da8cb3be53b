"""Every built-in scenario against real servers, tiny: each cell that is planned is measured, and verified."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from support.clickhouse import has_chdb
from support.database import Database, available
from support.run import command, environment
from venturi.plan.layers import builtin_names

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("core")]

TINY = ("--scale", "0.0001", "--repeats", "1", "--warmup", "0", "--no-ceilings", "--no-report", "--quiet")
MORE = {
    # Its second place is a host of its own, which a cluster has (tests/servers/test_cluster_remote.py).
    "flight-remote": ("--target", "flight://local"),
    "ingest-32": ("--target", "akumuli://local", "--hosts", "32"),
    "ingest-akumuli": ("--hosts", "32", "--streams", "4"),
    # Statements of a working set are made before the clock starts.
    "upsert-batch-size": ("--working-set", "2k"),
    "upsert-cassandra": ("--working-set", "2k", "--rows-per-batch", "50"),
    "upsert-memsql": ("--working-set", "2k"),
    "upsert-quick": ("--working-set", "2k"),
    # Sixteen streams a host are many for a database that has two cores in all.
    "upsert-scale": ("--working-set", "2k", "--streams", "1,2,4"),
}
"""What a small machine changes, beside the scale."""
THROWAWAY = {"one-table": ("mariadb", "postgres"), "read-databases": ("postgres",)}
"""Servers that a scenario starts itself."""
DATABASES = {
    "upsert-batch-size": "mariadb",
    "upsert-cassandra": "cassandra",
    "upsert-memsql": "mariadb",
    "upsert-scale": "mariadb",
}


def given(name: str, request: pytest.FixtureRequest) -> tuple[list[str], dict[str, str]]:
    """The words of a tiny run, and what its environment must have."""
    words = ["run", name, *TINY, *MORE.get(name, ())]
    if name in ("arrow-transports", "one-table"):
        has_chdb()
    for server in THROWAWAY.get(name, ()):
        available(server)
    if name not in DATABASES:
        return words, {}
    database: Database = request.getfixturevalue(DATABASES[name])
    return [*words, "--target", database.url, *database.flags], database.env


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_scenario_runs(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    words, env = given(name, request)
    done = subprocess.run(
        command(*words, "--out", tmp_path / "run"),
        env=environment(**env), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    planned = subprocess.run(
        command(*words, "--dry-run"), env=environment(**env), capture_output=True, text=True, timeout=60
    )
    cells = {line.split()[0] for line in planned.stdout.splitlines() if "  " in line}
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    assert {t["cell"] for t in trials} == cells and len(trials) == len(cells)
    for trial in trials:
        assert trial["outcome"] == "ok" and trial["counts"]["rows"] > 0
        assert trial["verification"]["achieved"] in ("checksum", "sums", "count"), trial["parameters"]


@pytest.mark.parametrize("name", builtin_names())
def test_a_built_in_scenario_is_planned_as_it_is(name: str, tmp_path: Path) -> None:
    """With all its cells, and where it needs a cluster with one's address."""
    cluster = ("--on", "ray://127.0.0.1:10001") if name in ("flight-remote", "ingest-32") else ()
    done = subprocess.run(
        command("run", name, "--dry-run", *cluster), env=environment(), capture_output=True, text=True,
        timeout=60, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "trials with warm-up: " in done.stdout
