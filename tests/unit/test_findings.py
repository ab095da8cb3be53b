"""What a sweep says as a whole."""

from __future__ import annotations

import re
from typing import Any

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


def found(*sweeps: list[dict[str, Any]]) -> tuple[list[Finding], list[Cell]]:
    cells = summarise([r for s in sweeps for r in s])
    return findings(cells, verdicts(cells, ENVIRONMENT), ENVIRONMENT), cells


FLAT = {1: 500, 2: 1000, 4: 1950, 8: 1960}


def test_the_sentence_of_the_issue() -> None:
    larger = {x: rate * 1.34 for x, rate in FLAT.items()}
    all_of_them, _ = found(sweep(FLAT), sweep(larger, rows_per_batch=8192))
    one = next(f for f in all_of_them if "1,024 rows per batch" in f.title)
    assert one.title == "get, 1,024 rows per batch: flat from 4 streams"
    assert one.lines == (
        "linear up to 4 streams (1,950 MB/s [1,911..1,989])",
        "more streams gained +1 % [+0..+1] at most",
        "why, from 4 streams: both cores are busy 97 %: receive 44 %, send 42 %, verify 14 %",
        "fix: 1,024 -> 8,192 rows per batch, +34 % [+29..+39]",
    )
    assert not one.next, "what is faster was measured, so nothing needs guessing"
    other = next(f for f in all_of_them if "8,192 rows per batch" in f.title and "streams" in f.title)
    assert not any(line.startswith("fix: ") for line in other.lines)


def test_a_gain_of_half_as_much_again_is_a_factor() -> None:
    larger = {x: rate * 5.5 for x, rate in FLAT.items()}
    all_of_them, _ = found(sweep(FLAT), sweep(larger, rows_per_batch=8192))
    one = next(f for f in all_of_them if "1,024 rows per batch" in f.title)
    assert one.lines[-1].startswith("fix: 1,024 -> 8,192 rows per batch, 5.5 times as fast [5.")


def test_what_was_not_measured_is_proposed_as_such() -> None:
    (one,), _ = found(sweep(FLAT))
    assert one.next
    assert all(text.startswith("to try: ") for text in one.next)
    assert "--rows-per-batch 8192" in one.next[0]


def test_still_rising() -> None:
    (one,), _ = found(sweep({1: 500, 2: 990, 3: 1480}))
    assert one.title.endswith("rising up to 3 streams")
    assert "linear up to 3 streams, still rising at 3 streams" in one.sentence
    assert "gained nothing" not in one.sentence
    assert "--streams 6" in one.next[0]


def test_flat_from_the_first() -> None:
    (one,), _ = found(sweep({1: 1000, 2: 1005, 4: 998}))
    assert "1 stream already moves" in one.sentence
    assert "flat over streams" in one.title


def test_losing_beyond_the_peak() -> None:
    (one,), _ = found(sweep({1: 500, 2: 1000, 4: 1900, 8: 1500}))
    assert "8 streams lose 21 %" in one.sentence


def test_an_effect_within_the_margins_is_none() -> None:
    slightly = {x: rate * 1.01 for x, rate in FLAT.items()}
    all_of_them, _ = found(sweep(FLAT, spread=0.03), sweep(slightly, spread=0.03, rows_per_batch=8192))
    one = next(f for f in all_of_them if "1,024 rows per batch" in f.title)
    assert not any(line.startswith("fix: ") for line in one.lines)
    assert "perhaps faster, not surely: 1,024 -> 8,192 rows per batch (+1 %" in (one.sentence)


def test_the_verdict_is_the_knees() -> None:
    all_of_them, cells = found(sweep(FLAT))
    knee = next(c for c in cells if c.parameters["streams"] == 4)
    assert verdicts(cells, ENVIRONMENT)[knee.name].sentence in all_of_them[0].sentence


def test_axes_of_amounts_show_what_starting_costs() -> None:
    (one,), _ = found(sweep({100_000: 300, 1_000_000: 985, 10_000_000: 1000}, axis="rows_per_stream"))
    assert "flat from 1M rows per stream" in one.title
    assert "starting takes a visible part" in one.sentence


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


