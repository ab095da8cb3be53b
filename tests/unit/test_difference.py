"""The test behind `venturi compare`, on noise of known shape: it must neither cry wolf nor be blind; and
intervals of medians."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from support.draws import draws, slack
from venturi.analysis.statistics import difference
from venturi.analysis.statistics.difference import Difference, adjust, differences, shift
from venturi.analysis.statistics.intervals import (
    Interval,
    median_interval,
    order_statistic_rank,
    ratio_interval,
    settled,
)

Noise = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
# Of about unit spread, on the logarithm of a throughput. Skewed: disturbances only ever make a trial slower.
NOISES: dict[str, Noise] = {
    "normal": lambda g, s: g.standard_normal(s),
    "skewed": lambda g, s: -g.exponential(size=s),
    "lognormal": lambda g, s: -np.exp(0.8 * g.standard_normal(s)),
    "heavy": lambda g, s: g.standard_t(3, s) / 1.5,
    "outliers": lambda g, s: np.where(g.random(s) < 0.1, -8 * g.random(s), g.standard_normal(s) / 2),
    "two speeds": lambda g, s: np.where(g.random(s) < 0.5, -1.0, 1.0) + 0.1 * g.standard_normal(s),
}


def trials(
    g: np.random.Generator, noise: Noise, cells: int, repeats: int, spread: float = 0.02, alike: bool = False
) -> list[list[float]]:
    """Throughputs of as many cells, whose spread varies by a factor of about two unless they are `alike`."""
    sigma = spread * np.exp((0.0 if alike else 0.7) * g.standard_normal((cells, 1)))
    return [list(row) for row in 1e9 * np.exp(sigma * noise(g, (cells, repeats)))]


def both(g: np.random.Generator, noise: Noise, cells: int, ours: int, theirs: int) -> list[Difference]:
    sigma = 0.02 * np.exp(0.7 * g.standard_normal((cells, 1)))
    sides = [1e9 * np.exp(sigma * noise(g, (cells, n))) for n in (ours, theirs)]
    return differences([(list(b), list(r)) for b, r in zip(*sides, strict=True)])


@pytest.mark.parametrize("repeats", [(3, 3), (5, 5), (10, 10), (5, 10)])
@pytest.mark.parametrize("name", NOISES)
def test_nothing_is_found_where_nothing_differs(name: str, repeats: tuple[int, int]) -> None:
    g = np.random.default_rng(17)
    for cells, comparisons in ((1, draws(400)), (12, draws(60))):
        found = [both(g, NOISES[name], cells, *repeats) for _ in range(comparisons)]
        flat = [d for one in found for d in one]
        silent = sum(d.adjusted is not None and d.adjusted >= 0.05 for d in flat) / len(flat)
        # No significant difference in at least 95 % of cells; of 400 draws at exactly 95 % one in twenty
        # would lie 1.8 % lower. The known weak spot: a lone cell at two speeds with unequal repeats, whose
        # smaller side may have seen one speed only.
        weak = name == "two speeds" and repeats == (5, 10) and cells == 1
        room = slack(len(flat))
        assert silent >= (0.91 if weak else 0.93) - room, (name, cells)
        covered = sum(d.low is not None and d.low <= 1 <= (d.high or 0) for d in flat) / len(flat)
        # With few repeats at two speeds an interval is sometimes all too sure, and often too wide.
        assert 0.90 - room <= covered <= 0.995 + room, (name, cells)


@pytest.mark.parametrize("name", ["normal", "skewed"])
def test_intervals_cover_a_true_ratio(name: str) -> None:
    g = np.random.default_rng(3)
    covered = total = 0
    for _ in range(draws(100)):
        base = trials(g, NOISES[name], 12, 5, alike=True)
        run = [[0.9 * v for v in cell] for cell in trials(g, NOISES[name], 12, 5, alike=True)]
        for d in differences(list(zip(base, run, strict=True))):
            assert d.low is not None and d.high is not None
            covered += d.low <= 0.9 <= d.high
            total += 1
    assert 0.93 - slack(total) <= covered / total <= 0.98 + slack(total)


def test_five_percent_is_found_with_ten_repeats_on_a_quiet_machine() -> None:
    """Quiet: repeats scatter by 2 %. Only one of 24 cells is slower: the hardest case for a correction."""
    g = np.random.default_rng(5)
    found, tries = 0, draws(100)
    for _ in range(tries):
        base = trials(g, NOISES["normal"], 24, 10, alike=True)
        run = trials(g, NOISES["normal"], 24, 10, alike=True)
        run[7] = [0.95 * v for v in run[7]]
        d = differences(list(zip(base, run, strict=True)))[7]
        found += d.adjusted is not None and d.adjusted < 0.05 and d.ratio < 1
    assert found / tries >= 0.98 - slack(tries, 0.02)


def test_the_smallest_detectable_difference_is_detected_as_often_as_it_says() -> None:
    g = np.random.default_rng(23)
    found, tries = 0, draws(300, 4)
    for _ in range(tries):
        base, run = (trials(g, NOISES["normal"], 12, 5, alike=True) for _ in range(2))
        size = differences(list(zip(base, run, strict=True)))[0].detectable
        assert size is not None
        run[0] = [v * math.exp(-size) for v in run[0]]
        q = differences(list(zip(base, run, strict=True)))[0].adjusted
        found += q is not None and q < 0.05
    assert 0.72 - slack(tries, 0.2) <= found / tries <= 0.88 + slack(tries, 0.2)


def test_spreads_that_differ_between_the_sides() -> None:
    """A change may make trials scatter more; with as many repeats on both sides that must not pass for
    slower."""
    g = np.random.default_rng(29)
    flat: list[Difference] = []
    for _ in range(draws(60)):
        base = trials(g, NOISES["normal"], 12, 5, spread=0.01, alike=True)
        run = trials(g, NOISES["normal"], 12, 5, spread=0.04, alike=True)
        flat += differences(list(zip(base, run, strict=True)))
    assert sum((d.adjusted or 0) >= 0.05 for d in flat) / len(flat) >= 0.97 - slack(len(flat))


def test_a_wild_cell_does_not_blind_the_others() -> None:
    g = np.random.default_rng(31)
    base, run = (trials(g, NOISES["normal"], 24, 5, spread=0.01, alike=True) for _ in range(2))
    base[3], run[3] = [1e9, 3e9, 0.2e9, 1.5e9, 0.8e9], [2e9, 0.1e9, 1e9, 0.7e9, 4e9]
    run[5] = [0.95 * v for v in run[5]]
    found = differences(list(zip(base, run, strict=True)))
    assert found[5].adjusted is not None and found[5].adjusted < 0.01
    assert found[3].adjusted is not None and found[3].adjusted > 0.5


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (1, 10), (2, 2), (10, 2)])
def test_too_few_repeats_are_not_judged(ours: int, theirs: int) -> None:
    (found,) = differences([([1e9] * ours, [0.5e9] * theirs)])
    assert found.ratio == pytest.approx(0.5)
    assert not found.judged
    assert (found.low, found.high, found.p, found.adjusted, found.detectable) == (None,) * 5


def test_cells_not_judged_do_not_count_in_the_correction() -> None:
    g = np.random.default_rng(37)
    good = list(zip(*(trials(g, NOISES["normal"], 6, 5) for _ in range(2)), strict=True))
    alone = differences(good)
    among = differences([*good, *[([1e9], [2e9])] * 50])
    assert [d.adjusted for d in among[:6]] == [d.adjusted for d in alone]


def test_equal_figures_are_not_certainty() -> None:
    """Rounded figures of an import: a difference below what any host repeats is none."""
    found = differences([([1e9] * 5, [1.00005e9] * 5)] * 4)
    assert all(d.adjusted is not None and d.adjusted > 0.05 for d in found)
    found = differences([([1e9] * 5, [0.99e9] * 5)] * 4)
    assert all(d.adjusted is not None and d.adjusted < 0.001 for d in found)


@pytest.mark.parametrize("side", [[], [0.0, 1.0, 1.0], [-1.0, 1.0, 1.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_values_without_a_logarithm_are_refused(side: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        differences([([1.0, 2.0, 3.0], side)])


def test_adjusted_as_published() -> None:
    """The 15 p of Benjamini and Hochberg (1995), section 4: at 5 % the four smallest are rejected."""
    p = [
        *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344),
        *(0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
    ]
    assert [q <= 0.05 for q in adjust(p)] == [True] * 4 + [False] * 11
    assert adjust(p)[3] == pytest.approx(0.0095 * 15 / 4)
    assert adjust(p[::-1]) == adjust(p)[::-1]
    assert adjust([]) == []


def test_prior_recovers_what_the_spreads_were_drawn_from() -> None:
    """s2 ~ s0^2 F(d, d0), with d0 = 8 and s0 = 0.02, over many cells."""
    g = np.random.default_rng(41)
    freedom = np.full(4000, 8.0)
    true = 0.02**2 * 8.0 / g.chisquare(8.0, 4000)
    d0, common = difference.prior(true * g.chisquare(8.0, 4000) / 8.0, freedom)
    assert d0 == pytest.approx(8.0, rel=0.2)
    assert math.sqrt(common) == pytest.approx(0.02, rel=0.03)
    d0, common = difference.prior(0.02**2 * g.chisquare(8.0, 4000) / 8.0, freedom)
    assert d0 > 100
    assert math.sqrt(common) == pytest.approx(0.02, rel=0.03)


def rounds(
    g: np.random.Generator, cells: int, repeats: int, state: float, level: float = 1.0
) -> list[dict[int, float]]:
    """Cells that share the machine's state of each round."""
    common = state * g.standard_normal(repeats)
    return [
        {k: level * math.exp(common[k] + 0.02 * g.standard_normal()) for k in range(repeats)}
        for _ in range(cells)
    ]


