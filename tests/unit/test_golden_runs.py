"""Runs as older commits wrote them still open, say the same numbers, and can be gone on with.

`data/runs/format-F-COMMIT.tar.xz` holds run directories as that commit left them (host name, kernel and
boot_id are made up). One is added where the format gains something; none is ever made anew.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tarfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import venturi as package
from support.records_schema import VALIDATOR
from support.run import DATA, venturi

pytestmark = pytest.mark.usefixtures("servers_in_process")

ARCHIVES = sorted((DATA / "runs").glob("format-*.tar.xz"))
RUNS = ("charrow", "flight", "ingest", "upsert")


@pytest.fixture(scope="module", params=ARCHIVES, ids=lambda path: path.name.removesuffix(".tar.xz"))
def archive(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("golden")
    with tarfile.open(request.param) as file:
        file.extractall(place, filter="data")
    return place


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest, archive: Path, tmp_path: Path) -> Path:
    """A copy, since commands may write into a run."""
    return Path(shutil.copytree(archive / request.param, tmp_path / request.param))


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]


def rates(run: Path) -> dict[str, float]:
    """Median bytes a second by cell, straight from the lines."""
    of_cells: dict[str, list[float]] = {}
    for record in records(run):
        rate = record["counts"]["payload_bytes"] / (record["times"]["interval_ns"] / 1e9)
        of_cells.setdefault(record["cell"], []).append(rate)
    return {cell: statistics.median(each) for cell, each in of_cells.items()}


def test_lines_follow_the_schema_of_today(run: Path) -> None:
    for record in records(run):
        VALIDATOR.validate(record)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**record, "outcome": "good"})


def test_medians_are_those_of_the_lines(run: Path) -> None:
    opened = package.open(run)
    found = {cell.name: cell.throughput.value for cell in opened.results.cells if cell.throughput}
    assert found == pytest.approx(rates(run), rel=1e-9)


def test_every_trial_has_its_rows_in_every_table(run: Path) -> None:
    trials = {record["trial"] for record in records(run)}
    opened = package.open(run)
    for name in ("trials", "samples", "streams", "stages", "latency", "resources"):
        assert set(opened.table(name)["trial"].to_pylist()) == trials, name


def test_commands_read_it(run: Path, archive: Path) -> None:
    shown = venturi("show", run, "--cell", "best")
    assert (shown.returncode, shown.stderr) == (0, "")
    asked = venturi("sql", run, "select count(*) as n, sum(rows) as rows from trials", "--format", "json")
    rows = sum(record["counts"]["rows"] for record in records(run))
    assert json.loads(asked.stdout) == [{"n": len(records(run)), "rows": rows}], asked.stderr
    compared = venturi("compare", archive / run.name, run)
    assert compared.returncode == 0, compared.stderr
    page = venturi("report", run, "--out", run / "page.html")
    assert page.returncode == 0 and (run / "page.html").stat().st_size > 100_000, page.stderr


def test_a_whole_run_has_nothing_left_to_resume(run: Path) -> None:
    before = (run / "trials.jsonl").read_bytes()
    done = venturi("run", "--resume", run, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (run / "trials.jsonl").read_bytes() == before


def test_a_run_that_lost_its_end_is_resumed_with_the_trials_it_lacks(archive: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(archive / "flight", tmp_path / "flight"))
    lines = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    (run / "trials.jsonl").write_text("".join(lines[:-2]))
    done = venturi("run", "--resume", run, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    whole = [(record["cell"], record["repeat"]) for record in map(json.loads, lines)]
    again = [(record["cell"], record["repeat"]) for record in records(run)]
    assert again[:-2] == whole[:-2] and sorted(again) == sorted(whole)
