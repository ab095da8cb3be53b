"""Trials that run at two speeds: a few several times slower than all others, or two groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

__all__ = ["Speeds", "single", "two_groups"]

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


def single(cells: Sequence[Sequence[float]]) -> Speeds | None:
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
