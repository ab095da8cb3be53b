"""Median and interval of a handful of repeats.

A cell has few repeats (5 by default), their spread is skewed (a disturbance only ever makes a trial slower)
and they share a machine; so the figure is the median, and its interval leans on no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from venturi.common.units import Quantity

RESAMPLES = 4000
"""Bootstrap resamples. The 2.5 % point of 4000 resamples has a Monte Carlo error of 0.25 % in probability,
far below what the number of repeats itself leaves open."""
SEED = 20191104
"""Every interval is drawn with a fixed seed, so that a report made twice is the same report."""
RANGE_BELOW = 6
"""With fewer repeats than this no interval between two observations covers the median with 95 %."""


@dataclass(frozen=True)
class Interval:
    """Median of `n` values with an interval, in the unit of the values.

    `coverage` is the guaranteed probability that the interval holds the true median, given independent
    repeats from one continuous distribution. It is the figure to distrust: repeats in a row on one machine
    are less independent than that, which is why cells are shuffled.
    """

    median: float
    low: float
    high: float
    n: int
    coverage: float

    def quantity(self, unit: str) -> Quantity:
        """As a printable `Quantity`; one repeat has no margin, and a zero-width one would claim certainty."""
        if self.n < 2:
            return Quantity(self.median, unit=unit)
        return Quantity(self.median, self.low, self.high, unit)

    @property
    def relative_half_width(self) -> float:
        """Half the width over the median; infinite for a single repeat."""
        if self.n < 2 or self.median == 0:
            return math.inf
        return (self.high - self.low) / 2 / abs(self.median)


def range_coverage(n: int) -> float:
    """Probability that the range of `n` repeats holds the median: 1 - 2^(1-n).

    It misses only if all repeats fall on one side of the median (0 %, 50 %, 75 %, 87.5 %, 93.75 % for 1..5).
    """
    return 1.0 - 2.0 ** (1 - n) if n > 0 else 0.0


def _binomial(n: int, k: int) -> float:
    """P(Bin(n, 1/2) = k). Over some hundred repeats the coefficient is no float any more; its logarithm
    is."""
    if n <= 500:
        return math.comb(n, k) * 2.0**-n
    return math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) - n * math.log(2.0))


@cache
def order_statistic_rank(n: int, confidence: float) -> tuple[int, float]:
    """The largest k so that [x(k), x(n+1-k)] covers the median with at least `confidence`, and its coverage.

    Coverage = 1 - 2 P(Bin(n, 1/2) <= k - 1); Thompson (1936), Annals of Mathematical Statistics 7(3);
    Conover, Practical Nonparametric Statistics, 3.2. k = 1, the range, where even that falls short of
    `confidence`.
    """
    rank, coverage, below = 1, range_coverage(n), 2.0**-n
    for k in range(2, n // 2 + 1):
        below += _binomial(n, k - 1)
        if 1.0 - 2.0 * below < confidence:
            break
        rank, coverage = k, 1.0 - 2.0 * below
    return rank, coverage


def median_interval(
    values: Sequence[float], confidence: float = 0.95, seed: int = SEED, resamples: int = RESAMPLES
) -> Interval:
    """Median of `values` and an interval which covers the true median with at least `confidence`.

    - n < 6: the interval is the range, with the coverage of `range_coverage` (93.75 % for five repeats). No
      bootstrap can do better: its quantiles are observations, and for n = 5 its 95 % interval *is* the range.
    - n >= 6: percentile bootstrap (Efron & Tibshirani, An Introduction to the Bootstrap, ch. 13), widened to
      the order-statistic interval where that one is wider. The bare percentile bootstrap of a median is too
      narrow just where repeats are few (n = 7: [x(2), x(6)], which covers 87.5 % and says 95 %).

    Values that are NaN are refused with `ValueError`, and so is an empty list: a cell without a good trial
    has no median, and the caller must say so.
    """
    data = sorted(map(float, values))
    n = len(data)
    if n == 0:
        raise ValueError("no values: a cell without a good trial has no median")
    if any(map(math.isnan, data)):
        raise ValueError("NaN among the values")
    median = (data[(n - 1) // 2] + data[n // 2]) / 2
    rank, coverage = order_statistic_rank(n, confidence)
    low, high = data[rank - 1], data[n - rank]
    if n >= RANGE_BELOW:
        tail = (1.0 - confidence) / 2
        boot_low, boot_high = _bootstrap(data, (tail, 1.0 - tail), seed, resamples)
        low, high = min(low, boot_low), max(high, boot_high)
    return Interval(median, low, high, n, coverage)


LOOKS = 2


def settled(values: Sequence[float], width: float, confidence: float = 0.95) -> bool:
    """Whether the interval of the median is narrower, from end to end, than the share `width` of it: with all
    `values`, and with one less.

    Who looks after every repeat and stops at the first narrow interval stops when it is narrow by chance: of
    such intervals 93 % hold the median and not 95 %. Two looks in a row restore that (simulated in
    tests/unit/test_difference.py).
    """

    def narrow(n: int) -> bool:
        found = median_interval(values[:n], confidence)
        return 2 * found.relative_half_width < width and found.coverage >= confidence

    return len(values) >= LOOKS and all(narrow(len(values) - back) for back in range(LOOKS))


def _bootstrap(
    data: Sequence[float], at: tuple[float, float], seed: int, resamples: int
) -> tuple[float, float]:
    """Quantiles of the medians of resamples of `data`, which is sorted."""
    import numpy as np

    values = np.asarray(data, dtype=np.float64)
    # The median of a resample is the value at the median of its positions, which do not depend on the data.
    lower, upper, times = _middle_positions(values.size, seed, resamples)
    middles = (values[lower] + values[upper]) / 2
    order = middles.argsort()
    ends = times[order].cumsum()

    def quantile(share: float) -> float:
        place = share * (resamples - 1)
        first = int(place)
        found = ends.searchsorted((first, min(first + 1, resamples - 1)), side="right")
        below, above = middles[order[found]]
        return float(below + (above - below) * (place - first))

    return quantile(at[0]), quantile(at[1])


@lru_cache(maxsize=64)
def _middle_positions(n: int, seed: int, resamples: int) -> tuple[Any, Any, Any]:
    """Positions in sorted data of the two middle values of resamples, where n is odd both are the same; and
    how many resamples have them.

    Drawn once for each n: a run of many cells asks for thousands of intervals of equally many repeats.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    middle = [(n - 1) // 2, n // 2]
    # One row of the matrix is one resample; in blocks, so that thousands of latencies do not take gigabytes.
    block = max(1, min(resamples, 4_000_000 // n))
    parts = []
    for done in range(0, resamples, block):
        drawn = generator.integers(0, n, size=(min(block, resamples - done), n), dtype=np.int64)
        parts.append(np.partition(drawn, middle, axis=1)[:, middle])
    pairs, times = np.unique(np.concatenate(parts) @ (n, 1), return_counts=True)
    return *np.divmod(pairs, n), times


def ratio_interval(numerator: Interval, denominator: Interval) -> Interval:
    """Quotient of two medians, with the interval that both intervals allow at their worst.

    Dividing the ends crosswise is conservative (it covers with at least the smaller of the two confidences)
    and needs no assumption on how the two vary together: a trial and its ceiling share a machine and are not
    independent.
    """
    if denominator.median <= 0 or denominator.low <= 0:
        raise ValueError("a ratio needs a positive denominator")
    return Interval(
        numerator.median / denominator.median,
        numerator.low / denominator.high,
        numerator.high / denominator.low,
        min(numerator.n, denominator.n),
        min(numerator.coverage, denominator.coverage),
    )
