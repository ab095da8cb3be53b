"""The public Python API, and the example of its documentation."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import venturi
from synthetic import HOSTILE, cells, hostile, make_run
from venturi.engine.model import ModelExecutor

FIGURES = ("throughput-streams", "box-size", "throughput-time", "roofline", "timeline", "pipeline", "stages")
FIGURES += ("latency",)


def test_open_tables_and_figures(tmp_path: Path) -> None:
    run = venturi.open(make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2))
    assert run.trials.num_rows == 12
    assert run.cells.num_rows == 4
    assert run.ceilings.num_rows == 12
    assert run.samples.num_rows > 0
    assert set(run.cells.column("good").to_pylist()) == {2}
    assert run.to_pandas().shape[0] == 4
    assert run.to_pandas("trials").shape[0] == 12
    figure = run.figure("throughput-streams", reference="macbook")
    assert [t.name for t in figure.data][:2] == ["median", "raw TCP"]
    assert set(run.figures) == set(FIGURES)
    assert repr(run).startswith("<venturi.Run 20261121-084500-synthetic: get: best ")
    assert [w.kind for w in run.warnings] == ["few"]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_valid_plotly(tmp_path: Path, name: str) -> None:
    # `go.Figure` validates every property: a misspelt one raises.
    run = venturi.open(make_run(tmp_path / "run", cells(streams=(1, 2)), repeats=2))
    figure = run.figure(name)
    assert len(figure.data) > 0
    assert figure.layout.title.text


def test_errors_name_the_choices(tmp_path: Path) -> None:
    run = venturi.open(make_run(tmp_path / "run", cells(("get",), (1,)), repeats=1, warmup=0))
    with pytest.raises(venturi.VenturiError, match="no figure 'x'"):
        run.figure("x")
    with pytest.raises(venturi.VenturiError, match="no data for the figure 'throughput-streams'"):
        run.figure("throughput-streams")
    with pytest.raises(venturi.VenturiError, match="no table"):
        run.table("x")
    with pytest.raises(venturi.StoreError, match="no such run directory"):
        venturi.open(tmp_path / "nothing")


def test_last_is_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(venturi.StoreError, match="no last run"):
        venturi.open()
    for at, name in enumerate(["b", "a"]):
        path = make_run(tmp_path / "venturi-runs" / name, [])
        os.utime(path / "environment.json", (1000 + at, 1000 + at))
        for late in ("trials.jsonl",):
            assert not (path / late).exists()
    (tmp_path / "venturi-runs" / "notes").mkdir()
    assert venturi.open().path.name == "a"


def test_run_measures_and_answers_the_run(tmp_path: Path) -> None:
    run = venturi.run(
        {"name": "small", "workload": {"data": "records"}},
        out=tmp_path / "run", executor=ModelExecutor(), operation="get", streams=[1, 2], rows_per_stream="1M",
        repeats=2, warmup=0,
    )  # fmt: skip
    assert run.path == tmp_path / "run"
    assert sorted(run.cells.column("streams").to_pylist()) == [1, 2]
    assert run.report().exists()


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
    code = "import venturi, venturi.cli, sys; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = ["plotly", "matplotlib", "scipy", "pyarrow", "numpy", "pandas", "duckdb"]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_documented_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[1] / "docs" / "python-api.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("venturi.engine.executor.CoreExecutor", ModelExecutor)
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/python-api.md", "exec"), names)
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize("settings", [{"loaders": 4}, {"loaders": [1, 2]}, {"servers": 2}])
def test_what_places_streams_is_not_ignored(tmp_path: Path, settings: dict[str, object]) -> None:
    with pytest.raises(
        venturi.VenturiError, match=f"{next(iter(settings))} is for streams that are placed"
    ) as raised:
        venturi.run(streams=4, executor=ModelExecutor(), out=tmp_path / "run", **settings)
    assert "--on auto --loaders 4" in raised.value.hint and not (tmp_path / "run").exists()
    with pytest.raises(venturi.VenturiError, match="loaders is for streams"):
        venturi.run({"hosts": {"loaders": 4}}, streams=4, executor=ModelExecutor(), out=tmp_path / "run")
    # A file may say how it is to be shared by who asks for that.
    path = tmp_path / "shared.toml"
    path.write_text("[workload]\nstreams = 4\nrows_per_stream = 1000\n[hosts]\nloaders = 2\n")
    run = venturi.run(path, repeats=1, ceilings=False, executor=ModelExecutor(), out=tmp_path / "run")
    assert run.trials.num_rows == 2
