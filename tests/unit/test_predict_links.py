"""`venturi predict --link` and `venturi fit --over link`, on runs made by formula and on a real one."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from test_link_law import LINKS, WINDOW, cells, few_steps, truth, written  # noqa: F401 - the fixture of both

from support import synthetic
from support.mistakes import check
from support.run import venturi
from venturi.analysis import results
from venturi.analysis.models import link_law
from venturi.common import links


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("links") / "run"
    written(path, [*cells(LINKS), *cells(LINKS, window=4 * 0.9 * WINDOW, more={"streams": 4}, seed=5)])
    return path


def test_each_setting_has_a_prediction(measured: Path) -> None:
    found = venturi("predict", measured, "--link", "500mbit 40ms", "--format", "json")
    assert found.returncode == 0, found.stderr
    made = json.loads(found.stdout)["predictions"]
    assert [one["where"] for one in made] == [{"streams": 4}, {"streams": 1}]
    way = link_law.path(links.parse("500mbit 40ms"), "down")
    for one, window in zip(made, (4 * 0.9 * WINDOW, 0.9 * WINDOW), strict=True):
        rate = one["throughput"]
        assert rate["low"] <= truth(way, window=window) <= rate["high"]
        assert one["value"] == "500mbit 40ms" and one["extrapolation"] == 1
    assert made[0]["law"] == "the link's rate" and made[1]["law"] == "window"
    assert "get with link 500mbit 40ms, 4 streams" in made[0]["text"]


def test_a_setting_can_be_named_and_set_says_the_same(measured: Path) -> None:
    one = venturi("predict", measured, "--link", "500mbit 40ms", "--set", "streams=1")
    other = venturi("predict", measured, "--set", "link=500mbit 40ms", "--streams", "1")
    assert one.returncode == other.returncode == 0
    assert one.stdout == other.stdout and "4 streams" not in one.stdout
    preset = venturi("predict", measured, "--link", "SAME-ZONE", "--set", "streams=1")
    assert "get with link same-zone" in preset.stdout


def test_what_cannot_be_done_is_said(measured: Path) -> None:
    def refused(words: str) -> str:
        done = venturi("predict", measured, *shlex.split(words))
        assert done.returncode != 0
        return f"{done.stderr.replace(str(measured), 'RUN')}exit code {done.returncode}"

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


def test_fit_over_links_leaves_each_out(measured: Path) -> None:
    found = venturi("fit", measured, "--over", "link", "--hold-out", "1gbit 20ms,100mbit 10ms")
    assert found.returncode == 0, found.stderr
    text = " ".join(found.stdout.split())
    assert "get over links, 1 stream" in text and "window:" in text and "in flight at most" in text
    assert "1gbit 20ms left out: predicted" in text and "50mbit 40ms left out" not in text
    assert "within 10 % of what was measured" in text
    assert "--window" in text and "round trip on, window is the limit" in text
    words = ("fit", measured, "--over", "link", "--where", "streams == 1", "--format", "json")
    (one,) = json.loads(venturi(*words).stdout)["links"]["fits"]
    assert one["bounds"]["link"]["seen"] and len(one["left_out"]) == len(LINKS)
    wrong = venturi("fit", measured, "--over", "link", "--hold-out", "3gbit")
    assert wrong.returncode != 0 and "no cell has that link" in wrong.stderr


def test_the_report_tells_of_links(measured: Path) -> None:
    from venturi.report.text import models

    titles = dict(models.sections(results.load(measured)))
    assert "get over links, 1 stream" in titles