def test_a_common_shift_is_one_finding() -> None:
    g = np.random.default_rng(43)
    found = shift(rounds(g, 12, 5, 0.0), rounds(g, 12, 5, 0.0, level=0.97))
    assert found is not None and found.p < 0.001
    assert found.low <= 0.97 <= found.high
    assert found.cells == 12


def test_one_changed_cell_is_no_common_shift() -> None:
    g = np.random.default_rng(47)
    run = rounds(g, 12, 5, 0.0)
    run[0] = {k: v / 2 for k, v in run[0].items()}
    found = shift(rounds(g, 12, 5, 0.0), run)
    assert found is not None and found.p > 0.05


def test_a_wandering_machine_is_not_taken_for_a_shift() -> None:
    """Rounds that differ by 5 % for all cells alike: averaging over cells does not make them more certain."""
    g = np.random.default_rng(53)
    tries = [shift(rounds(g, 24, 5, 0.05), rounds(g, 24, 5, 0.05)) for _ in range(draws(200))]
    alarms = sum(s is not None and s.p < 0.05 for s in tries)
    assert alarms / len(tries) <= 0.07 + slack(len(tries))


def test_a_shift_of_single_repeats_and_of_few_cells() -> None:
    assert shift([{0: 1.0}] * 3, [{0: 0.9}] * 3) is None
    g = np.random.default_rng(59)
    found = shift(rounds(g, 40, 1, 0.0), rounds(g, 40, 1, 0.0, level=0.9))
    assert found is not None and found.p < 0.001 and found.ratio == pytest.approx(0.9, rel=0.03)


