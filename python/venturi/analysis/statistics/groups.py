"""Trials that fall into groups: at two speeds, or before and after a change of level.

Where a series changes its level: the largest difference of means on both sides of a cut, with its
permutation test.

The statistic is that of A. Sen and M. S. Srivastava, *On Tests for Detecting Change in Mean*, Annals of
Statistics 3(1), 1975. Its p comes from permutations, which assume no distribution and hold from few points
on: five runs against five that are all slower have p = 2 / C(10, 5) = 0.8 %. Series of benchmarks have been
cut in this way, with the energy distance, by D. Daly et al., *The Use of Change Point Detection to Identify
Software Performance Regressions in a Continuous Integration System*, ICPE 2020; means take n steps for each
permutation where distances take n x n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

__all__ = ["LEAST", "LEVEL", "ChangePoint", "Speeds", "change_points", "slow_trials", "two_groups"]

SEVERAL = 2.0
"""A slow trial is so many times slower than its cell's median, and than every trial that is not slow."""
MOST_SLOW = 1 / 3
LEAST_TRIALS = 6
"""In all cells together; a lone slow one of five says little of how often it happens."""
LEAST_OF_CELL = 3
LEAST_GROUP = 3
LEAST_GROUPED = 10
"""Repeats of a cell from which two groups are looked for."""
WIDER = 1.5
"""The groups lie so many times further apart than the wider one is wide."""
LEAST_APART = 1.15


@dataclass(frozen=True)
class Speeds:
    """How many of how many trials are slow, and how many times slower the least and the most slow one is."""

    trials: int
    slow: int
    least: float
    most: float

    @property
    def share(self) -> float:
        return self.slow / self.trials


def slow_trials(cells: Sequence[Sequence[float]]) -> Speeds | None:
    """Single trials several times slower than all others of their cells; throughputs, a sequence a cell.

    Nothing may lie between them and the others: a long tail is one speed. Cells with fewer than three trials
    have no median to be slower than.
    """
    ratios = sorted(
        median(values) / value
        for values in cells
        if len(values) >= LEAST_OF_CELL
        for value in values
        if value > 0
    )
    slow = [r for r in ratios if r >= SEVERAL]
    rest = ratios[: len(ratios) - len(slow)]
    if not slow or len(ratios) < LEAST_TRIALS or len(slow) > MOST_SLOW * len(ratios):
        return None
    if slow[0] < SEVERAL * max(1.0, rest[-1]):
        return None
    return Speeds(len(ratios), len(slow), slow[0], slow[-1])


def two_groups(values: Sequence[float]) -> Speeds | None:
    """Repeats of one cell in two groups that lie further apart than either is wide."""
    logs = sorted(math.log(v) for v in values if v > 0)
    if len(logs) < LEAST_GROUPED:
        return None
    gaps = [b - a for a, b in pairwise(logs)]
    at = max(range(len(gaps)), key=gaps.__getitem__) + 1
    slow, fast = logs[:at], logs[at:]
    wide = max(slow[-1] - slow[0], fast[-1] - fast[0])
    apart = math.exp(median(fast) - median(slow))
    if min(len(slow), len(fast)) < LEAST_GROUP or gaps[at - 1] <= WIDER * wide or apart < LEAST_APART:
        return None
    return Speeds(len(logs), len(slow), apart, apart)


LEAST = 3
"""Points on each side of a change: fewer say nothing of a level."""
LEVEL = 0.01
"""Largest p of a change, so about the share of series without one in which one is seen."""
DRAWS, MOST_DRAWS, MOST_NUMBERS = 1000, 20_000, 10_000_000
"""Permutations drawn at a time, and at most: as many more of short series as so many numbers are. That of six
runs against four is p = 0.95 %, and `LEVEL` is 1 %."""
SURE = 4.0
"""Standard errors off `LEVEL` from which on a share is told without more draws."""
SEED = 1
NOTHING = 1e-12
"""Differences that are rounding, as a share of the values."""


@dataclass(frozen=True)
class ChangePoint:
    at: int
    """The first point of the new level."""
    p: float


def change_points(values: Sequence[float], level: float = LEVEL) -> list[ChangePoint]:
    """Where the level of `values` changes, in their order. The same values have the same answer.

    A segment is cut where both sides differ most, if at most the share `level` of its permutations has a cut
    as good; then its parts are. Raises ValueError for a value that is no number.
    """
    series = np.asarray(values, dtype=float)
    if not np.isfinite(series).all():
        raise ValueError("a series of numbers is needed")
    generator = np.random.default_rng(SEED)
    found, todo = [], [(0, len(series))]
    while todo:
        begin, end = todo.pop()
        if end - begin < 2 * LEAST:
            continue
        part = series[begin:end] - series[begin:end].mean()
        apart = _apart(part[None])[0]
        if apart.max() <= NOTHING * np.abs(series[begin:end]).max():
            continue
        cut = LEAST + int(apart.argmax())
        p = _p(part, float(apart.max()), level, generator)
        if p <= level:
            found.append(ChangePoint(begin + cut, p))
            todo += [(begin, begin + cut), (begin + cut, end)]
    return sorted(found, key=lambda one: one.at)


def _apart(rows: Any) -> Any:
    """By how much the means on both sides of each cut differ, over what they would by chance; a row each,
    whose values sum up to zero."""
    n = rows.shape[1]
    left = np.arange(LEAST, n - LEAST + 1)
    return np.abs(rows.cumsum(axis=1)[:, left - 1]) / np.sqrt(left * (n - left))


def _p(part: Any, best: float, level: float, generator: Any) -> float:
    """The share of permutations with a cut as good, as the first draws tell it where they are clear."""
    as_good = drawn = 0
    while drawn < max(MOST_DRAWS, MOST_NUMBERS // len(part)):
        orders = generator.permuted(np.broadcast_to(part, (DRAWS, len(part))), axis=1)
        # Sums in another order differ in their last bits.
        as_good += int((_apart(orders).max(axis=1) >= best * (1 - 1e-9)).sum())
        drawn += DRAWS
        if abs(as_good - level * drawn) > SURE * math.sqrt(level * drawn):
            break
    return (1 + as_good) / (1 + drawn)
