"""How a figure grows with the number of loaders: a + b n, with its margins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

DRAWS = 2000


@dataclass(frozen=True)
class Law:
    """Each a median of bootstrap draws with its 95 % interval."""

    base: tuple[float, float, float]
    each: tuple[float, float, float]
    draws: Any
    """Of both: an array of DRAWS x 2."""

    def at(self, loaders: int) -> tuple[float, float, float]:
        return _interval(self.draws @ np.array([1.0, loaders]))


def fit(found: Mapping[int, Sequence[float]]) -> Law | None:
    """From repeats by the number of loaders; None under three numbers.

    A figure of 1,000 loaders is not as sure to the millisecond as one of 10, but to the same share of it: so
    points weigh by their inverse square. Repeats are drawn anew within each number.
    """
    if len(found) < 3:
        return None
    rng = np.random.default_rng(1)
    counts = sorted(found)
    draws = [
        _line(counts, [float(np.median(rng.choice(found[count], len(found[count])))) for count in counts])
        for _ in range(DRAWS)
    ]
    array = np.array(draws)
    return Law(_interval(array[:, 0]), _interval(array[:, 1]), array)


def _line(counts: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    design = np.array([[1.0, count] for count in counts]) / np.array(values)[:, None]
    (base, each), *_ = np.linalg.lstsq(design, np.ones(len(counts)), rcond=None)
    return float(base), float(each)


def _interval(values: Any) -> tuple[float, float, float]:
    middle, low, high = np.percentile(values, [50, 2.5, 97.5])
    return float(middle), float(low), float(high)
