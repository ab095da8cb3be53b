"""The public Python API, and the example of its documentation."""

import doctest
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import venturi
from support.model import ModelExecutor, used
from support.run import ROOT
from support.run import venturi as run_cli
from support.synthetic import HOSTILE, cells, hostile, make_run
from venturi.common import toml_text

FIGURES = ("throughput-streams", "box-size", "roofline", "timeline", "stages", "latency")


@pytest.fixture(scope="module", autouse=True)
def by_a_formula() -> Iterator[None]:
    with used(ModelExecutor()):
        yield


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> venturi.Run:
    return venturi.open(make_run(tmp_path_factory.mktemp("made") / "run", cells(streams=(1, 2)), repeats=2))


def test_open_tables_and_figures(made: venturi.Run) -> None:
    assert [table.num_rows for table in (made.trials, made.cells, made.ceilings)] == [12, 4, 12]
    assert made.samples.num_rows > 0
    assert set(made.cells.column("good").to_pylist()) == {2}
    assert (len(made.to_pandas()), len(made.to_pandas("trials"))) == (4, 12)
    figure = made.figure("throughput-streams", reference="macbook")
    series = figure.spec["vconcat"][0]["concat"][0]["data"]["values"]
    assert [one["name"] for one in series][:2] == ["median", "raw TCP"]
    assert set(made.figures) == set(FIGURES)
    assert repr(made).startswith("<venturi.Run 20261121-084500-synthetic: get: best ")
    assert [w.kind for w in made.warnings] == ["few"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(made: venturi.Run, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    drawn = made.figure(name)._repr_svg_()
    assert drawn.count("<path") > 10
    assert capfd.readouterr().err == "", "Vega-Lite warns of what it does not understand"


def test_a_run_is_its_cells(made: venturi.Run) -> None:
    assert [cell.name for cell in made] == list(made.verdicts)
    assert pa.table(made) == made.cells and made.trials is made.trials
    assert {*venturi.__all__, "__version__"} <= set(dir(venturi))
    assert all(getattr(venturi, name).__module__.startswith("venturi.") for name in venturi.__all__)


def test_last_is_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(venturi.StoreError, match="no last run"):
        venturi.open()
    for at, name in enumerate(["b", "a"]):
        path = make_run(tmp_path / "venturi-runs" / name, [])
        os.utime(path / "environment.json", (1000 + at, 1000 + at))
        assert not (path / "trials.jsonl").exists()
    (tmp_path / "venturi-runs" / "notes").mkdir()
    assert venturi.open().path.name == "a"


def test_run_suggests_a_setting(tmp_path: Path) -> None:
    with pytest.raises(venturi.VenturiError) as caught:
        venturi.run("quick", out=tmp_path / "run", stream=2)
    assert caught.value.hint == "did you mean streams?"


def test_notebook_fragment_escapes(tmp_path: Path) -> None:
    run = venturi.open(make_run(tmp_path / "run", cells(("get",), (1, 2)), repeats=2, warmup=0, edit=hostile))
    fragment = run._repr_html_()
    assert "<script" not in fragment and "<img" not in fragment
    assert "&lt;script&gt;" in fragment
    assert HOSTILE not in fragment


def test_import_is_light() -> None:
    # `venturi --help` must not pay for what notebooks need.
    code = "import venturi, venturi.cli.run, sys; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["vl_convert", "scipy", "pyarrow", "numpy", "pandas", "duckdb", "pydantic"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "python-api.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python-api.md", "exec"), names)
    assert (tmp_path / "report.html").exists() and names["run"].path.parent == Path("venturi-runs")
    assert {cell.parameters["place"] for cell in names["found"].base.cells} == {"base"}
    assert len(names["series"].points) > 1 and not names["old"].running


@pytest.mark.parametrize("module", ["machine", "measuring", "result"])
def test_examples_of_docstrings(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = importlib.import_module(f"venturi.api.{module}")
    failed, attempted = doctest.testmod(found, extraglobs={"venturi": venturi})
    assert attempted and not failed


@pytest.mark.parametrize("settings", [{"loaders": 4}, {"loaders": [1, 2]}, {"servers": 2}])
def test_what_places_streams_is_not_ignored(tmp_path: Path, settings: dict[str, object]) -> None:
    with pytest.raises(
        venturi.VenturiError, match=f"{next(iter(settings))} is for streams that are placed"
    ) as raised:
        venturi.run(streams=4, out=tmp_path / "run", **settings)
    assert 'on="auto", loaders=4' in raised.value.hint and not (tmp_path / "run").exists()
    with pytest.raises(venturi.VenturiError, match="loaders is for streams"):
        venturi.run({"hosts": {"loaders": 4}}, streams=4, out=tmp_path / "run")
    # A file may say how it is to be shared by who asks for that.
    path = tmp_path / "shared.toml"
    path.write_text("[workload]\nstreams = 4\nrows_per_stream = 1000\n[hosts]\nloaders = 2\n")
    run = venturi.run(path, repeats=1, ceilings=False, out=tmp_path / "run")
    assert run.trials.num_rows == 2


SMALL = {"name": "small", "workload": {"rows_per_stream": "1M"}, "run": {"repeats": 6, "warmup": 0}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> venturi.Run:
    out = tmp_path_factory.mktemp("measured") / "run"
    operations, streams = ["get", "put"], [1, 2, 4, 8]
    return venturi.run(SMALL, operation=operations, streams=streams, out=out)


def test_seeds_and_other_words_are_those_of_the_command_line(tmp_path: Path) -> None:
    settings = {"points_per_stream": "1k", "points_per_batch": [100, 200], "seed": 7, "shuffle_seed": 3}
    run = venturi.run(streams=1, out=tmp_path / "run", ceilings=False, repeats=1, **settings)
    found = toml_text.parse(run.scenario, "scenario.toml")
    assert (found["workload"]["seed"], found["run"]["seed"]) == (7, 3)
    assert found["workload"]["rows_per_stream"] == 1000
    assert found["matrix"]["rows_per_batch"] == [100, 200]


def test_progress_is_reported_trial_by_trial(tmp_path: Path) -> None:
    told: list[venturi.Event] = []
    with used(ModelExecutor(fail="streams == 2")):
        venturi.run(SMALL, streams=[1, 2], out=tmp_path / "run", progress=told.append)
    begun = [event for event in told if event.record is None and event.moved is None]
    ended = [event for event in told if event.record is not None]
    assert [event.number for event in begun] == [event.number for event in ended] == list(range(1, 13))
    assert {event.total for event in told} == {12} and not any(event.warmup for event in told)
    outcomes = {(event.cell, event.record["outcome"]) for event in ended if event.record}
    assert outcomes == {("get streams=1", "ok"), ("get streams=2", "failed")}


def test_a_dry_run_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan = venturi.dry_run(SMALL, streams=[1, 2, 4])
    assert (len(plan.cells), plan.trials) == (3, 18) and plan.payload_bytes == 7 * 6 * 32_000_000
    assert len(venturi.dry_run(SMALL, streams=[1, 2, 4], scale=0.001).cells) == 3
    assert not list(tmp_path.iterdir())


def test_a_run_is_gone_on_with(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with used(ModelExecutor(fail="streams == 2")):
        run = venturi.run(SMALL, streams=[1, 2], out=tmp_path / "run")
    assert capfd.readouterr() == ("", "") and {one.name for one in caplog.records} == {"venturi"}
    assert "get streams=2 repeat 0: failed: " in caplog.text
    assert venturi.resume(run.path).trials.num_rows == 12
    again = venturi.resume(run.path, retry_failed=True)
    assert again.trials.num_rows == 12 and set(again.trials["outcome"].to_pylist()) == {"ok"}
    with pytest.raises(venturi.VenturiError, match="begun without it, in one process"):
        venturi.resume(run.path, on="local")


def test_what_analyses_a_run(measured: venturi.Run) -> None:
    assert set(measured.verdicts) == {cell.name for cell in measured.results.cells}
    assert {finding.title.partition(":")[0] for finding in measured.findings} == {"get", "put"}
    assert {one.axis for one in measured.fits.scalings} == {"streams"}
    (one,) = measured.fit("streams", where=["operation == 'put'"]).scalings
    assert one.operation == "put"
    get, put = measured.predict(streams=16)
    assert (get.operation, get.value, put.operation) == ("get", 16, "put")
    best = measured.best(where=["streams <= 2"])
    assert [dict(one.workload)["operation"] for one in best] == ["get", "put"]
    (counted,) = venturi.sql("select count(*) as n from trials", measured, measured.path).to_pylist()
    assert counted["n"] == 2 * 48


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> venturi.Run:
    out = tmp_path_factory.mktemp("other") / "run"
    return venturi.run(SMALL, operation="get", streams=1, out=out)


def test_runs_are_compared(measured: venturi.Run, other: venturi.Run) -> None:
    found = venturi.compare(measured, other, threshold=0.5, force=True)
    assert len(found.rows) == 1 and int(found.exit_code) == 0
    assert len(other.compare(measured.path, metric="latency-p50").rows) == 1
    assert len(measured.compare_by("streams", "8", threshold=0.01)) == 3


def test_a_search_from_python(tmp_path: Path) -> None:
    told: list[venturi.Event] = []
    found = venturi.tune(
        "flight://h:1", streams=[1, 2, 4, 8], rows_per_batch=4096, trials=12, progress=told.append,
        out=tmp_path / "run",
    )  # fmt: skip
    assert found.best is not None and found.best["streams"] in (4, 8) and found.trials <= 12
    assert len([event for event in told if event.record and not event.warmup]) == found.trials
    kept = venturi.open(tmp_path / "run")
    assert kept.sql("select * from trials where not warmup").num_rows == found.trials


def test_limits_of_a_machine(tmp_path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    found = venturi.ceilings(
        "flight://node7", only=["tcp", "memory"], streams=[1, 4], repeats=2, headers={"a": "b"},
        progress=lambda *one: told.append(one),
    )  # fmt: skip
    typed = run_cli(
        *("ceilings", "flight://node7", "--only", "tcp,memory", "--streams", "1,4", "--repeats", "2"),
        *("--executor", "support.model", "--format", "json", "-q"),
    )
    said = json.loads(typed.stdout)
    assert [limit.title for limit in found.limits] == [limit["title"] for limit in said["limits"]]
    assert [line.text for line in found.narrowest] == [line["text"] for line in said["narrowest"]]
    assert len(found.narrowest) == 2 and len(told) == len(found.lines) == told[-1][0] == told[-1][1]
    assert all(limit.quantity.known and limit.error is None for limit in found.limits)


def test_results_of_other_tools(tmp_path: Path) -> None:
    lines = "0\t4\t4\t10000000\t4096\t1220.7\t0.5\t2441.4\n" * 2
    (tmp_path / "perf_stats_01.csv").write_text(lines)
    run = venturi.import_(tmp_path / "perf_stats_01.csv", out=tmp_path / "run", name="theirs", place="local")
    assert run.name == "theirs" and run.trials.num_rows == 2
    assert set(run.trials["place"].to_pylist()) == {"local"}


def test_mistakes_are_named(measured: venturi.Run, other: venturi.Run, tmp_path: Path) -> None:
    for wrong, named in (
        (lambda: other.figure("x"), "no figure 'x'"),
        (lambda: other.figure("throughput-streams"), "no data for the figure 'throughput-streams'"),
        (lambda: other.table("x"), "no table"),
        (lambda: venturi.open(tmp_path / "nothing"), "no such run directory"),
        (lambda: other.compare(measured, confidence=95), "confidence=95: must be a share"),
        (lambda: other.compare(measured, threshold=3), "threshold=3: must be a share"),
        (lambda: other.compare(measured, metric="thruput"), "metric='thruput': is not one of"),
        (lambda: measured.compare(measured.path), "compared with itself"),
        (lambda: measured.compare_by("streams", threshold=3.0), "threshold=3: must be a share"),
        (lambda: measured.best(within=5), "within=5: must be a share"),
        (lambda: measured.best(where=["streams > 99"]), "--where leaves no cell"),
        (lambda: measured.fit("strems"), "over=strems: no such parameter"),
        (lambda: measured.sql("select nothing"), "the query fails"),
        (lambda: venturi.tune("flight://h:1", trials=0), "trials must be 2 or more"),
        (lambda: venturi.tune("flight://h:1", streams=[2, 4], loaders=2, trials=3), "loaders is for"),
        (lambda: venturi.tune("flight://a:b:c"), "target: "),
        (lambda: venturi.ceilings(only="tape"), "no such kind"),
        (lambda: venturi.ceilings(tls_server="x"), "there is no setting 'tls_server'"),
        (lambda: venturi.ceilings(disk=tmp_path / "none"), "no such directory"),
        (lambda: venturi.ceilings(repeats=0), "at least 1"),
        (lambda: venturi.serve("flight", nope=True), "--nope: no such option"),
        (lambda: venturi.generate(tmp_path, archives=3, hosts=2), "archives 3: each has hosts to itself"),
        (lambda: venturi.history(tmp_path), "there is no run in it"),
    ):
        with pytest.raises(venturi.VenturiError, match=named):
            wrong()
    assert len(measured.compare_by("streams", 8)) == 3
    assert len(measured.best(where="streams <= 2")) == 2
    assert measured.predict(streams="16") == measured.predict(streams=16)
    matrix = {"streams": [1, 2]}
    assert len(venturi.dry_run(SMALL, rows_per_batch=[1024, 4096], matrix=matrix).cells) == 4
    assert matrix == {"streams": [1, 2]}
