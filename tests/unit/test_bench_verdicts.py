"""The confusion matrix of verdicts: how bench/verdicts counts what was said."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from support.run import ROOT

BENCH = ROOT / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Its modules `cases` and `table`, without leaving their short names to other tests."""
    names = ("cases", "databases", "servers", "stand", "table", "goals", "shared")
    for place in (BENCH, BENCH / "verdicts"):
        monkeypatch.syspath_prepend(str(place))
    before = {name: sys.modules.pop(name, None) for name in names}
    import cases
    import table

    yield cases, table
    for name in names:
        sys.modules.pop(name, None)
        if (module := before[name]) is not None:
            sys.modules[name] = module


def line(case: Any, elsewhere: float = 0.0, **said: Any) -> dict[str, Any]:
    found = {"kind": "stage", "cause": "stage-busy", "end": "server", "stage": "encode", "title": "t",
             "sentence": "s", "confidence": "high", "others": 0.0, "also": None, **said}  # fmt: skip
    verdict = {**found, "judged": case.judged(found)}
    return {
        "kind": "verdict",
        "case": case.name,
        "round": 0,
        "load": 0.1,
        "others": elsewhere,
        "verdict": verdict,
    }


def test_each_line_is_right_unknown_wrong_or_of_the_machine(bench: Any) -> None:
    cases, table = bench
    by_name = {case.name: case for case in cases.CASES}
    encode, two = by_name["encode-of-the-server"], by_name["encode-and-link"]
    assert table.judged(line(encode)) == "right"
    assert table.judged(line(encode, stage="send")) == "wrong"
    assert table.judged(line(encode, kind="unknown", cause="nothing-at-its-limit", end=None)) == "unknown"
    others = {"kind": "cores", "cause": "cores-of-others", "end": None, "stage": None, "others": 0.9}
    # That others hold the cores is true only where they did.
    assert table.judged(line(encode, elsewhere=0.8, **others)) == "machine"
    assert table.judged(line(encode, elsewhere=0.05, **others)) == "wrong"
    link = {"cause": "raw-tcp-reached", "end": None, "stage": None}
    assert table.judged(line(two, also=link)) == "right"
    assert table.judged(line(two)) == "unknown"


def test_the_goals_are_of_what_is_not_the_machines(bench: Any) -> None:
    cases, table = bench
    by_name = {case.name: case for case in cases.CASES}
    encode = by_name["encode-of-the-server"]
    head = {"kind": "environment", "date": "2026-11-24", "cpu": "c", "cpus": 2, "kernel": "6", "commit": "x",
            "cgroup": {"cpu": "version 1"}}  # fmt: skip
    others = {"kind": "cores", "cause": "cores-of-others", "end": None, "stage": None, "others": 0.9}
    good = [head, *[line(encode)] * 19, line(encode, elsewhere=0.8, **others)]
    told = table.table(good, cases.CASES)
    assert told.kept and "| right | 19 | 100.0% | 83.2%..100.0% |" in told.text
    assert "1 more runs said" in told.text
    told = table.table([*good, line(encode, stage="send")], cases.CASES)
    assert not told.kept and "| wrong | 1 | 5.0% | 0.9%..23.6% |" in told.text
    failed = {"kind": "verdict", "case": encode.name, "round": 1, "error": "x"}
    told = table.table([*good, failed], cases.CASES)
    assert not told.kept and told.failed == [f"{encode.name}: x"]


def test_every_case_has_a_name_of_its_own_and_a_truth(bench: Any) -> None:
    cases, _ = bench
    names = [case.name for case in cases.CASES]
    assert len(set(names)) == len(names) >= 40
    assert all(case.right and case.truth and case.how for case in cases.CASES)
