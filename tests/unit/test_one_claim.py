"""Whatever is said of one curve is the same wherever it is said, is seldom false, and each of its words
has its numbers."""

from __future__ import annotations

import math
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import claim as claim_support
from support.claim import count
from support.draws import draws, slack
from support.random_cells import groups
from support.run import DATA
from support.synthetic import cells as matrix
from support.synthetic import make_run
from venturi.analysis.compare import best
from venturi.analysis.models import fits
from venturi.analysis.results import Results, load
from venturi.analysis.statistics.curve import Curve, Shape
from venturi.analysis.statistics.difference import slow_trials, two_groups
from venturi.analysis.verdict.types import FindingKind
from venturi.engine.record import trial_of
from venturi.report.figures import registry
from venturi.report.figures.curves import MOST_LINES
from venturi.store import reference
from venturi.store.importers.files import import_files

Told = tuple[str, Shape, float | None]
"""Who says it, what, and of which N."""
SHAPES = {shape.value for shape in Shape}
CURVES = (
    "throughput-streams",
    "throughput-size",
    "throughput-batch",
    "throughput-hosts",
    "throughput-encoders",
)


def of_cells(found: Results) -> dict[tuple[str, frozenset[str]], list[Told]]:
    """What is claimed, by the axis and the cells that it is claimed of."""
    said: dict[tuple[str, frozenset[str]], list[Told]] = {}

    def add(who: str, axis: str, names: Any, shape: Shape, at: float | None) -> None:
        said.setdefault((axis, frozenset(names)), []).append((who, shape, at))

    for one in found.findings:
        if one.kind.value in SHAPES:
            add("finding", one.axis, one.cells, Shape(one.kind.value), one.at)
    for fit in fits.build(found.cells).scalings:
        if fit.curve is not None and not fit.pooled:
            add("fit", fit.axis, (c.name for c in fit.cells), fit.curve.shape, fit.curve.at)
    for name in (*CURVES, "model-scaling"):
        figure = registry.BUILDERS[name](found, None)
        for claim in figure.claims if figure is not None else ():
            add(name, claim.axis, claim.cells, claim.shape, claim.at)
    for answer in best.find(found.cells):
        for advised in answer.advised:
            if len(answer.settings) == 1 and advised.curve is not None:
                names = (c.name for c in found.cells if best._workload(c) == answer.workload)
                add("best", advised.name, names, advised.curve.shape, advised.curve.at)
                assert consistent(advised), advised
    return said


def consistent(one: best.Advised) -> bool:
    """What is advised of a setting follows from its curve."""
    if one.conclusive is None:
        return not one.rising
    expected = {
        Shape.RISING: one.rising and not one.indifferent and not one.undecided,
        Shape.FALLING: not one.rising and not one.indifferent and not one.undecided,
        Shape.FLAT: one.sure and one.enough == one.conclusive.flat and not one.rising and not one.undecided,
        Shape.FLAT_THROUGHOUT: one.indifferent and not one.rising and not one.undecided,
        Shape.UNDECIDED: one.undecided and not one.sure,
    }
    return expected[one.conclusive.shape]


def agree(found: Results) -> set[str]:
    """Asserts that nothing said of one curve differs; answers who said something that somebody else says."""
    heard = set()
    for about, told in of_cells(found).items():
        assert len({(shape, at) for _, shape, at in told}) == 1, (about[0], sorted(about[1]), told)
        heard |= {who for who, *_ in told} if len(told) > 1 else set()
    return heard


@pytest.mark.parametrize("name", [*reference.SETS, "cartesius"])
def test_published_figures(name: str) -> None:
    agree(load(f"reference:{name}"))


@pytest.mark.parametrize("kind", ["charrow", "flight", "ingest", "upsert"])
def test_golden_runs(kind: str, tmp_path: Path) -> None:
    (archive,) = (DATA / "runs").glob("format-*.tar.xz")
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter="data")
    assert {"finding", "best"} <= agree(load(tmp_path / kind))


