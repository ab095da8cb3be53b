"""Least squares on relative errors, for curves fitted to a handful of points with repeats.

What is fitted here are times and rates. Their errors are relative (a disturbance stretches a trial, it does
not add a fixed number of seconds) and skewed, so everything happens on logarithms: there a constant relative
error is a constant spread, and slow and fast outliers weigh alike. Least squares on log t is, to first order,
least squares on t weighted by 1/t^2. A point is the median of its repeats.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from venturi.analysis.statistics.difference import prior
from venturi.analysis.statistics.intervals import Interval

Array = NDArray[np.float64]

SEED = 20191104
"""A fit made twice is the same fit."""
LEAST_FREEDOM = 4
"""Below this many degrees of freedom the repeats say nothing about their own spread."""
# Variance of the median of n normal values over that of one: Sarhan & Greenberg, Contributions to Order
# Statistics (1962), table 10C.1; beyond it the asymptotic pi/2n with a small-sample term, exact at 1.
_MEDIAN = (1.0, 0.5, 0.4487, 0.2982, 0.2868, 0.2147, 0.2104, 0.1682, 0.1661, 0.1383)


def median_variance(n: int) -> float:
    """Variance of the median of `n` values in units of the variance of one."""
    return _MEDIAN[n - 1] if n <= len(_MEDIAN) else math.pi / (2 * n + math.pi - 2)


@dataclass(frozen=True)
class Points:
    """Medians over an axis, on a log scale. Arrays have one entry a point, x ascending."""

    x: Array
    y: Array
    """Log of the median."""
    variance: Array
    """Of each log median, from the repeats; zeros where they do not tell (`freedom` 0)."""
    spread: Array
    """Standard deviation of a single log observation."""
    counts: NDArray[np.int64]
    freedom: int
    """Degrees of freedom behind `variance`; 0 where there is not repeat enough to know a spread."""

    @property
    def observations(self) -> int:
        return int(self.counts.sum())

    def share_of_repeats(self, extra: float) -> float:
        """How much of the points' variance their repeats explain, 0..1; `extra` is what they do not."""
        total = self.variance + extra
        if not self.freedom:
            return 0.0
        return float((self.variance / total).mean()) if float(total.min()) > 0 else 1.0

    def freedom_around(self, extra: float, parameters: int) -> float:
        """Degrees of freedom around a law: of the repeats, or of the points where these are what varies."""
        left = float(max(1, len(self.x) - parameters))
        share = self.share_of_repeats(extra)
        return share * self.freedom + (1 - share) * left if self.freedom else left

    def median_variance_at(self, x: float, repeats: int) -> float:
        """Of the log median of so many new trials, by the spread of the nearest point: noise often grows with
        the load. 0 where repeats do not tell."""
        near = int(np.argmin(np.abs(np.log(self.x) - math.log(x))))
        return float(self.spread[near]) ** 2 * median_variance(repeats) if self.freedom else 0.0

    def without(self, index: int) -> Points:
        """The same without one point."""
        parts = {k: np.delete(getattr(self, k), index) for k in ("x", "y", "variance", "spread", "counts")}
        freedom = self.freedom - (int(self.counts[index]) - 1) if self.freedom else 0
        return replace(self, **parts, freedom=freedom if freedom >= LEAST_FREEDOM else 0)


def points(observations: dict[float, Sequence[float]]) -> Points:
    """From the observations at each x. Values that are not positive and finite raise `ValueError`."""
    x = np.array(sorted(observations), dtype=np.float64)
    logs = []
    for at in x:
        values = np.asarray(observations[float(at)], dtype=np.float64)
        if not values.size or not bool(np.all(np.isfinite(values) & (values > 0))):
            raise ValueError("a rate or a time must be positive and finite")
        logs.append(np.log(values))
    counts = np.array([v.size for v in logs], dtype=np.int64)
    # The median of the values, not of their logs: the same for odd counts, and the figure in the tables.
    y = np.array([math.log(float(np.median(np.exp(v)))) for v in logs])
    freedom = int((counts - 1).sum())
    if freedom < LEAST_FREEDOM:
        nothing = np.zeros_like(y)
        return Points(x, y, nothing, nothing, counts, 0)
    squares = _moderated(
        np.array([float(v.var(ddof=1)) if v.size > 1 else math.nan for v in logs]), counts - 1
    )
    factor = np.array([median_variance(int(n)) for n in counts])
    return Points(x, y, squares * factor, np.sqrt(squares), counts, freedom)


def _moderated(variances: Array, freedom: NDArray[np.int64]) -> Array:
    """Each point's variance drawn towards that of all together, as far as they agree.

    Weights of the inverse of a variance that comes from five repeats would be noise themselves (they vary by
    a factor ten). Empirical Bayes with a scaled inverse chi-square prior: Smyth (2004), Statistical
    Applications in Genetics and Molecular Biology 3(1), section 6.2. Where points differ no more than chance
    makes them, all get the pooled variance.
    """
    seen = freedom > 0
    d = freedom[seen].astype(np.float64)
    # Repeats that agree to the last digit (a clock's tick) must not get an infinite weight.
    s2 = np.maximum(variances[seen], 1e-8)
    worth, common = prior(s2, d)
    if not 0 < worth < math.inf:
        return np.full(len(variances), np.average(s2, weights=d))
    out = np.full(len(variances), common)
    out[seen] = (worth * common + d * s2) / (worth + d)
    return out


