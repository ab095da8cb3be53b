"""Where a series changes its level: E-Divisive.

D. S. Matteson and N. A. James, *A Nonparametric Approach for Multiple Change Point Analysis of Multivariate
Data*, JASA 109(505), 2014. Used on series of benchmarks by D. Daly et al., *The Use of Change Point Detection
to Identify Software Performance Regressions in a Continuous Integration System*, ICPE 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["LEAST", "LEVEL", "ChangePoint", "change_points"]

LEAST = 3
"""Points on each side of a change: fewer say nothing of a level."""
LEVEL = 0.01
"""Largest p of a change, so about the share of series without one in which one is seen."""
PERMUTATIONS = 499
SEED = 1


@dataclass(frozen=True)
class ChangePoint:
    at: int
    """The first point of the new level."""
    p: float


def change_points(values: Sequence[float], level: float = LEVEL) -> list[ChangePoint]:
    """Where the distribution of `values` changes, in their order. The same values have the same answer.

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
        part = series[begin:end]
        apart = np.abs(part[:, None] - part[None, :])
        cut, best = _best_cut(apart)
        if best <= 0.0:
            continue
        orders = (generator.permutation(end - begin) for _ in range(PERMUTATIONS))
        as_good = sum(_best_cut(apart[np.ix_(order, order)])[1] >= best for order in orders)
        p = (1 + as_good) / (1 + PERMUTATIONS)
        if p <= level:
            found.append(ChangePoint(begin + cut, p))
            todo += [(begin, begin + cut), (begin + cut, end)]
    return sorted(found, key=lambda one: one.at)


def _best_cut(apart: Any) -> tuple[int, float]:
    """Where to cut, and by how much the energy distance of both sides is over what they have within; `apart`
    has the distances of all pairs."""
    n = len(apart)
    sums = apart.cumsum(axis=0).cumsum(axis=1)
    left = np.arange(LEAST, n - LEAST + 1)
    right = n - left
    # Of pairs within a side both orders are counted, of pairs between the sides one.
    within_left = sums[left - 1, left - 1]
    between = sums[left - 1, n - 1] - within_left
    within_right = sums[n - 1, n - 1] - within_left - 2 * between
    energy = (
        2 * between / (left * right)
        - within_left / (left * (left - 1))
        - within_right / (right * (right - 1))
    )
    scaled = left * right / n * energy
    best = int(scaled.argmax())
    return int(left[best]), float(scaled[best])