# ---- intervals of medians


def test_few_values_give_their_range() -> None:
    for n in (1, 2, 3, 4, 5):
        values = [float(v * v) for v in range(n, 0, -1)]
        found = median_interval(values)
        assert (found.low, found.median, found.high, found.n) == (1.0, np.median(values), float(n * n), n)
        assert found.coverage == pytest.approx(1 - 2 ** (1 - n))
        assert found.quantity("B/s").has_margin is (n > 1) is (found.relative_half_width < math.inf)
    equal = median_interval([3.0] * 8)
    assert (equal.low, equal.median, equal.high) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize(("n", "rank"), [(5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (30, 10)])
def test_ranks_as_in_published_tables(n: int, rank: int) -> None:
    # Conover, Practical Nonparametric Statistics, and every table of the sign test since.
    assert order_statistic_rank(n, 0.95)[0] == rank


@pytest.mark.parametrize("n", [6, 7, 8, 10, 15, 25])
@pytest.mark.parametrize("shape", ["normal", "skewed", "heavy"])
def test_interval_covers_the_true_median(n: int, shape: str) -> None:
    generator = np.random.default_rng([n, len(shape)])
    drawn = {
        "normal": lambda: generator.normal(0.0, 1.0, n),
        "skewed": lambda: generator.exponential(1.0, n) - math.log(2),
        "heavy": lambda: generator.standard_cauchy(n),
    }[shape]
    trials = draws(1200)
    hits = 0
    for _ in range(trials):
        found = median_interval(drawn())
        hits += found.low <= 0.0 <= found.high
    # 95 % promised; three standard errors of 1200 trials are 1.9 %.
    assert hits / trials >= 0.95 - 0.019 - slack(trials)


def test_an_interval_that_was_waited_for_covers_the_true_median() -> None:
    """Stopped at the first narrow look, 93 % would."""
    generator, tries, hits = np.random.default_rng(9), draws(1500), 0
    for _ in range(tries):
        values = list(generator.normal(1.0, 0.02, 60))
        n = next((n for n in range(5, 60) if settled(values[:n], 0.03)), 60)
        found = median_interval(values[:n])
        hits += found.low <= 1.0 <= found.high
    assert hits / tries >= 0.95 - slack(tries)


def test_five_repeats_cover_what_they_say() -> None:
    generator = np.random.default_rng(5)
    tries = draws(4000)
    samples = generator.exponential(1.0, (tries, 5))
    hits = sum((lambda i: i.low <= math.log(2) <= i.high)(median_interval(row)) for row in samples)
    assert hits / tries == pytest.approx(0.9375, abs=0.012 + slack(tries))


def test_interval_narrows_with_repeats() -> None:
    generator = np.random.default_rng(8)
    widths = [median_interval(generator.normal(100, 1, n)).relative_half_width for n in (10, 100, 1000)]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize("values", [[], [1.0, math.nan]])
def test_no_values_and_nan_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError):
        median_interval(values)


def test_ratio_is_conservative() -> None:
    found = ratio_interval(Interval(80, 70, 90, 5, 0.9375), Interval(100, 95, 110, 3, 0.75))
    assert found.median == pytest.approx(0.8)
    assert (found.low, found.high) == (pytest.approx(70 / 110), pytest.approx(90 / 95))
    assert (found.n, found.coverage) == (3, 0.75)
    with pytest.raises(ValueError, match="positive"):
        ratio_interval(found, Interval(0, 0, 0, 3, 0.75))