def log_linear(design: Array, y: Array, weight: Array, sets: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """Coefficients b >= 0 that minimise sum of weight (log(design b) - y)^2, for many rows `y` at once.

    `design` is (points, k), `y` (rows, points), `weight` (points); `sets` lists the columns that may be
    positive together (an active-set search over few columns, exact and without a start to guess). Answers
    coefficients (rows, k) and the sums (rows). A row that no set can fit has a sum of infinity.
    """
    rows, k = y.shape[0], design.shape[1]
    best = np.zeros((rows, k))
    lowest = np.full(rows, np.inf)
    scale = np.exp(y.mean())
    open_rows = np.arange(rows)
    # The widest set first: where it needs no bound it is the best of all, and the row is done.
    for columns in sorted(sets, key=len, reverse=True):
        if not open_rows.size:
            break
        chosen = list(columns)
        size = np.abs(design[:, chosen]).max(axis=0)
        b, total = _gauss_newton(design[:, chosen] / size * scale, y[open_rows], weight)
        better = (b >= 0).all(axis=1) & (total < lowest[open_rows])
        at = open_rows[better]
        lowest[at] = total[better]
        best[at] = 0.0
        for i, column in enumerate(chosen):
            best[at, column] = b[better, i] / size[i] * scale
        if len(chosen) == k:
            open_rows = open_rows[~better]
    return best, lowest


def _gauss_newton(design: Array, y: Array, weight: Array) -> tuple[Array, Array]:
    """Unconstrained, all rows together; steps are halved where they do not help."""
    k = design.shape[1]
    ridge = 1e-12 * np.eye(k)

    def solve(jacobian: Array, right: Array) -> Array:
        weighted = jacobian * weight[None, :, None]
        normal = np.einsum("rgi,rgj->rij", weighted, jacobian)
        normal = normal + ridge * np.trace(normal, axis1=1, axis2=2)[:, None, None]
        return np.linalg.solve(normal, np.einsum("rgi,rg->ri", weighted, right)[..., None])[..., 0]

    def loss(b: Array) -> tuple[Array, Array]:
        g = b @ design.T
        good = (g > 0).all(axis=1)
        residual = y - np.log(np.where(g > 0, g, 1.0))
        return np.where(good, (weight * residual**2).sum(axis=1), np.inf), residual

    target = np.exp(y)
    # Relative errors make the problem linear: 1 = (design / target) b.
    b = solve(design[None] / target[:, :, None], np.ones_like(y))
    total, residual = loss(b)
    lost = ~np.isfinite(total)
    if lost.any():
        # A start within the positive: every column carries its share of the level.
        level = np.exp(y[lost].mean(axis=1))[:, None] / (k * design.mean(axis=0))[None]
        b[lost] = np.abs(level)
        total, residual = loss(b)
    for _ in range(30):
        g = np.maximum(b @ design.T, 1e-300)
        step = solve(design[None] / g[:, :, None], residual)
        taken = np.zeros(len(b), dtype=bool)
        gain = 0.0
        for half in range(6):
            trial = np.where(taken[:, None], b, b + step * 0.5**half)
            tried, tried_residual = loss(trial)
            better = ~taken & (tried < total)
            gain = max(
                gain, float(np.max(np.where(better, total - tried, 0.0) / (total + 1e-300), initial=0.0))
            )
            b[better], total[better], residual[better] = trial[better], tried[better], tried_residual[better]
            taken |= better
            if taken.all():
                break
        if gain < 1e-9:
            break
    return b, total


def subsets(columns: int, needed: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """All sets of columns that hold at least one of the `needed` sets."""
    every = [s for r in range(1, columns + 1) for s in itertools.combinations(range(columns), r)]
    return [s for s in every if any(set(n) <= set(s) for n in needed)]


def between(residuals: Array, variance: Array, freedom: int) -> float:
    """Variance of points beyond their repeats', so that the residuals are as large as they should be.

    Solves sum r^2 / (v + tau^2) = freedom (Mandel & Paule 1970, Analytical Chemistry 42); 0 where repeats
    explain the residuals. Trials of a cell share what the cell met (a placement, a frequency), and a curve
    is never exactly the truth: both show here.
    """
    squares = residuals**2
    if freedom < 1 or float((squares / _floor(variance)).sum()) <= freedom:
        return 0.0
    low, high = 0.0, float(squares.sum()) / freedom
    for _ in range(60):
        middle = (low + high) / 2
        if float((squares / _floor(variance + middle)).sum()) > freedom:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _floor(variance: Array) -> Any:
    return np.maximum(variance, 1e-12)


def interval_of(value: float, drawn: Array, n: int) -> Interval:
    """The 95 % interval of a figure from `n` points, by what was drawn of it."""
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Interval(value, min(float(low), value), max(float(high), value), n, 0.95)


def disturbed(centre: Array, sigma: Array, freedom: float, size: int) -> Array:
    """Parametric bootstrap (Efron & Tibshirani, An Introduction to the Bootstrap, 6.5): `size` rows of points
    around the fitted `centre`, with their standard errors `sigma`.

    Resampling five repeats makes intervals 10 % too narrow ((n-1)/n of the variance) and their median takes
    few values; so the errors are drawn, with their spread as estimated from the repeats, and each row with a
    spread of its own, as uncertain as `freedom` leaves it (the Student factor).
    """
    generator = np.random.default_rng(SEED)
    z = generator.standard_normal((size, len(centre)))
    factor = (
        np.sqrt(freedom / generator.chisquare(freedom, size)) if math.isfinite(freedom) else np.ones(size)
    )
    out: Array = centre[None] + z * sigma[None] * factor[:, None]
    return out
