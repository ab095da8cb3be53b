"""What all benches share: how a goal is judged, what a page says, which records are refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from support.run import ROOT

sys.path.append(str(ROOT))

from bench import goals, records, run, shared
from bench.page import Page

HEAD = {
    "date": "2026-11-26T00:00:00Z", "cpu": "Model CPU", "cpus": 2, "kernel": "6.1", "commit": "abcdef12",
    "load_before": 0.25,
}  # fmt: skip


@pytest.mark.parametrize(
    ("values", "least", "most"),
    [
        ([1.1, 1.2, 1.3], "met", "missed"),
        ([0.7, 0.8, 0.9], "missed", "met"),
        ([0.9, 1.0, 1.1], "inconclusive", "inconclusive"),
    ],
)
def test_a_goal_is_met_or_missed_if_the_whole_interval_is(values: list[float], least: str, most: str) -> None:
    found = [goals.judge("a", 2 * values, 1.0, most=most) for most in (False, True)]
    assert [goal.verdict for (goal,) in found] == [least, most]


def test_few_repeats_and_few_samples_are_inconclusive() -> None:
    assert goals.judge("a", 6 * [0.7], 1.0)[0].line == "| a | >= 1 | 0.7 | **missed** |"
    (few,) = goals.judge("a", 3 * [0.7], 1.0)
    assert few.verdict == "inconclusive" and "too few repeats (75%)" in few.line
    assert [goals.share("b", n, 20, 0.95)[0].verdict for n in (20, 15)] == ["inconclusive", "missed"]
    assert goals.judge("a", [], 1.0) == goals.share("b", 0, 0, 1) == []
    assert goals.exact("b", 2, 2).verdict == "met"


def page(values: Sequence[float], wanted: float, failed: Sequence[str] = ()) -> Page:
    judged = goals.judge("a of b", values, wanted)
    lines = [{"steal": 0.01}]
    return Page("A beside B", "whether a is b.", HEAD, lines, ["text"], judged, "It is.", "6 rounds", failed)


def test_a_page_begins_with_what_result_and_how_sure() -> None:
    title, _, *three, empty, body = page(6 * [0.5], 0.4).markdown().splitlines()[:7]
    assert (title, empty, body) == ("# A beside B, 2026-11-26", "", "text")
    assert three == [
        "- **What:** whether a is b.",
        "- **Result:** It is. Goals: 1 met, 0 missed, 0 inconclusive.",
        "- **How sure:** 6 rounds; load 0.25 before; CPU time stolen 1.0 %; Model CPU, 2 CPUs, Linux 6.1; "
        "commit abcdef12.",
    ]


def test_of_many_goals_those_are_listed_that_are_not_met() -> None:
    judged = [goals.exact(f"goal {n}", n, 1) for n in range(30)]
    text = Page("t", "w", HEAD, [], [], judged).markdown()
    assert "| goal 0 |" in text and "| goal 1 |" not in text and "The other 29 goals are met." in text


@pytest.mark.parametrize(
    ("wanted", "failed", "status"), [(0.4, [], 0), (0.9, [], 1), (0.4, ["a: refused"], 1)]
)
def test_a_missed_goal_and_a_failed_trial_are_an_error(
    wanted: float, failed: list[str], status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = shared.arguments("", "x", 6).parse_args([])
    source = tmp_path / "x.jsonl"
    assert shared.finish("x", page(6 * [0.5], wanted, failed), source, options) == status
    assert all(f"- {line}" in capsys.readouterr().out for line in failed)
    kept = json.loads((tmp_path / "x.goals.json").read_text())
    assert (kept["failed"], kept["goals"][0]["found"]) == (failed, 0.5)


def test_ratios_are_taken_within_a_round() -> None:
    # The machine halves its speed from round to round, and one trial fails; the ratio stays.
    lines: list[dict[str, Any]] = [
        {"round": n, "way": way, "rate": times / 2**n}
        for n in range(3)
        for way, times in (("a", 1), ("b", 2))
    ]
    lines.append({"round": 3, "way": "a", "error": "refused"})
    found = shared.by_round(lines, "way")
    assert shared.ratios(found["a"], found["b"], lambda line: line["rate"]) == [0.5, 0.5, 0.5]
    assert shared.failures(lines, "way") == ["a: refused"]


REFUSED = [
    ({"commit": "abcdef12-dirty"}, True, "not committed"),
    ({}, False, "commit abcdef12 is not on main"),
    ({"commit": ""}, True, "the commit is unknown"),
    ({"load_before": 0.51}, True, "the load before was 0.51"),
]


@pytest.mark.parametrize(("changes", "on_main", "reason"), REFUSED)
def test_a_record_that_nobody_can_repeat_is_refused(
    changes: dict[str, Any], on_main: bool, reason: str
) -> None:
    with pytest.raises(records.Refused, match=reason):
        records.check(HEAD | changes, None, lambda commit: on_main)
    line = records.check(HEAD | changes, "no other machine", lambda commit: on_main)
    assert line is not None and reason in line and line.endswith(": no other machine")
    assert page([], 1).markdown(line).splitlines()[0] == f"**{line}**"


def test_a_record_of_main_on_an_idle_machine_is_taken() -> None:
    assert records.check(HEAD | {"load_before": 0.5}, None, lambda commit: commit == "abcdef12") is None


def test_a_refused_record_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is refused before anything is measured, with the reason in a line."""
    monkeypatch.setattr(shared, "machine", lambda: HEAD | {"load_before": 3.0})
    monkeypatch.setattr(shared, "ROOT", tmp_path)
    options = shared.arguments("", "x", 6).parse_args(["--record", "--output", str(tmp_path / "x.jsonl")])
    assert shared.run("x", options, lambda *_: pytest.fail("measured"), lambda _: page([], 1)) == 2
    assert "the load before was 3.00" in capsys.readouterr().err and list(tmp_path.iterdir()) == []


def test_the_readme_lists_every_record_and_make_bench_knows_every_bench() -> None:
    readme = records.README.read_text(encoding="utf-8")
    missing = [
        str(path) for path in records.paths() if f"]({path.relative_to(ROOT / 'bench')})" not in readme
    ]
    assert missing == []
    there = sorted(path.parent.name for path in ROOT.glob("bench/*/run.py"))
    assert sorted([*run.SMALL, *run.LEFT_OUT]) == there


def test_a_verdict_that_is_true_of_the_machine_is_not_wrong() -> None:
    from bench.verdicts.cases import CASES
    from bench.verdicts.page import judged

    by_name = {case.name: case for case in CASES}
    assert len(by_name) == len(CASES)

    def judge(name: str, elsewhere: float = 0.0, **changes: Any) -> str:
        found = {"kind": "stage", "cause": "stage-busy", "end": "server", "stage": "encode", "others": 0.0}
        found |= {"also": None, **changes}
        verdict = found | {"judged": by_name[name].judged(found)}
        return judged({"case": name, "others": elsewhere, "verdict": verdict})

    blamed = {"kind": "cores", "cause": "cores-of-others", "end": None, "stage": None, "others": 0.9}
    assert judge("encode-of-the-server") == "right"
    assert judge("encode-of-the-server", stage="send") == "wrong"
    assert judge("encode-of-the-server", kind="unknown", cause="nothing-at-its-limit", end=None) == "unknown"
    assert judge("encode-of-the-server", elsewhere=0.8, **blamed) == "machine"
    assert judge("encode-of-the-server", elsewhere=0.05, **blamed) == "wrong"
    assert judge("encode-and-link", also={"cause": "path-full"}) == "right"
    assert judge("encode-and-link") == "unknown"