def test_the_laptops_puts_rise_whoever_tells() -> None:
    """Once: 'flat from 5 streams', 'more gained +11 %', 'cannot be told' and '6 is enough'."""
    found = load("reference:macbook-put")
    told = [t for (axis, _), each in of_cells(found).items() if axis == "streams" for t in each]
    assert {"finding", "best", "throughput-streams"} <= {who for who, *_ in told}
    largest = [t for t in told if t[0] in ("finding", "best", "throughput-streams")]
    assert {(shape, at) for _, shape, at in largest} == {(Shape.RISING, 8.0)}
    (pooled,) = [f for f in found.fits.main if f.axis == "streams"]
    assert pooled.curve is not None and (pooled.curve.shape, pooled.curve.at) == (Shape.RISING, 8.0)


def trial(parameters: dict[str, Any], rate: float, repeat: int) -> dict[str, Any]:
    """A good one of so many GB/s."""
    return {
        "kind": "trial", "outcome": "ok", "cell": repr(sorted(parameters.items())), "repeat": repeat,
        "trial": f"{sorted(parameters.items())}-{repeat}", "parameters": parameters,
        "counts": {"rows": 1000, "payload_bytes": 10**9}, "times": {"interval_ns": int(1e9 / rate)},
    }  # fmt: skip


def random_sweeps(number: int, seed: int) -> Iterator[tuple[claim_support.Sweep, list[dict[str, Any]]]]:
    """Trials of sweeps over streams whose truth is known."""
    generator = np.random.default_rng(seed)
    for _ in range(number):
        sweep = claim_support.draw(generator)
        made = [
            trial({"operation": "get", "rows_per_stream": 1000, "streams": int(n)}, rate, repeat)
            for repeat, one in enumerate(sweep.rounds)
            for n, rate in one.items()
        ]
        yield sweep, made


