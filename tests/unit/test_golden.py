"""What the commands print, to the letter; and runs as older commits wrote them, which still open, say the
same numbers, and can be gone on with."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import venturi as package
from support.golden import kept
from support.hosts_records import placed, spread
from support.reader import Reader, fits
from support.records_schema import VALIDATOR
from support.run import DATA, TESTS, venturi
from support.synthetic import ENVIRONMENT, cells, imported, make_run, without_server
from venturi.store import reference

pytestmark = pytest.mark.usefixtures("servers_in_process")

TYPED: dict[str, str] = tomllib.loads((DATA / "typed.toml").read_text())


def slower(line: dict[str, Any]) -> dict[str, Any]:
    """A fifth more time."""
    times = line["times"] | {"interval_ns": int(line["times"]["interval_ns"] * 1.2)}
    return line | {"times": times}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with all runs in it."""
    at = tmp_path_factory.mktemp("golden")
    (archive,) = (DATA / "runs").glob("format-*.tar.xz")
    with tarfile.open(archive) as file:
        file.extractall(at, filter="data")
    make_run(at / "gets", cells(("get",), (1, 2, 4)))
    make_run(at / "foreign", cells(("get",), (1, 2, 4)), edit=without_server)
    make_run(at / "failed", cells(streams=(1, 2)), fail="operation == 'put' and streams == 1")
    make_run(at / "places", cells(("get",), (1, 2), ("local", "remote")))
    make_run(at / "old", cells(streams=(1, 2)))
    make_run(at / "new", cells(streams=(1, 2)), edit=slower)
    for night in range(12):
        began = int(ENVIRONMENT["started_unix_ns"]) + night * 86_400 * 10**9
        make_run(
            at / "nights" / f"night-{night:02}", cells(("get",), (2,)), repeats=5,
            edit=slower if night >= 6 else None, environment=ENVIRONMENT | {"started_unix_ns": began},
        )  # fmt: skip
    return at


def output(line: str, runs: Path) -> str:
    done = venturi(*shlex.split(line)[1:], cwd=runs)
    text = f"$ {line}\n{done.stdout}{done.stderr}".replace(f"{runs}/", "")
    return text if done.returncode == 0 else f"{text}(exit code {done.returncode})\n"


@pytest.mark.parametrize("name", TYPED)
def test_to_the_letter(name: str, runs: Path) -> None:
    kept(name, output(TYPED[name], runs))


def test_nothing_is_kept_that_is_not_compared() -> None:
    sources = "\n".join(path.read_text() for path in (TESTS / "unit").glob("test_*.py"))
    named = re.findall(r'kept\(\s*"([\w-]+)"', sources)
    named += [f"verdicts-{table.stem}" for table in (DATA / "verdicts").iterdir()]
    assert {path.stem for path in (DATA / "golden").iterdir()} == {*TYPED, *named}


def paced(line: dict[str, Any]) -> dict[str, Any]:
    """One that kept up with a schedule."""
    rate = line["counts"]["batches"] / line["times"]["interval_ns"] * 1.01e9
    return line | {"schedule": {"rate": rate, "intended": 1000, "late": 30, "max_lag_ns": 2_500_000}}


def cut(line: dict[str, Any]) -> dict[str, Any] | None:
    return line | {"outcome": "interrupted"} if line["order"] == 3 else line if line["order"] < 3 else None


LOADERS = placed([{**p, "loaders": n} for n in (1, 2, 4) for p in cells(("get",), (8,))])
OTHERS: dict[str, dict[str, Any]] = {
    "hosts": {"matrix": LOADERS, "repeats": 3, "edit": spread(4, 2, slow=1)},
    "interrupted": {"matrix": cells(("get",), (1, 2)), "edit": cut},
    "imported": {"edit": imported, "ceilings": False, "environment": {}},
    "sizes": {"matrix": cells(("get",), (1, 2), rows=(1_000_000, 10_000_000))},
    "paced": {"matrix": cells(("get",), (1, 2)), "edit": paced},
}
READ = ("gets", "foreign", "failed", "places", "old", "new", *OTHERS, "charrow", "flight", "ingest", "upsert")


@pytest.mark.parametrize("name", [*READ, *(f"reference:{name}" for name in reference.SETS)])
def test_sentences_have_the_numbers_that_a_reader_computes(name: str, runs: Path, tmp_path: Path) -> None:
    run = make_run(tmp_path / name, **OTHERS[name]) if name in OTHERS else runs / name
    reader, wrong, counted = Reader(name if ":" in name else str(run)), list[Any](), 0
    for clause in reader.clauses():
        found = reader.explained(clause)
        for printed, value in found if isinstance(found, list) else ():
            counted += 1
            # Two more or less in its last digit would be seen.
            if [fits(printed, value, off) for off in (-2, 0, 2)] != [False, True, False]:
                wrong.append((clause, printed, value))
        wrong += [(clause, found)] if isinstance(found, str) else []
    assert counted and not wrong, wrong


# ---- older runs


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


def test_lines_follow_the_schema_of_today(run: Path) -> None:
    for record in records(run):
        VALIDATOR.validate(record)
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({**record, "outcome": "good"})


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


@pytest.mark.usefixtures("short_probes")
def test_a_whole_run_has_nothing_left_to_resume(run: Path) -> None:
    before = (run / "trials.jsonl").read_bytes()
    done = venturi("run", "--resume", run, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert (run / "trials.jsonl").read_bytes() == before


@pytest.mark.usefixtures("short_probes")
def test_a_run_that_lost_its_end_is_resumed_with_the_trials_it_lacks(archive: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(archive / "flight", tmp_path / "flight"))
    lines = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    (run / "trials.jsonl").write_text("".join(lines[:-2]))
    done = venturi("run", "--resume", run, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    whole = [(record["cell"], record["repeat"]) for record in map(json.loads, lines)]
    again = [(record["cell"], record["repeat"]) for record in records(run)]
    assert again[:-2] == whole[:-2] and sorted(again) == sorted(whole)
