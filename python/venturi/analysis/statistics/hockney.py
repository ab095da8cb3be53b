"""Time over payload: t(n) = a + n / b.

a is the start-up cost, b the asymptotic rate, n_half = a b the payload at which half of b is reached.
R. W. Hockney, The communication challenge for MPP, Parallel Computing 20(3) (1994), 389-398.

Relative errors are what is constant over sizes (a trial of 10 s is not measured to the same millisecond as
one of 10 ms), so it is fitted on log t, which weights squares of t by 1/t^2; see `regression`. Plain least
squares would let the largest sizes alone decide, and a come out negative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from venturi.analysis.statistics import regression
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.laws import Refused
from venturi.analysis.statistics.regression import Array, Points, interval_of
from venturi.common.units import Quantity, percent, pick_unit

LEAST_POINTS = 4
LEAST_SPAN = 2.0
"""Largest over smallest payload below which a and b cannot be told apart."""
RESAMPLES = 1000
MOST_DEVIATION = 0.3
HUBER = 1.345
"""Deviations beyond so many (robust) standard deviations count linearly: 95 % efficient on normal errors
(Huber 1964, Annals of Mathematical Statistics 35)."""
START_UP = 0.2
"""A payload is large where start-up takes at most this share of its time, n >= 4 n_half."""


@dataclass
class Hockney:
    """The fit of one parallelism. Times in ns and payload in `unit` (B, or rows), rates per second."""

    points: Points
    """y is the log of ns."""
    a: float
    """Start-up, ns."""
    b: float
    """Asymptotic rate, payload per second."""
    extra: float
    """Variance of log t beyond the repeats'."""
    weight: Array
    """The weight of each size: 1, less for outliers."""
    r_squared: float
    """Of the mean times."""
    deviation: float
    unit: str = "B"
    resamples: int = RESAMPLES

    @property
    def n_half(self) -> float:
        """Payload that reaches half of b."""
        return self.a * self.b / 1e9

    @property
    def large(self) -> float:
        """Payload from which on start-up takes at most a fifth of the time: 4 n_half."""
        return self.n_half * (1 - START_UP) / START_UP

    def at(self, payload: Sequence[float] | Array) -> Array:
        """Time (ns) for each payload."""
        return self.a + np.asarray(payload, dtype=np.float64) / self.b * 1e9

    @property
    def freedom(self) -> float:
        return self.points.freedom_around(self.extra, 2)

    @cached_property
    def draws(self) -> Array:
        """Bootstrap rows of (a ns, ns per unit of payload)."""
        sigma = np.sqrt(np.maximum(self.points.variance + self.extra, 1e-12))
        centre = np.log(self.at(self.points.x))
        rows = regression.disturbed(centre, sigma, self.freedom, self.resamples)
        found: Array = _solve(self.points.x, rows, self.weight / sigma**2)
        return found

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """a (ns), b (per second) and n_half with 95 % bootstrap intervals."""
        rows, n = self.draws, len(self.points.x)
        a, b = rows[:, 0], 1e9 / rows[:, 1]
        return {
            "a": interval_of(self.a, a, n),
            "b": interval_of(self.b, b, n),
            "n_half": interval_of(self.n_half, a * b / 1e9, n),
        }

    def band(self, payload: Sequence[float]) -> tuple[Array, Array]:
        """95 % interval of the curve, ns, at each payload."""
        at = np.asarray(payload, dtype=np.float64)
        drawn = self.draws[:, :1] + self.draws[:, 1:] * at[None]
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        return low, high

    def predict(self, payload: float, repeats: int = 5, confidence: float = 0.95) -> Interval:
        """The median time (ns) of `repeats` new trials of this payload, with a prediction interval."""
        generator = np.random.default_rng(regression.SEED + 1)
        drawn = np.log(self.draws[:, 0] + self.draws[:, 1] * payload)
        scale = math.sqrt(self.points.median_variance_at(payload, repeats) + self.extra)
        drawn = drawn + scale * generator.standard_t(self.freedom, len(drawn))
        tail = (1 - confidence) / 2
        low, high = (float(v) for v in np.exp(np.quantile(drawn, [tail, 1 - tail])))
        point = float(self.at([payload])[0])
        return Interval(point, min(low, point), max(high, point), len(self.points.x), confidence)

    def quantities(self) -> dict[str, Quantity]:
        """a, b and n_half with units and margins."""
        rate = f"{self.unit}/s"
        units = {"a": "ns", "b": rate, "n_half": self.unit}
        return {k: Quantity(i.median, i.low, i.high, units[k]) for k, i in self.intervals.items()}

    def text(self) -> str:
        """`b = 6,210 MB/s [6,100..6,330], a = 1.2 ms [0.9..1.5], n_half = 7.4 MB [...]`."""
        # One unit for value and margin: nobody can read "0 ns [0..27,160,356]".
        q = {k: v.text(pick_unit(v.unit, [v.value, v.high])) for k, v in self.quantities().items()}
        fitted = f"explains {percent(self.r_squared, 1)} of the variance"
        return f"b = {q['b']}, a = {q['a']}, n_half = {q['n_half']}; {fitted}"