@pytest.fixture(scope="module")
def some_run(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return load(make_run(tmp_path_factory.mktemp("run") / "run", matrix(operations=["get"], streams=[1, 2])))


def test_random_sweeps(some_run: Results) -> None:
    seen = set()
    for sweep, trials in random_sweeps(draws(60, 3), seed=3):
        found = Results(some_run.directory, [trial_of(it) for it in trials], [])
        assert {"finding", "best", "throughput-streams"} <= agree(found), sweep
        seen |= {shape for told in of_cells(found).values() for _, shape, _ in told}
    assert seen == set(Shape), "each claim came up"


def test_random_cells_of_every_system(some_run: Results) -> None:
    for _, cells, _ in groups(draws(200)):
        agree(Results(some_run.directory, [r for c in cells for r in c.records], []))


def test_nothing_is_fastest_where_it_cannot_be_told(some_run: Results) -> None:
    """Three settings that nobody can tell apart: neither the title nor `best` names a winner."""
    from venturi.report import best as report

    generator = np.random.default_rng(5)
    rates = np.exp(generator.normal(0, 0.4, (5, 3)))
    trials = [
        trial({"operation": "get", "streams": 2, "encoders": n}, float(rate), repeat)
        for repeat, row in enumerate(rates)
        for n, rate in zip((1, 2, 4), row, strict=True)
    ]
    found = Results(some_run.directory, [trial_of(it) for it in trials], [])
    (finding,) = found.findings
    figure = registry.one(found, "throughput-encoders")
    (claim,) = figure.claims
    assert finding.kind is FindingKind.UNDECIDED and claim.shape is Shape.UNDECIDED
    (answer,) = best.find(found.cells)
    assert not answer.is_surely_fastest and answer.advised[0].undecided
    assert report.sentences(answer)[0].startswith("highest: ")
    assert "cannot be told" in figure.title and "fastest" not in figure.title


def test_a_line_of_mixed_settings_claims_nothing(some_run: Results) -> None:
    """Each point of the line is the best of its own settings: what rises may be either."""
    trials = []
    for streams in (1, 2, 4):
        for at in range(MOST_LINES + 1):
            parameters = {"operation": "get", "streams": streams, "window": 10 * at + streams}
            trials += [trial(parameters, streams * (1 + at / 10), repeat) for repeat in range(5)]
    found = Results(some_run.directory, [trial_of(it) for it in trials], [])
    figure = registry.one(found, "throughput-streams")
    assert not [f for f in found.findings if f.axis == "streams"] and not figure.claims
    assert "nothing can be told" in figure.title


def test_an_import_whose_trials_run_at_two_speeds(tmp_path: Path) -> None:
    """One trial in ten takes 5 to 8 times as long: said with share and factor, and in the figures."""

    def run(name: str, slow: dict[int, float]) -> Results:
        lines = []
        for at in range(30):
            streams, seconds = (1, 2, 4)[at % 3], 0.5 * slow.get(at, 1.0) * (1 + 0.01 * (at % 5))
            moved = 32 * 10_000_000 * streams / 2**20
            numbers = (0, streams, streams, 10_000_000, 4096, moved, seconds, moved / seconds)
            lines.append("\t".join(f"{n:.8g}" for n in numbers))
        file = tmp_path / f"{name}.tsv"
        file.write_text("\n".join(lines) + "\n")
        import_files([file], tmp_path / name, settings={})
        return load(tmp_path / name)

    found = run("slow", {7: 5.1, 18: 8.3, 23: 6.5})
    (told,) = [a for a in found.advice if a.kind == "two-speeds"]
    assert told.finding.startswith("3 of 30 trials (10 %) are 5.1 to 8.4 times slower")
    for name in ("throughput-streams", "box-size"):
        figure = registry.one(found, name)
        assert "3 of 30 trials (10 %)" in figure.title + figure.caption, name
    assert not run("even", {}).two_speeds


def test_the_repeats_that_would_tell_do_in_four_of_five_cases() -> None:
    generator, tries = np.random.default_rng(11), draws(400, 4)
    room = slack(tries, 0.2)

    def curve(off: Any, step: float) -> Curve:
        truth = np.array((1.0, 1.5, 1.5 * step))
        made = Curve.of([dict(zip((1.0, 2.0, 4.0), truth * np.exp(row), strict=True)) for row in off])
        assert made is not None
        return made

    def told(repeats: int, step: float, noise: float) -> float:
        drawn = (curve(generator.normal(0, noise, (repeats, 3)), step) for _ in range(tries))
        return sum(one.shape is not Shape.UNDECIDED for one in drawn) / tries

    for step, noise, repeats in ((1.18, 0.12, 5), (1.0, 0.04, 4), (1.3, 0.25, 6)):
        # Rounds that have exactly this change and spread.
        drawn = generator.normal(size=(repeats, 3))
        exact = np.linalg.qr(drawn - drawn.mean(axis=0))[0] * noise * np.sqrt(repeats - 1)
        first = curve(exact, step)
        assert first.shape is Shape.UNDECIDED and first.telling is not None
        assert 0.7 - room < told(first.telling, step, noise) < 0.95 + room, (first.telling, step)
        assert told(max(3, first.telling // 3), step, noise) < 0.6 + room


# ---- the words of a curve


def rounds(truth: dict[float, float], *off: float) -> list[dict[float, float]]:
    """A round each, whose first point lies off by so much, and the others by ever less."""
    return [{n: x * math.exp(by / (i + 1)) for i, (n, x) in enumerate(truth.items())} for by in off]


def of(truth: dict[float, float], *off: float) -> Curve:
    found = Curve.of(rounds(truth, *off))
    assert found is not None
    return found


STEADY = (0.01, -0.01, 0.005, -0.005, 0.0)


def test_false_claims_are_rare_and_clear_truths_are_told() -> None:
    found = count(draws(2000), seed=16)
    assert sum(found.false.values()) <= 0.01 * found.sweeps, found.false
    for kind, clear in found.clear.items():
        assert clear > 0.05 * found.sweeps
        assert found.missed[kind] <= 0.1 * clear, (kind, found.missed)


def test_shapes() -> None:
    assert of({1: 1, 2: 2, 4: 3.9, 8: 7.6}, *STEADY).rising
    level = of({1: 1, 2: 2, 4: 3.9, 8: 3.92}, *STEADY)
    assert (level.linear, level.flat, level.rising, level.loss) == (4, 4, False, None)
    assert of({1: 1, 2: 1.001, 4: 0.999}, *STEADY).flat == 1
    falling = of({1: 1, 2: 2, 4: 3.9, 8: 3.0}, *STEADY)
    assert falling.loss is not None and falling.loss.value == pytest.approx(3.0 / 3.9 - 1)
    # Tables have another as the highest: it is told apart, or not.
    shown = Curve.of(rounds({1: 1, 2: 1.19, 4: 0.5}, *STEADY))
    assert shown is not None and replace(shown, peak=0).rival is None
    assert replace(of({1: 1, 2: 1.001, 4: 0.5}, *STEADY), peak=0).rival == 2
    # The last point is no place to be flat from.
    noisy = of({1: 1, 2: 2, 4: 2.3}, 0.3, -0.3, 0.2, -0.2, 0.0)
    assert noisy.flat is None and not noisy.rising and noisy.telling is not None and noisy.telling > 5
    # From 7 to 8 is a fifth of a doubling: a little there would be much of a doubling.
    short = of({1: 1, 2: 2, 4: 3, 7: 4.0, 8: 4.1}, *STEADY)
    assert short.ns[short.before] == 4 and short.rising
    # One trial each tells nothing.
    one = of({1: 1, 2: 2, 4: 4}, 0.0)
    assert (one.linear, one.flat, str(one.step)) == (None, None, "+100 %") and not (one.rising or one.bounded)


def test_a_round_that_lacks_a_point_is_left_out() -> None:
    found = Curve.of([*rounds({1: 1, 2: 2}, *STEADY), {1: 100.0}])
    assert found is not None and len(found.logs) == 5
    assert Curve.of([{1: 1.0}, {2: 1.0}]) is None
    # What fails at one point silences it, and not the others.
    most = rounds({1: 1, 2: 2, 4: 2.001}, *STEADY)
    for failing, ns, told in (({8.0}, (1, 2, 4), True), ((), (1, 2, 4, 8), False)):
        found = Curve.of([most[0] | {8: 9.0}, *most[1:]], failing)
        assert found is not None and (found.ns, found.bounded) == (ns, told)


def test_what_all_points_of_a_round_share_is_no_doubt() -> None:
    """The whole machine at two speeds, a round each: the step is as sure as ever."""
    found = Curve.of([{n: n * speed for n in (1.0, 2.0, 4.0)} for speed in (1, 3, 1, 3, 1.01)])
    assert found is not None and found.rising and found.linear == 4


def test_single_trials_that_are_several_times_slower_are_told() -> None:
    """As of an import where one trial in ten takes 5 to 8 times as long."""
    cells = [[1.0, 1.02, 0.98, 1.01, 0.99] for _ in range(8)]
    assert slow_trials(cells) is None
    for cell, factor in zip(cells, (5.0, 8.0, 6.0, 7.0), strict=False):
        cell[2] /= factor
    found = slow_trials(cells)
    assert found is not None and (found.slow, found.trials) == (4, 40)
    assert found.least == pytest.approx(5.1, abs=0.1) and found.most == pytest.approx(8.1, abs=0.1)
    # A tail without a gap is one speed.
    assert slow_trials([[1.0, 0.8, 0.6, 0.45, 0.35], [1.0, 0.9, 0.7, 0.5, 0.4]]) is None


def test_two_groups_of_repeats_are_told_and_noise_is_none() -> None:
    fast, slow = [1.0, 1.02, 0.99, 1.01, 1.03, 0.98, 1.0], [0.5, 0.51, 0.49, 0.505]
    found = two_groups(fast + slow)
    assert found is not None and (found.slow, found.trials) == (4, 11)
    assert found.least == pytest.approx(2.0, abs=0.05)
    generator, tries = np.random.default_rng(9), draws(500)
    for spread in (0.02, 0.2, 0.4):
        drawn = (np.exp(generator.normal(0, spread, int(generator.integers(10, 30)))) for _ in range(tries))
        told = sum(two_groups(list(map(float, one))) is not None for one in drawn)
        assert told / tries <= 0.01 + slack(tries, 0.01)
