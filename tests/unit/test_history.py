"""Change points on series with known truth, and `venturi history` over runs that became slower."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from support.compare import said, slower
from support.draws import draws, slack
from support.run import venturi
from support.synthetic import ENVIRONMENT, cells, make_run
from venturi.analysis.statistics.change_points import change_points

DAY_NS = 86_400 * 10**9


def test_series_without_a_change_have_none() -> None:
    """At a level of 1 %: of 300 series 3, and 9 or more in one of 250 such counts."""
    draw = np.random.default_rng(11)
    tries = draws(300)
    alarms = sum(bool(change_points(draw.normal(0.0, 0.02, 30))) for _ in range(tries))
    assert alarms / tries < 0.03 + slack(tries, 0.01)


def test_a_change_of_five_percent_is_found_where_it_is() -> None:
    draw, found = np.random.default_rng(12), 0
    tries = draws(100, 4)
    for _ in range(tries):
        series = np.concatenate([draw.normal(0.0, 0.015, 14), draw.normal(-0.05, 0.015, 10)])
        places = [one.at for one in change_points(series)]
        found += len(places) == 1 and abs(places[0] - 14) <= 1
    assert found / tries >= 0.93 - slack(tries, 0.02)


def test_several_changes_and_none_to_see() -> None:
    steps = [0.0] * 12 + [0.1] * 12 + [-0.1] * 12
    noisy = np.asarray(steps) + np.random.default_rng(13).normal(0.0, 0.01, 36)
    assert [one.at for one in change_points(noisy)] == [12, 24]
    assert change_points([5.0] * 40) == []
    # Too few to tell: three against three come about by chance.
    assert change_points([1.0, 1.0, 1.0, 2.0, 2.0, 2.0]) == change_points([]) == []
    with pytest.raises(ValueError, match="numbers"):
        change_points([1.0, float("nan")])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen days of one scenario; from the ninth on puts take a tenth longer. One run is damaged."""
    made = tmp_path_factory.mktemp("runs")
    for day in range(14):
        environment = {**ENVIRONMENT, "started_unix_ns": 1_760_000_000 * 10**9 + day * DAY_NS}
        # The seed of the model's noise is the trial's name: another factor each day stands for its noise.
        factor = 1.0 + 0.004 * ((day * 7) % 5)
        worse = 1.1 if day >= 8 else 1.0

        def edit(line: dict, factor: float = factor, worse: float = worse) -> dict:
            put = line["parameters"]["operation"] == "put"
            return slower(factor * (worse if put else 1.0))(line)

        matrix = cells(streams=(2,))
        make_run(made / f"day-{day:02}", matrix, repeats=3, samples=False, edit=edit, environment=environment)
    (made / "damaged").mkdir()
    (made / "damaged" / "trials.jsonl").write_text("no json\n" * 2)
    (made / "notes").mkdir()
    return made


def test_the_day_from_which_on_it_is_slower(runs: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    done = venturi("history", runs, "--out", page)
    assert done.returncode == 0, done.stderr
    assert "warning: left out: " in done.stderr and "damaged" in done.stderr
    assert "on (run day-08)" in said(done)
    assert page.read_text().count("<svg") == 2 and "day-08" in page.read_text()
    document = json.loads(venturi("history", runs, "--format", "json").stdout)
    (put,) = [one for one in document if one["parameters"]["operation"] == "put"]
    (change,) = put["changes"]
    assert change["at"] == 8 and change["low"] < 1 / 1.1 < change["high"]
    assert len(put["points"]) == 14 and put["points"][0]["run"].endswith("day-00")


def test_one_cell_has_a_line_a_run(runs: Path) -> None:
    done = venturi("history", runs, "--where", "operation == 'put'")
    assert [line.split()[-1] for line in done.stdout.splitlines()[-14:]].count("change") == 1
    assert "2025-10-09" in done.stdout
    # A change smaller than what is asked for is none.
    assert "no change of the level seen" in venturi("history", runs, "--least", "20%").stdout


def test_mistakes_are_named(runs: Path, tmp_path: Path) -> None:
    for words, text in (
        ([tmp_path], "there is no run in it"),
        ([runs, "--where", "streams == 3"], "leaves no cell"),
    ):
        done = venturi("history", *words)
        assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
    twins = tmp_path / "twins"
    for name in ("first", "second"):
        ports = [cell for n in (1, 2) for cell in cells(("get",), (1,), target=f"flight://127.0.0.1:{n}")]
        make_run(twins / name, ports, repeats=1, samples=False)
    assert "no two runs have a cell in common" in venturi("history", twins).stderr
    (tmp_path / "one").mkdir()
    make_run(tmp_path / "one" / "run", cells(streams=(1,)), repeats=1, samples=False)
    assert "no two runs have a cell in common" in venturi("history", tmp_path / "one").stderr
    make_run(tmp_path / "one" / "again", cells(streams=(1,)), repeats=1, samples=False)
    assert "fewer than 10 runs are too few to tell" in said(venturi("history", tmp_path / "one"))
