"""`venturi fit` and `venturi predict` as users run them, and predictions checked by trials."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_link_law import LINKS, WINDOW, cells, truth, written

from support import synthetic
from support.mistakes import check
from support.run import model, venturi
from venturi.analysis import results
from venturi.analysis.models import link_law
from venturi.common import links
from venturi.report.figures import models

RUN = (
    "--operation",
    "get",
    "--streams",
    "1,2,3,4",
    "--rows-per-stream",
    "10M",
    "--repeats",
    3,
    "--no-report",
)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predict") / "run"
    assert model(*RUN, "--out", path, "-q").returncode == 0
    return path


@pytest.fixture
def run(measured: Path, tmp_path: Path) -> Path:
    """A copy that a test may measure further."""
    return Path(shutil.copytree(measured, tmp_path / "run"))


def document(*arguments: object) -> dict:
    found = venturi(*arguments, "--format", "json")
    assert found.returncode == 0, found.stderr
    assert found.stderr == ""
    return dict(json.loads(found.stdout))


def test_fit_as_json_holds_what_the_text_says(measured: Path) -> None:
    (one,) = document("fit", measured)["scaling"]
    assert one["axis"] == "streams" and one["law"] == "flat"
    assert one["parameters"]["l"]["low"] < one["parameters"]["l"]["value"] < one["parameters"]["l"]["high"]
    assert sum(law["weight"] for law in one["laws"]) == pytest.approx(1)
    assert [n for n, _ in one["medians"]] == [1, 2, 3, 4]


def test_too_few_values_are_said_and_not_fitted(tmp_path: Path) -> None:
    path = synthetic.make_run(tmp_path / "run", synthetic.cells(streams=(1, 2, 4)))
    found = venturi("fit", path)
    assert found.returncode == 0
    assert "only 3 different values (1, 2, 4), 4 are needed" in " ".join(found.stdout.split())
    refused = venturi("predict", path, "--streams", "8")
    assert refused.returncode == 2
    assert "only 3 different values" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_held_out_values_are_predicted(measured: Path) -> None:
    found = document("fit", "reference:cartesius-remote", "--hold-out", "6,7,8")
    pooled = [row for row in found["hold_out"] if "together" in row["fit"]]
    assert [row["value"] for row in pooled] == [6, 7, 8]
    assert all(abs(row["error"]) < 0.08 for row in pooled)
    assert all(row["low"] < row["predicted"] < row["high"] for row in pooled)


def test_what_cannot_be_done_is_said_in_a_line(measured: Path) -> None:
    def refused(line: str) -> str:
        done = venturi(*shlex.split(line.replace("RUN", str(measured))))
        assert done.returncode != 0 and not (measured / "predictions.jsonl").exists()
        return f"{done.stderr.replace(str(measured), 'RUN')}exit code {done.returncode}"

    check("predictions", refused)


def test_sizes_are_predicted_by_the_line_over_sizes() -> None:
    (one,) = document(
        "predict", "reference:macbook-get", "--set", "rows_per_stream=1G", "--set", "streams=5"
    )["predictions"]
    assert one["law"] == "Hockney"
    assert one["extrapolation"] == 2
    assert one["throughput"]["value"] == pytest.approx(2.85e9, rel=0.03)


def test_rates_of_rows_are_predicted_in_rows(tmp_path: Path) -> None:
    def rows_only(line: dict) -> dict:
        line = synthetic.imported(line)
        line["counts"].pop("payload_bytes")
        return line

    path = synthetic.make_run(
        tmp_path / "run", synthetic.cells(("get",), streams=(1, 2, 3, 4, 6)), edit=rows_only, ceilings=False
    )
    (one,) = document("predict", path, "--streams", "8")["predictions"]
    assert one["throughput"]["unit"] == "rows/s"
    assert "rows/s" in one["text"]


def test_a_queued_prediction_is_measured_and_shown_beside(run: Path) -> None:
    queued = venturi("predict", run, "--streams", "8", "--queue")
    assert queued.returncode == 0 and "queued" in queued.stderr
    # The same again is one line: nothing was measured since.
    venturi("predict", run, "--streams", "8", "--queue")
    (line,) = [json.loads(text) for text in (run / "predictions.jsonl").read_text().splitlines()]
    assert line["kind"] == "prediction" and line["parameters"]["streams"] == 8
    assert line["parameters"]["threads"] == 8
    assert line["low"] < line["predicted"] < line["high"]
    assert "not measured yet" in venturi("predict", run, "--checked").stdout

    before = len((run / "trials.jsonl").read_text().splitlines())
    checked = venturi("predict", run, "--check", "--executor", "support.model")
    assert checked.returncode == 0, checked.stderr
    assert "predicted" in checked.stdout and "measured" in checked.stdout
    after = synthetic.lines(run)
    added = after[before:]
    # The run's own repeats and warm-up, in the same directory, of the cell that was named beforehand.
    assert len(added) == 4 and {t["cell"] for t in added} == {line["cell"]}
    assert sum(t["warmup"] for t in added) == 1

    (one,) = results.load(run).predictions
    assert one.inside is True and one.error is not None and abs(one.error) < 0.1
    assert one.sentence.endswith("inside the interval")
    # Nothing is measured twice.
    venturi("predict", run, "--check", "--executor", "support.model")
    assert len(synthetic.lines(run)) == len(after)


def test_resume_measures_what_is_queued_interleaved(run: Path) -> None:
    for streams in ("6", "8"):
        assert venturi("predict", run, "--streams", streams, "--queue").returncode == 0
    before = len(synthetic.lines(run))
    assert model("--resume", run, "--no-report", "-q").returncode == 0
    added = synthetic.lines(run)[before:]
    assert {t["parameters"]["streams"] for t in added} == {6, 8}
    # Round by round: both cells once before either comes again.
    for i in range(0, len(added), 2):
        assert {t["parameters"]["streams"] for t in added[i : i + 2]} == {6, 8}
    assert [p.pending for p in results.load(run).predictions] == [False, False]


def test_a_wrong_prediction_is_called_one(run: Path) -> None:
    venturi("predict", run, "--streams", "8", "--queue")
    path = run / "predictions.jsonl"
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"predicted": 9e9, "low": 8e9, "high": 10e9}) + "\n")
    found = venturi("predict", run, "--check", "--executor", "support.model", "-q")
    assert "outside the interval" in found.stdout
    assert results.load(run).predictions[0].inside is False


def test_a_torn_last_prediction_is_mended(run: Path) -> None:
    venturi("predict", run, "--streams", "8", "--queue")
    with (run / "predictions.jsonl").open("a") as file:
        file.write('{"format": 1, "kind": "pred')
    assert len(results.load(run).predictions) == 1
    assert venturi("predict", run, "--check", "--executor", "support.model", "-q").returncode == 0
    assert (run / "predictions.jsonl").read_text().endswith("}\n")


def test_every_axis_of_the_run_moves_along(tmp_path: Path) -> None:
    path = tmp_path / "run"
    arguments = ("--operation", "get,put", "--streams", "1,2,3,4", "--rows-per-batch", "1024,4096")
    few = ("--rows-per-stream", "1M", "--repeats", "2", "--no-report", "-q")
    assert model(*arguments, *few, "--out", path).returncode == 0
    found = venturi("predict", path, "--streams", "8", "--set", "rows_per_batch=1024", "--queue")
    assert found.returncode == 0, found.stderr
    assert venturi("predict", path, "--check", "--executor", "support.model", "-q").returncode == 0
    new = [t["parameters"] for t in synthetic.lines(path) if t["parameters"]["streams"] == 8]
    assert {(p["operation"], p["rows_per_batch"]) for p in new} == {("get", 1024), ("put", 1024)}


def test_figures_and_lines_of_the_report(run: Path) -> None:
    from venturi.report.draw import matplotlib_figures, plotly_figures
    from venturi.report.text import models as fits

    venturi("predict", run, "--streams", "8", "--queue")
    venturi("predict", run, "--check", "--executor", "support.model", "-q")
    found = results.load(run)
    (figure,) = models.figures(found)
    assert figure.name == "model-scaling"
    assert {"measured", "law", "knee", "peak", "predicted", "measured after"} <= set(figure.names)
    for panel in figure.panels:
        assert plotly_figures.panel_document(figure, panel)
    assert matplotlib_figures.render(figure, "svg").startswith(b"<?xml")
    assert any("knee (90 % of the peak) at 3 streams" in line for line in fits.lines(found))
    assert "predictions" in dict(fits.sections(found))
    sizes = models.figures(results.load("reference:cartesius-localhost"))
    assert [f.name for f in sizes] == ["model-scaling", "model-hockney"]
    assert models.figures(results.load("reference:akumuli")) == []


# ---- over links


@pytest.fixture(scope="module")
def over_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("links") / "run"
    written(path, [*cells(LINKS), *cells(LINKS, window=4 * 0.9 * WINDOW, more={"streams": 4}, seed=5)])
    return path


def test_each_setting_has_a_prediction(over_links: Path) -> None:
    found = venturi("predict", over_links, "--link", "500mbit 40ms", "--format", "json")
    assert found.returncode == 0, found.stderr
    made = json.loads(found.stdout)["predictions"]
    assert [one["where"] for one in made] == [{"streams": 4}, {"streams": 1}]
    way = link_law.path(links.parse("500mbit 40ms"), "down")
    for one, window in zip(made, (4 * 0.9 * WINDOW, 0.9 * WINDOW), strict=True):
        rate = one["throughput"]
        assert rate["low"] <= truth(way, window=window) <= rate["high"]
        assert one["value"] == "500mbit 40ms" and one["extrapolation"] == 1
    assert made[0]["law"] == "the link's rate" and made[1]["law"] == "the window"
    assert "get with link 500mbit 40ms, 4 streams" in made[0]["text"]


def test_a_setting_can_be_named_and_set_says_the_same(over_links: Path) -> None:
    one = venturi("predict", over_links, "--link", "500mbit 40ms", "--set", "streams=1")
    other = venturi("predict", over_links, "--set", "link=500mbit 40ms", "--streams", "1")
    assert one.returncode == other.returncode == 0
    assert one.stdout == other.stdout and "4 streams" not in one.stdout
    preset = venturi("predict", over_links, "--link", "SAME-ZONE", "--set", "streams=1")
    assert "get with link same-zone" in preset.stdout


def test_what_cannot_be_done_is_said(over_links: Path) -> None:
    def refused(words: str) -> str:
        done = venturi("predict", over_links, *shlex.split(words))
        assert done.returncode != 0
        return f"{done.stderr.replace(str(over_links), 'RUN')}exit code {done.returncode}"

    check("predictions-links", refused)


def test_a_run_without_links_says_how_to_get_them(tmp_path: Path) -> None:
    synthetic.make_run(tmp_path / "run")
    found = venturi("predict", tmp_path / "run", "--link", "1gbit")
    assert found.returncode != 0
    assert "went over a link that was made for it" in " ".join(found.stderr.split())


def test_others_take_what_they_took_where_nothing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "run"
    written(path, cells(LINKS[:8], more={"cross": 50.0}))

    def made(*more: str) -> dict[str, Any]:
        found = venturi("predict", path, "--link", "100mbit 20ms", *more, "--format", "json")
        assert found.returncode == 0, found.stderr
        (one,) = json.loads(found.stdout)["predictions"]
        return dict(one)

    same, none = made(), made("--set", "cross=none")
    assert same["parameters"]["cross"] == 50 and none["parameters"]["cross"] is None
    assert none["throughput"]["value"] == pytest.approx(2 * same["throughput"]["value"], rel=0.1)
    again = made("--set", "cross=50%")
    assert again["throughput"] == same["throughput"] and "cross 50" in again["text"]


def test_fit_over_links_leaves_each_out(over_links: Path) -> None:
    found = venturi("fit", over_links, "--over", "link", "--hold-out", "1gbit 20ms,100mbit 10ms")
    assert found.returncode == 0, found.stderr
    text = " ".join(found.stdout.split())
    assert "get over links, 1 stream" in text and "by the window (" in text and "in flight at most" in text
    assert "1gbit 20ms left out: predicted" in text and "50mbit 40ms left out" not in text
    assert "within 10 % of what was measured" in text
    assert "--window" in text and "the window is the limit from" in text
    words = ("fit", over_links, "--over", "link", "--where", "streams == 1", "--format", "json")
    (one,) = json.loads(venturi(*words).stdout)["links"]["fits"]
    assert one["bounds"]["link"]["seen"] and len(one["left_out"]) == len(LINKS)
    wrong = venturi("fit", over_links, "--over", "link", "--hold-out", "3gbit")
    assert wrong.returncode != 0 and "no cell has that link" in wrong.stderr


def test_the_report_tells_of_links(over_links: Path) -> None:
    from venturi.report.text import models

    titles = dict(models.sections(results.load(over_links)))
    assert "get over links, 1 stream" in titles
