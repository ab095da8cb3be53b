"""Intervals of medians: edge cases, and coverage on synthetic data whose median is known."""

import math

import numpy as np
import pytest

from support.draws import draws, slack
from venturi.analysis.statistics.intervals import (
    Interval,
    median_interval,
    order_statistic_rank,
    range_coverage,
    ratio_interval,
)


def test_one_value_has_no_margin() -> None:
    one = median_interval([5.0])
    assert (one.median, one.low, one.high, one.n, one.coverage) == (5.0, 5.0, 5.0, 1, 0.0)
    assert not one.quantity("B/s").has_margin
    assert one.relative_half_width == math.inf


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_few_values_give_their_range(n: int) -> None:
    values = [float(v * v) for v in range(n, 0, -1)]
    found = median_interval(values)
    assert (found.low, found.high) == (1.0, float(n * n))
    assert found.median == np.median(values)
    assert found.coverage == pytest.approx(1 - 2 ** (1 - n))


def test_coverage_of_the_range() -> None:
    assert [range_coverage(n) for n in range(1, 6)] == [0.0, 0.5, 0.75, 0.875, 0.9375]


@pytest.mark.parametrize(("n", "rank"), [(5, 1), (6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (30, 10)])
def test_ranks_as_in_published_tables(n: int, rank: int) -> None:
    # Conover, Practical Nonparametric Statistics, and every table of the sign test since.
    assert order_statistic_rank(n, 0.95)[0] == rank


def test_interval_is_repeatable_and_ordered() -> None:
    values = list(np.random.default_rng(3).normal(100, 5, 40))
    one, two = median_interval(values), median_interval(values)
    assert one == two
    assert one.low < one.median < one.high


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
        found = median_interval(drawn(), resamples=400)
        hits += found.low <= 0.0 <= found.high
    # 95 % promised; three standard errors of 1200 trials are 1.9 %.
    assert hits / trials >= 0.95 - 0.019 - slack(trials)


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


def test_equal_values() -> None:
    found = median_interval([3.0] * 8)
    assert (found.low, found.median, found.high) == (3.0, 3.0, 3.0)


def test_ratio_is_conservative() -> None:
    found = ratio_interval(Interval(80, 70, 90, 5, 0.9375), Interval(100, 95, 110, 3, 0.75))
    assert found.median == pytest.approx(0.8)
    assert (found.low, found.high) == (pytest.approx(70 / 110), pytest.approx(90 / 95))
    assert (found.n, found.coverage) == (3, 0.75)
    with pytest.raises(ValueError, match="positive"):
        ratio_interval(found, Interval(0, 0, 0, 3, 0.75))
