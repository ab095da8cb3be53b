"""The laws themselves: their curves, and their least squares on logarithms for many rows at once.

- constant: X = C, saturated from the smallest N on.
- linear: X = l N, nothing saturates within the range.
- flat: X = min(l N, C), linear then flat.
- amdahl: X = l N / (1 + s (N - 1)). Amdahl (1967), AFIPS Conference Proceedings 30, 483-485.
- usl: X = l N / (1 + s (N - 1) + k N (N - 1)). Gunther, Guerrilla Capacity Planning (2007), ch. 4-6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from venturi.analysis.statistics import regression
from venturi.analysis.statistics.regression import Array

T = TypeVar("T")
NAMES = {
    "constant": "constant",
    "linear": "linear",
    "flat": "linear then flat",
    "amdahl": "Amdahl",
    "usl": "Universal Scalability Law",
}
PARAMETERS = {
    "constant": ("C",),
    "linear": ("l",),
    "flat": ("l", "C"),
    "amdahl": ("l", "s"),
    "usl": ("l", "s", "k"),
}
_SIMPLEST = ("constant", "linear")
WITHIN = {
    "constant": (),
    "linear": (),
    "flat": _SIMPLEST,
    "amdahl": _SIMPLEST,
    "usl": (*_SIMPLEST, "amdahl"),
}
"""The laws that each law contains."""


class Refused(ValueError):
    """Why no law is fitted: a sentence for people."""


def attempt(make: Callable[[], T]) -> tuple[T | None, str]:
    """What is made, or why not."""
    try:
        return make(), ""
    except Refused as reason:
        return None, str(reason)


@dataclass(frozen=True)
class Law:
    """One law fitted to the points: `coefficients` of its inner form, and the usual `parameters`."""

    name: str
    coefficients: Array = field(repr=False)
    parameters: dict[str, float]
    chi_square: float
    aicc: float = math.nan
    weight: float = math.nan
    """Akaike weight: how probable this law is among those fitted."""

    @property
    def title(self) -> str:
        return NAMES[self.name]

    def at(self, n: Sequence[float] | Array) -> Array:
        """Throughput at each n."""
        found: Array = np.exp(curve(self.name, self.coefficients[None], np.asarray(n, dtype=np.float64))[0])
        return found


def _design(name: str, n: Array) -> Array:
    """N / X = A + B N + K N (N - 1), linear in its coefficients: A = (1 - s)/l, B = s/l, K = k/l."""
    columns = [np.ones_like(n), n]
    if name == "usl":
        columns.append(n * (n - 1))
    out: Array = np.stack(columns, axis=1)
    return out


def curve(name: str, coefficients: Array, n: Array) -> Array:
    """Log throughput (rows, len(n)) for rows of coefficients."""
    log_n = np.log(n)[None]
    if name == "constant":
        return np.repeat(coefficients[:, :1], len(n), axis=1)
    if name == "linear":
        return coefficients[:, :1] + log_n
    if name == "flat":
        return np.minimum(coefficients[:, :1] + log_n, coefficients[:, 1:])
    below = coefficients @ _design(name, n).T
    out: Array = log_n - np.log(np.maximum(below, 1e-300))
    return out


def solve(name: str, n: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """Coefficients (rows, .) and weighted sums of squares (rows) for rows of log throughput `y`."""
    log_n = np.log(n)
    if name in _SIMPLEST:
        above = y - log_n if name == "linear" else y
        a = (above * weight).sum(axis=1, keepdims=True) / weight.sum()
        return a, (weight * (above - a) ** 2).sum(axis=1)
    if name == "flat":
        return _solve_flat(log_n, y, weight)
    columns = 3 if name == "usl" else 2
    # Without A and B a single stream would be infinitely fast.
    sets = regression.subsets(columns, [(0,), (1,)])
    return regression.log_linear(_design(name, n), log_n[None] - y, weight, sets)


def _solve_flat(log_n: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """The best corner, exactly: it lies between two points or on one, and each case has a closed form."""
    rows, size = y.shape
    best, lowest = np.zeros((rows, 2)), np.full(rows, np.inf)
    rising = y - log_n
    for j in range(1, size + 1):
        first, last = weight[:j], weight[j:]
        a = (rising[:, :j] * first).sum(axis=1) / first.sum()
        candidates = []
        if last.size:
            candidates.append((a, (y[:, j:] * last).sum(axis=1) / last.sum()))
        corner = np.minimum(log_n, log_n[j - 1])
        on = ((y - corner) * weight).sum(axis=1) / weight.sum()
        candidates.append((on, on + log_n[j - 1]))
        for slope, level in candidates:
            found = np.minimum(slope[:, None] + log_n, level[:, None])
            total = (weight * (y - found) ** 2).sum(axis=1)
            # A hair, so that of equal fits the first corner wins on every machine.
            better = total < lowest - 1e-15
            lowest[better] = total[better]
            best[better] = np.stack([slope, level], axis=1)[better]
    return best, lowest


def parameters(name: str, coefficients: Array) -> dict[str, Array]:
    """The usual parameters of rows of coefficients: l and C in the unit of the rates, s and k plain."""
    if name in (*_SIMPLEST, "flat"):
        return {p: np.exp(coefficients[:, i]) for i, p in enumerate(PARAMETERS[name])}
    one = coefficients[:, 0] + coefficients[:, 1]
    found = {"l": 1 / one, "s": coefficients[:, 1] / one}
    if name == "usl":
        found["k"] = coefficients[:, 2] / one
    return found
