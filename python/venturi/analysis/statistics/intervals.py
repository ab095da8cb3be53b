"""Median and interval of a handful of repeats.

A cell has few repeats (5 by default), their spread is skewed (a disturbance only ever makes a trial slower)
and they share a machine; so the figure is the median, and its interval leans on no distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from venturi.common.units import Quantity

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


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Median of `values` and its order-statistic interval, whose coverage is at least `confidence` from 6
    values on; below, it is their range (`range_coverage`: 93.75 % of five). A bootstrap adds nothing: its
    quantiles are within this interval (for n = 7 [x(2), x(6)], which covers 87.5 % and says 95 %).

    Values that are NaN are refused with `ValueError`, and so is an empty list: a cell without a good trial
    has no median, and the caller must say so.
    """
    data = sorted(map(float, values))
    n = len(data)
    if n == 0:
        raise ValueError("no values: a cell without a good trial has no median")
    if any(map(math.isnan, data)):
        raise ValueError("NaN among the values")
    rank, coverage = order_statistic_rank(n, confidence)
    return Interval(median(data), data[rank - 1], data[n - rank], n, coverage)


def median_of(values: Iterable[float | None]) -> float | None:
    """The median of those that were measured; None if none was."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


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
