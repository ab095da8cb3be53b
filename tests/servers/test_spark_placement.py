"""`--on spark`: the streams of a trial in the tasks of a real Spark, and in this process beside it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support import needs_spark, read  # noqa: F401  # before what imports Spark
from support.run import command, environment

pytestmark = pytest.mark.usefixtures("core")
SHAPE = (
    *("run", "--target", "charrow://local", "--data", "records", "--columns", "4", "--repeats", "1"),
    *("--warmup", "0", "--no-ceilings", "--no-report", "--master", "local[2]"),
)


def run(out: Path, *words: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Exit status, standard error, and the records; a Spark takes its time to start."""
    done = subprocess.run(
        command(*SHAPE, *words, "--out", out),
        capture_output=True,
        text=True,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode, done.stderr, read.records(out)


def test_partitions_encoders_and_decoders_within_spark_and_beside_it(tmp_path: Path) -> None:
    """The published shape, small: a loader a partition, every row once, and the native client in one run."""
    axes = ("--streams", "1,2", "--encoders", "2", "--decoders", "1", "--rows-per-stream", "100k")
    status, said, records = run(tmp_path / "run", *axes, "--on", "here,spark")
    assert status == 0, said
    assert "WARN" not in said and "Spark's default log4j" not in said
    by_cell = {(record["parameters"]["on"], record["parameters"]["streams"]): record for record in records}
    assert set(by_cell) == {(on, s) for on in (None, "spark") for s in (1, 2)}
    for (on, streams), record in by_cell.items():
        assert record["outcome"] == "ok" and record["counts"]["rows"] == 100_000 * streams
        found = record["verification"]
        assert (found["achieved"], found["expected_rows"]) == ("checksum", 100_000 * streams)
        if on is None:
            assert record["parameters"]["loaders"] is None and not record.get("hosts")
            continue
        assert record["parameters"]["loaders"] == streams
        hosts = record["hosts"]
        assert [(host["host"], host["streams"], host["lead"]) for host in hosts] == [
            (f"loader-{at + 1}", [at, 1], at == 0) for at in range(streams)
        ]
        assert sum(host["rows"] for host in hosts) == 100_000 * streams
        assert record["pools"]["server"]["encoders"]["threads"] == 2
        assert record["pools"]["client"]["decoders"]["threads"] == streams  # one of each loader
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert set(environment["hosts"]) == {"loader-1", "loader-2"}


def test_two_streams_a_loader_that_fail(tmp_path: Path) -> None:
    """An error in one of the tasks is the trial's, by its name, and the next trial has tasks again."""
    scenario = tmp_path / "two.toml"
    queries = ["SELECT * FROM nowhere", "SELECT * FROM records(rows = 5000)"]
    scenario.write_text(f'name = "two"\n[target]\nurl = "charrow://local"\n[matrix]\nquery = {queries}\n')
    words = (str(scenario), "--streams", "4", "--loaders", "2", "--on", "spark")
    status, said, records = run(tmp_path / "run", *words)
    outcomes = {record["parameters"]["query"]: record for record in records}
    assert status != 0 and len(outcomes) == 2, said
    bad = outcomes["SELECT * FROM nowhere"]
    assert bad["outcome"] == "failed" and "loader-1" in bad["error"]["message"]
    good = outcomes["SELECT * FROM records(rows = 5000)"]
    assert good["outcome"] == "ok" and good["counts"]["rows"] == 5000, good["error"]
    assert [host["streams"] for host in good["hosts"]] == [[0, 2], [2, 2]]
