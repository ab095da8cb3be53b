"""Every built-in scenario against real servers, tiny: each cell that is planned is measured, and verified."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clickhouse import has_chdb
from support.database import Database, available
from support.read import records
from support.run import venturi
from venturi.plan.layers import builtin_names

pytestmark = pytest.mark.usefixtures("core", "servers_in_process")

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
    # Sixteen streams per host are many for a database that has two cores in all.
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
SCENARIOS = [
    pytest.param(name, marks=pytest.mark.xdist_group(DATABASES[name]) if name in DATABASES else ())
    for name in builtin_names()
]


def words_of(name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The command line of a tiny run, whose environment has what it needs."""
    words = ["run", name, *TINY, *MORE.get(name, ())]
    if name in ("arrow-transports", "one-table"):
        has_chdb()
    for server in THROWAWAY.get(name, ()):
        available(server)
    if name in DATABASES:
        database: Database = request.getfixturevalue(DATABASES[name])
        for variable, value in database.env.items():
            monkeypatch.setenv(variable, value)
        words += ["--target", database.url, *database.flags]
    return words


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_built_in_scenario_is_planned_and_runs(
    name: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # As it is, with all its cells; one that needs a cluster gets the address of one.
    cluster = ("--on", "ray://127.0.0.1:10001") if name in ("flight-remote", "ingest-32") else ()
    whole = venturi("run", name, "--dry-run", *cluster, cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert "trials with warm-up: " in whole.stdout

    words = words_of(name, request, monkeypatch)
    planned = venturi(*words, "--dry-run")
    done = venturi(*words, "--out", tmp_path / "run")
    assert done.returncode == 0, f"{done.stderr}\n{done.stdout}"
    cells = {line.split()[0] for line in planned.stdout.splitlines() if "  " in line}
    trials = records(tmp_path / "run")
    assert {t["cell"] for t in trials} == cells and len(trials) == len(cells)
    for trial in trials:
        assert trial["outcome"] == "ok" and trial["counts"]["rows"] > 0
        assert trial["verification"]["achieved"] in ("checksum", "sums", "count"), trial["parameters"]
