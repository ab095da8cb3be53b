"""Scaling laws: throughput over a number of streams, encoders, threads, hosts, rows per batch.

The laws are in `laws`. Fitted on logarithms (see `regression`), chosen by AICc (Burnham & Anderson, Model
Selection and Multimodel Inference, 2nd ed., 2.4 and 6.9.3), with parametric bootstrap intervals.
docs/models.md has the whole method.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from venturi.analysis.statistics import regression
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.laws import NAMES, PARAMETERS, WITHIN, Law, Refused, curve, parameters, solve
from venturi.analysis.statistics.regression import Array, Points, interval_of
from venturi.common.units import p_value

LEAST_POINTS = 4
KNEE = 0.9
RESAMPLES = 1000
PRETENDER = 2.0
"""A law that contains a simpler one must beat it by this much AICc: below, the further parameter explains
nothing (Burnham & Anderson 3.5.5, "pretending variable")."""
MOST_DEVIATION = 0.25
"""A curve that misses its points by more than this (root mean square of relative deviations) is refused."""
MOST_SIMPLE = 0.05
"""Few points forbid a second parameter. Where repeats do not explain how points deviate, a law with one that
misses them by more than this is not chosen for that while another is closer by half: a constant is left out,
linear refused."""
DOUBTFUL = 0.01
"""Significance at which the points deviate from the curve by more than their repeats allow."""
PLAUSIBLE = 0.01
"""Akaike weight below which a law plays no part in a prediction."""


@dataclass(frozen=True)
class HeldOut:
    """The largest N, predicted by the others."""

    n: float
    measured: float
    predicted: Interval
    model: str

    @property
    def error(self) -> float:
        """Predicted over measured, less one."""
        return self.predicted.median / self.measured - 1

    @property
    def inside(self) -> bool:
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass
class Scaling:
    """Laws fitted to throughput over one axis. Rates are in the unit that came in."""

    points: Points
    laws: list[Law]
    """By Akaike weight, most probable first."""
    chosen: Law
    extra: float
    """Variance of points beyond what their repeats explain (of the log)."""
    doubt: float
    """Probability that repeats alone make points deviate so much; nan where repeats do not tell."""
    r_squared: float
    deviation: float
    """Root mean square of the relative deviations of the points from the chosen law."""
    resamples: int = RESAMPLES

    @cached_property
    def sigma(self) -> Array:
        """Standard error of each point's log median around the law."""
        if self.points.freedom:
            return np.sqrt(self.points.variance + self.extra)
        return np.full(len(self.points.x), math.sqrt(max(self.extra, 1e-12)))

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `sigma`."""
        return self.points.freedom_around(self.extra, len(PARAMETERS[self.chosen.name]))

    def draws(self, law: Law) -> Array:
        """Bootstrap rows of coefficients of a law."""
        key = law.name
        if key not in self._drawn:
            centre = np.log(law.at(self.points.x))
            rows = regression.disturbed(centre, self.sigma, self.freedom, self.resamples)
            self._drawn[key] = solve(law.name, self.points.x, rows, 1 / self.sigma**2)[0]
        return self._drawn[key]

    @cached_property
    def _drawn(self) -> dict[str, Array]:
        return {}

    @cached_property
    def intervals(self) -> dict[str, Interval]:
        """Parameters of the chosen law with 95 % bootstrap intervals."""
        rows = parameters(self.chosen.name, self.draws(self.chosen))
        n = len(self.points.x)
        return {p: interval_of(self.chosen.parameters[p], rows[p], n) for p in self.chosen.parameters}

    def band(self, n: Sequence[float]) -> tuple[Array, Array]:
        """95 % interval of the chosen curve itself at each n."""
        at = np.asarray(n, dtype=np.float64)
        drawn = np.exp(curve(self.chosen.name, self.draws(self.chosen), at))
        low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
        return low, high

    @cached_property
    def grid(self) -> Array:
        """Where knee and peak are looked for: within the range, whole numbers where the axis is one."""
        x = self.points.x
        low, high = float(x[0]), float(x[-1])
        if bool(np.all(x == np.round(x))):
            if high - low <= 4096:
                return np.arange(low, high + 0.5)
            return np.unique(np.concatenate([np.round(np.geomspace(max(low, 1), high, 2000)), x]))
        return np.unique(np.concatenate([np.linspace(low, high, 1000), x]))

    @cached_property
    def peak(self) -> Interval:
        """The highest throughput of the chosen law within the measured range."""
        drawn = np.exp(curve(self.chosen.name, self.draws(self.chosen), self.grid)).max(axis=1)
        return interval_of(float(self.chosen.at(self.grid).max()), drawn, len(self.points.x))

    @cached_property
    def knee(self) -> Interval:
        """The smallest N within the range at which the law reaches 90 % of its peak there."""

        def first(rows: Array) -> Array:
            found: Array = self.grid[np.argmax(rows >= KNEE * rows.max(axis=1, keepdims=True), axis=1)]
            return found

        drawn = first(np.exp(curve(self.chosen.name, self.draws(self.chosen), self.grid)))
        return interval_of(float(first(self.chosen.at(self.grid)[None])[0]), drawn, len(self.points.x))

    @property
    def peak_at(self) -> float:
        """Where the chosen law is highest within the range; the first such N of a level stretch."""
        found = self.chosen.at(self.grid)
        return float(self.grid[int(np.argmax(found >= found.max() * (1 - 1e-9)))])

    @property
    def limit(self) -> float | None:
        """What the law tends to beyond the range: C, l/s, or the peak of the USL; None where it has none."""
        p = self.chosen.parameters
        if "C" in p:
            return p["C"]
        if self.chosen.name == "amdahl" and p["s"] > 0:
            return p["l"] / p["s"]
        if self.chosen.name == "usl" and p["k"] > 0:
            # dX/dN = 0 at N = sqrt((1 - s)/k); Gunther (2007), eq. 5.13.
            at = math.sqrt(max(0.0, 1 - p["s"]) / p["k"])
            return float(self.chosen.at([max(1.0, at)])[0])
        return None

    def predict(self, n: float, repeats: int = 5, confidence: float = 0.95) -> Interval:
        """A new median of `repeats` trials at n: the chosen law's value with a prediction interval.

        The interval is that of the mixture over all plausible laws by their Akaike weights (model averaging,
        Burnham & Anderson 4.3), each with the uncertainty of its parameters, the spread of a new median, and
        how much points deviate beyond their repeats.
        """
        at = np.array([float(n)])
        rows, shares = [], []
        generator = np.random.default_rng(regression.SEED + 1)
        for law in self.laws:
            if law.weight < PLAUSIBLE and law is not self.chosen:
                continue
            found = curve(law.name, self.draws(law), at)[:, 0]
            size = len(found)
            # With one trial a point, its deviation includes its own noise.
            one = self.points.median_variance_at(n, repeats)
            scale = math.sqrt(max(one + self.extra, 1e-12) + self.beyond(n))
            found = found + scale * generator.standard_t(self.freedom, size)
            rows.append(found)
            shares.append(np.full(size, law.weight / size))
        value, share = np.concatenate(rows), np.concatenate(shares)
        order = np.argsort(value)
        total = np.cumsum(share[order]) / share.sum()
        tail = (1 - confidence) / 2
        low, high = (float(np.exp(np.interp(q, total, value[order]))) for q in (tail, 1 - tail))
        point = float(self.chosen.at(at)[0])
        return Interval(point, min(low, point), max(high, point), len(self.points.x), confidence)

    def beyond(self, n: float) -> float:
        """Variance (of the log) that a prediction at n gets because laws are never quite true.

        Within the range the points themselves tell (`extra`). Beyond it only the largest N can, left out and
        predicted: by how much more than its interval explains it was missed, in proportion to the distance on
        a logarithmic scale, from the range's end to n as from the last but one to the last.
        """
        last = float(self.points.x[-1])
        held = self.held_out if n > last else None
        if held is None or held.predicted.low <= 0:
            return 0.0
        sigma = math.log(held.predicted.high / held.predicted.low) / 2 / 1.96
        missed = math.log1p(held.error) ** 2 - sigma**2
        if missed <= 0:
            return 0.0
        step = math.log(n / last) / math.log(last / float(self.points.x[-2]))
        return missed * step**2

    @cached_property
    def held_out(self) -> HeldOut | None:
        """The largest N left out of the fit and predicted by it; None where too few points are left."""
        if len(self.points.x) <= LEAST_POINTS:
            return None
        try:
            fitted = fit_points(self.points.without(len(self.points.x) - 1), self.resamples)
        except Refused:
            return None
        n = float(self.points.x[-1])
        predicted = fitted.predict(n, int(self.points.counts[-1]))
        return HeldOut(n, math.exp(float(self.points.y[-1])), predicted, fitted.chosen.name)

    @property
    def doubtful(self) -> str:
        """Why to distrust the chosen law, empty where there is no reason."""
        if math.isnan(self.doubt) or self.doubt >= DOUBTFUL:
            return ""
        beyond = math.sqrt(self.extra)
        if beyond < 0.02:
            return ""
        return (
            f"points lie {100 * self.deviation:.1f} % off the curve where their repeats allow "
            f"{100 * math.sqrt(float(self.points.variance.mean())):.1f} % ({p_value(self.doubt)}); "
            "intervals are widened by that"
        )


def fit(observations: Mapping[float, Sequence[float]], resamples: int = RESAMPLES) -> Scaling:
    """Fits all laws to throughputs by N and chooses one. Raises `Refused` with the reason."""
    if any(not n > 0 for n in observations):
        raise Refused("the axis has values that are not above 0")
    try:
        found = regression.points(dict(observations))
    except ValueError as error:
        raise Refused(str(error)) from None
    return fit_points(found, resamples)


def fit_points(points: Points, resamples: int = RESAMPLES) -> Scaling:
    """As `fit`, from points."""
    size = len(points.x)
    if size < LEAST_POINTS:
        values = ", ".join(f"{x:g}" for x in points.x)
        raise Refused(f"only {size} different values ({values}); a scaling law needs {LEAST_POINTS}")
    from scipy.special import chdtrc

    known = points.freedom > 0
    variance = np.maximum(points.variance, 1e-8) if known else np.ones(size)

    def every(extra: float) -> dict[str, tuple[Array, float]]:
        found = {}
        for name in NAMES:
            if len(PARAMETERS[name]) >= size:
                continue
            b, total = solve(name, points.x, points.y[None], 1 / (variance + extra))
            if math.isfinite(float(total[0])):
                found[name] = (b[0], float(total[0]))
        return found

    fitted = every(0.0)
    left = {name: size - len(PARAMETERS[name]) for name in fitted}
    closest = min(fitted, key=lambda name: fitted[name][1] / left[name])
    doubt, extra = math.nan, 0.0
    if known:
        doubt = float(chdtrc(left[closest], fitted[closest][1]))
        residuals = points.y - curve(closest, fitted[closest][0][None], points.x)[0]
        extra = regression.between(residuals, variance, left[closest])
        if extra > 0:
            fitted = every(extra)
    explained = doubt >= DOUBTFUL

    def off(name: str) -> float:
        """Root mean square of relative deviations."""
        return float(
            np.sqrt(np.mean(np.expm1(points.y - curve(name, fitted[name][0][None], points.x)[0]) ** 2))
        )

    def by_default(name: str) -> bool:
        """Whether it would be chosen only because few points forbid laws that are closer."""
        far = len(PARAMETERS[name]) == 1 and off(name) > MOST_SIMPLE and not explained
        return far and min(map(off, fitted)) < off(name) / 2

    if by_default("constant"):
        del fitted["constant"]
    # Between "all repeats are observations" (they explain the deviations) and "the points are" (they do not).
    share = points.share_of_repeats(extra)
    n = size + share * (points.observations - size)
    laws = []
    for name, (b, total) in fitted.items():
        k = len(PARAMETERS[name]) + 1
        fitness = total if known else size * math.log(max(total, 1e-18) / size)
        penalty = 2 * k + (2 * k * (k + 1) / (n - k - 1) if n - k - 1 > 0 else math.inf)
        usual = {p: float(v[0]) for p, v in parameters(name, b[None]).items()}
        laws.append(Law(name, b, usual, total, fitness + penalty))
    least = min(law.aicc for law in laws)
    shares = np.array([math.exp(-(law.aicc - least) / 2) for law in laws])
    weighed = [
        Law(law.name, law.coefficients, law.parameters, law.chi_square, law.aicc, float(w))
        for law, w in zip(laws, shares / shares.sum(), strict=True)
    ]
    chosen = _choose(weighed)
    fitted_y = np.log(chosen.at(points.x))
    deviation = off(chosen.name)
    if by_default(chosen.name):
        nearest = min(weighed, key=lambda law: off(law.name))
        raise Refused(
            f"{chosen.title} misses the points by {100 * deviation:.0f} %, {nearest.title} by "
            f"{100 * off(nearest.name):.0f} %, and {size} points are too few to choose; "
            "another value of the axis would do"
        )
    if deviation > MOST_DEVIATION:
        raise Refused(
            f"no law comes near: the best ({chosen.title}) misses the points by {100 * deviation:.0f} %"
        )
    if not known:
        extra = chosen.chi_square / (size - len(chosen.parameters))
    x = np.exp(points.y)
    total_squares = float(((x - x.mean()) ** 2).sum())
    r_squared = 1 - float(((x - np.exp(fitted_y)) ** 2).sum()) / total_squares if total_squares else math.nan
    ordered = sorted(weighed, key=lambda law: (-law.weight, len(law.parameters)))
    return Scaling(points, ordered, chosen, extra, doubt, r_squared, deviation, resamples)


def _choose(laws: Sequence[Law]) -> Law:
    """The lowest AICc, unless a law that it contains is as good."""
    best = min(laws, key=lambda law: law.aicc)
    inner = [law for law in laws if law.name in WITHIN[best.name] and law.aicc <= best.aicc + PRETENDER]
    return min(inner, key=lambda law: (len(law.parameters), law.aicc)) if inner else best