def test_single_repeats_have_no_margin_and_say_so() -> None:
    all_of_them, _ = found(
        sweep(FLAT, repeats=1), sweep({x: 2 * r for x, r in FLAT.items()}, repeats=1, rows_per_batch=8192)
    )
    one = next(f for f in all_of_them if "1,024 rows per batch" in f.title)
    assert "2 times as fast (no margin known)" in one.sentence


def test_the_published_limits() -> None:
    """What their authors wrote of the laptop, over many sizes; of one trial each nothing is claimed."""
    (get,) = [f for f in load("reference:macbook-get").findings if f.axis == "streams"]
    assert "flat from 5 streams" in get.title and "one trial" not in get.sentence
    (put,) = [f for f in load("reference:macbook-put").findings if f.axis == "streams"]
    assert "rising up to 8 streams" in put.title and "flat" not in put.title + put.sentence
    for one in load("reference:chspark").findings:
        assert one.kind is FindingKind.UNDECIDED and "one trial each has no margin" in one.sentence


def test_the_last_point_is_not_where_it_gets_flat() -> None:
    """The most was reached at the last point, and its margin allows that nothing was gained there."""
    (one,), _ = found(unpaired({1: 500, 2: 980, 4: 1150}, 0.1))
    assert one.title == "get: highest with 4 streams"
    assert one.kind is FindingKind.UNDECIDED
    assert "flat" not in one.title + one.sentence and "why, from" not in one.sentence
    said = re.search(
        r"4 streams against 2 streams cannot be told: \+17 % \[-\d+\.\.\+\d+\] "
        r"\(repeat by repeat, 95 % CI\), repeats differ by ±2\d %; about (\d+) repeats would tell",
        one.sentence,
    )
    assert said, one.sentence
    assert one.next[0].startswith("to tell whether it still rises: venturi run")
    assert f"--repeats {said[1]}" in one.next[0] and "--streams 2,4" in one.next[0]


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


def test_gets_of_which_nobody_can_say_that_they_scale() -> None:
    """3,691 [2,262..4,830] and 5,151 [2,074..6,893] MB/s are 1.4 times, and may be less than once."""
    (one,), _ = found(by_repeat({1: (3691, 2262, 4830, 3000, 4300), 2: (5151, 6893, 2074, 5600, 3900)}))
    assert one.kind is FindingKind.UNDECIDED
    assert "linear" not in one.sentence and "cannot be told" in one.sentence


def test_where_nothing_is_claimed_the_highest_is_that_of_the_table() -> None:
    """The mean is higher with 1 stream, the median with 2; the table and the first line have medians."""
    (one,), _ = found(by_repeat({1: (900, 1000, 1000, 3000, 3000), 2: (1100, 1100, 1100, 1100, 1100)}))
    assert one.kind is FindingKind.UNDECIDED and one.at is None
    assert one.title == "get: highest with 2 streams"


def test_a_little_more_is_not_rising() -> None:
    """60.8 to 61.8 MB/s from 1 to 4 streams: certain, and no gain."""
    (one,), _ = found(sweep({1: 60.8, 2: 61.2, 4: 61.8}, spread=0.002))
    assert one.kind is FindingKind.FLAT_THROUGHOUT
    assert "more streams gained +2 % [+2..+2] at most" in one.sentence


def test_what_failed_in_every_trial_is_not_proposed() -> None:
    rising = sweep({1: 500, 2: 990})
    (one,), _ = found(rising)
    assert any("--streams 4" in text for text in one.next)
    failed = [{**record, "outcome": "failed"} for record in sweep({4: 1900}, repeats=2)]
    (one,), cells = found(rising, failed)
    assert not any("--streams 4" in text for text in one.next), one.next
    assert not any("--streams 4" in t for v in verdicts(cells, ENVIRONMENT).values() for t in v.next)
    # One that failed now and then did work.
    (one,), _ = found(rising, sweep({4: 1900}, repeats=3), failed)
    assert any("--streams 8" in text for text in one.next)
    # Another setting failed there, so nobody knows of this one.
    other = [{**r, "parameters": {**r["parameters"], "compression": "zstd"}, "cell": "z"} for r in failed]
    (one,), _ = found(rising, other)
    assert any("--streams 4" in text for text in one.next)
