"""What a sweep says as a whole; in words in tests/data/golden/findings.txt."""

from __future__ import annotations

from typing import Any

import pytest

from support.golden import kept
from support.synthetic import cells as matrix
from support.synthetic import imported, make_run
from support.verdict import ENVIRONMENT, end, trial
from venturi.analysis.cells.summary import Cell, summarise
from venturi.analysis.results import load
from venturi.analysis.verdict.causes import FindingKind
from venturi.analysis.verdict.findings import findings
from venturi.analysis.verdict.judge import verdicts
from venturi.analysis.verdict.types import Finding


def sweep(
    points: dict[float, float], axis: str = "streams", spread: float = 0.01, repeats: int = 5, **fixed: Any
) -> list[dict[str, Any]]:
    """Trials along an axis: value -> MB/s. From 4 streams on both cores are full, as their stages say."""
    made = []
    for x, rate in points.items():
        full = end(0.97 if axis != "streams" or x >= 4 else 0.6, 2)
        streams = {"streams": int(x), "threads": int(x)} if axis == "streams" else {axis: int(x)}
        parameters = {"rows_per_batch": 1024, **streams, **fixed}
        for repeat in range(repeats):
            made.append(
                trial(
                    {"receive": 0.62, "verify": 0.2, "await_input": 0.18},
                    {"send": 0.5, "await_output": 0.5},
                    parameters=parameters, cell=repr(sorted(parameters.items())), repeat=repeat,
                    rate=rate * 1e6 * (1 + spread * (repeat - repeats // 2)),
                    client_end=full, server_end=full, cpu=(1.1, 0.8),
                )
            )  # fmt: skip
    return made


def unpaired(points: dict[float, float], spread: float) -> list[dict[str, Any]]:
    """As `sweep`, but a slow repeat of one point is a fast one of its neighbour."""
    return [
        record
        for i, one in enumerate(points.items())
        for record in sweep(dict([one]), spread=spread * (-1) ** i)
    ]


def by_repeat(rates: dict[float, tuple[float, ...]]) -> list[dict[str, Any]]:
    """Trials of these rates, a tuple a point."""
    return [
        {**sweep({n: rate}, repeats=1)[0], "repeat": repeat}
        for n, each in rates.items()
        for repeat, rate in enumerate(each)
    ]


def found(*sweeps: list[dict[str, Any]]) -> tuple[list[Finding], list[Cell]]:
    cells = summarise([r for s in sweeps for r in s])
    return findings(cells, verdicts(cells, ENVIRONMENT), ENVIRONMENT), cells


FLAT = {1: 500, 2: 1000, 4: 1950, 8: 1960}


def beside(factor: float, **settings: Any) -> list[dict[str, Any]]:
    """FLAT, and the same with larger batches, so many times as fast."""
    larger = {x: rate * factor for x, rate in FLAT.items()}
    return [*sweep(FLAT, **settings), *sweep(larger, rows_per_batch=8192, **settings)]


FAILED = [{**record, "outcome": "failed"} for record in sweep({4: 1900}, repeats=2)]
RISING = sweep({1: 500, 2: 990})
CASES: dict[str, tuple[list[tuple[FindingKind, str, float | None]], list[dict[str, Any]]]] = {
    "flat": ([(FindingKind.FLAT, "streams", 4)], sweep(FLAT)),
    "flat, and larger batches are faster": (
        [(FindingKind.FLAT, "streams", 4), (FindingKind.FLAT, "streams", 4),
         (FindingKind.RISING, "rows_per_batch", 8192)], beside(1.34)),
    # From half as much again on a gain is a factor.
    "flat, and larger batches are several times as fast": (
        [(FindingKind.FLAT, "streams", 4), (FindingKind.FLAT, "streams", 4),
         (FindingKind.RISING, "rows_per_batch", 8192)], beside(5.5)),
    "flat, and larger batches are perhaps faster": (
        [(FindingKind.FLAT, "streams", 4), (FindingKind.FLAT, "streams", 4),
         (FindingKind.FLAT_THROUGHOUT, "rows_per_batch", 1024)], beside(1.01, spread=0.03)),
    "flat, single repeats": (
        [(FindingKind.UNDECIDED, "streams", None), (FindingKind.UNDECIDED, "streams", None),
         (FindingKind.UNDECIDED, "rows_per_batch", None)], beside(2, repeats=1)),
    "still rising": ([(FindingKind.RISING, "streams", 3)], sweep({1: 500, 2: 990, 3: 1480})),
    "flat from the first": ([(FindingKind.FLAT_THROUGHOUT, "streams", 1)], sweep({1: 1000, 2: 1005, 4: 998})),
    "losing beyond the peak": (
        [(FindingKind.FALLING, "streams", 4)], sweep({1: 500, 2: 1000, 4: 1900, 8: 1500})),
    # 60.8 to 61.8 MB/s from 1 to 4 streams: certain, and no gain.
    "a little more is not rising": (
        [(FindingKind.FLAT_THROUGHOUT, "streams", 1)], sweep({1: 60.8, 2: 61.2, 4: 61.8}, spread=0.002)),
    "amounts show what starting costs": (
        [(FindingKind.FLAT, "rows_per_stream", 1000000)],
        sweep({100_000: 300, 1_000_000: 985, 10_000_000: 1000}, axis="rows_per_stream")),
    # The most was reached at the last point, and its margin allows that nothing was gained there.
    "the last point is not where it gets flat": (
        [(FindingKind.UNDECIDED, "streams", None)], unpaired({1: 500, 2: 980, 4: 1150}, 0.1)),
    # 3,691 [2,262..4,830] and 5,151 [2,074..6,893] MB/s are 1.4 times, and may be less than once.
    "nobody can say that it scales": (
        [(FindingKind.UNDECIDED, "streams", None)],
        by_repeat({1: (3691, 2262, 4830, 3000, 4300), 2: (5151, 6893, 2074, 5600, 3900)})),
    # The mean is higher with 1 stream, the median with 2; the table and the first line have medians.
    "the highest is that of the table": (
        [(FindingKind.UNDECIDED, "streams", None)],
        by_repeat({1: (900, 1000, 1000, 3000, 3000), 2: (1100, 1100, 1100, 1100, 1100)})),
    "rising": ([(FindingKind.RISING, "streams", 2)], RISING),
    "rising, and the next failed in every trial": ([(FindingKind.RISING, "streams", 2)], [*RISING, *FAILED]),
    "rising, and the next failed now and then": (
        [(FindingKind.RISING, "streams", 4)], [*RISING, *sweep({4: 1900}, repeats=3), *FAILED]),
    # Nobody knows of this setting.
    "rising, and the next failed with another setting": ([(FindingKind.RISING, "streams", 2)], [*RISING, *(
        {**r, "parameters": {**r["parameters"], "compression": "zstd"}, "cell": "z"} for r in FAILED)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_kind_axis_and_place(name: str) -> None:
    expected, records = CASES[name]
    assert [(one.kind, one.axis, one.at) for one in found(records)[0]] == expected


def test_the_words() -> None:
    told = []
    for name, (_, records) in CASES.items():
        lines = [line for one in found(records)[0] for line in (one.title, *one.lines, *one.next)]
        told.append("\n".join([f"# {name}", *lines, ""]))
    kept("findings", "\n".join(told))


def test_what_failed_in_every_trial_is_no_verdicts_proposal() -> None:
    cells = found([*RISING, *FAILED])[1]
    assert not any("--streams 4" in t for v in verdicts(cells, ENVIRONMENT).values() for t in v.next)


def test_the_verdict_is_the_knees() -> None:
    all_of_them, cells = found(sweep(FLAT))
    knee = next(c for c in cells if c.parameters["streams"] == 4)
    assert verdicts(cells, ENVIRONMENT)[knee.name].sentence in all_of_them[0].sentence


def test_no_axis_no_finding(tmp_path: Any) -> None:
    assert load(make_run(tmp_path / "one", matrix(operations=["get"], streams=[2]))).findings == []


def test_each_operation_has_its_own(tmp_path: Any) -> None:
    titles = [f.title for f in load(make_run(tmp_path / "run")).findings]
    assert any(t.startswith("get") for t in titles)
    assert any(t.startswith("put") for t in titles)


def test_imported_runs_give_figures_without_reasons(tmp_path: Any) -> None:
    results = load(make_run(tmp_path / "run", edit=imported))
    assert results.findings
    assert all("why is not known" in f.sentence for f in results.findings)


def test_the_published_limits() -> None:
    """What their authors wrote of the laptop, over many sizes; of one trial each nothing is claimed."""
    (get,) = [f for f in load("reference:macbook-get").findings if f.axis == "streams"]
    assert "flat from 5 streams" in get.title and "one trial" not in get.sentence
    (put,) = [f for f in load("reference:macbook-put").findings if f.axis == "streams"]
    assert "rising up to 8 streams" in put.title and "flat" not in put.title + put.sentence
    for one in load("reference:chspark").findings:
        assert one.kind is FindingKind.UNDECIDED and "one trial each has no margin" in one.sentence
