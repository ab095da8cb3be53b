"""`venturi fit` and `venturi predict` as users run them."""

from __future__ import annotations

import json
import shlex
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

RUN = "--operation get --streams 1,2,3,4 --rows-per-stream 10M --repeats 3 --no-report"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("predict") / "run"
    assert model(*RUN.split(), "--out", path, "-q").returncode == 0
    return path


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
    (one,) = document("predict", measured, "--streams", "8")["predictions"]
    assert one["parameters"]["threads"] == one["parameters"]["streams"] == 8


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
        assert done.returncode != 0
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


def test_figures_and_lines_of_the_report(measured: Path) -> None:
    from venturi.report import draw, reason

    found = results.load(measured)
    figure = models.scaling(found)
    assert figure is not None and models.hockney(found) is None
    assert {"measured", "law", "knee", "peak"} <= set(figure.names)
    for panel in figure.panels:
        assert draw.panel(figure, panel)
    assert draw.Drawing.of(figure).svg().startswith("<svg")
    sentences = [text for section in reason.models(found) for text in section.blocks[0].items]
    assert any("knee (90 % of the peak) at 3 streams" in text for text in sentences)
    sizes = results.load("reference:cartesius-localhost")
    assert models.scaling(sizes) is not None and models.hockney(sizes) is not None
    assert models.scaling(results.load("reference:akumuli")) is None


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
    assert "of the 2 links that the others could predict, 2 are inside" in text
    assert "--window" in text and "the window is the limit from" in text
    words = ("fit", over_links, "--over", "link", "--where", "streams == 1", "--format", "json")
    (one,) = json.loads(venturi(*words).stdout)["links"]["fits"]
    assert one["bounds"]["link"]["seen"] and len(one["left_out"]) == len(LINKS)
    wrong = venturi("fit", over_links, "--over", "link", "--hold-out", "3gbit")
    assert wrong.returncode != 0 and "no cell has that link" in wrong.stderr


def test_the_report_tells_of_links(over_links: Path) -> None:
    from venturi.report import reason

    titles = {s.title: s.blocks[0].items for s in reason.models(results.load(over_links))}
    assert "get over links, 1 stream" in titles