def _solve(x: Array, y: Array, weight: Array) -> Array:
    """Rows of (a ns, ns per unit of payload), both >= 0 and the second > 0."""
    design = np.stack([np.ones_like(x), x], axis=1)
    return regression.log_linear(design, y, weight, [(0, 1), (1,)])[0]


def fit(
    observations: Mapping[float, Sequence[float]],
    unit: str = "B",
    resamples: int = RESAMPLES,
) -> Hockney:
    """Fits times (ns) by payload. Raises `Refused` with the reason: thin data, or no such law in them."""
    if any(not n > 0 for n in observations):
        raise Refused("there are trials that moved nothing")
    try:
        points = regression.points(dict(observations))
    except ValueError as error:
        raise Refused(str(error)) from None
    size = len(points.x)
    if size < LEAST_POINTS:
        raise Refused(f"only {size} different sizes; a line over sizes needs {LEAST_POINTS}")
    span = float(points.x[-1] / points.x[0])
    if span < LEAST_SPAN:
        raise Refused(
            f"the largest size is only {span:.2g} times the smallest; start-up and rate need a factor "
            f"{LEAST_SPAN:g} to be told apart"
        )
    known = points.freedom > 0
    variance = np.maximum(points.variance, 1e-8) if known else np.ones(size)
    weight, extra = np.ones(size), 0.0
    b = _solve(points.x, points.y[None], weight / variance)
    for _ in range(8):
        residual = points.y - np.log(b[0, 0] + b[0, 1] * points.x)
        if known:
            extra = regression.between(residual * np.sqrt(weight), variance, size - 2)
        scale = np.sqrt(variance + extra) if known else np.full(size, _robust(residual))
        weight = np.minimum(1.0, HUBER * scale / np.maximum(np.abs(residual), 1e-12))
        found = _solve(points.x, points.y[None], weight / (variance + extra))
        done = bool(np.allclose(found, b, rtol=1e-7))
        b = found
        if done:
            break
    residual = points.y - np.log(b[0, 0] + b[0, 1] * points.x)
    if not known:
        extra = float((weight * residual**2).sum()) / (size - 2)
    times = np.array([float(np.mean(observations[float(x)])) for x in points.x])
    fitted = b[0, 0] + b[0, 1] * points.x
    r_squared = 1 - float(((times - fitted) ** 2).sum() / ((times - times.mean()) ** 2).sum())
    deviation = float(np.sqrt(np.mean(residual**2)))
    if not math.isfinite(deviation) or b[0, 1] <= 0 or deviation > MOST_DEVIATION:
        raise Refused(f"times do not follow a + n/b: the line misses them by {100 * deviation:.0f} %")
    rate = 1e9 / float(b[0, 1])
    return Hockney(points, float(b[0, 0]), rate, extra, weight, r_squared, deviation, unit, resamples)


def _robust(residual: Array) -> float:
    """Standard deviation from the median absolute deviation, which half of the points may not disturb."""
    return max(1.4826 * float(np.median(np.abs(residual - np.median(residual)))), 1e-6)
