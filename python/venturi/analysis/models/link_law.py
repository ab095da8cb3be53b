"""What one setting does over a link, by what bounds it: a smooth minimum of few named bounds.

With P what full packets of TCP carry of the link (bytes/s), T its round trip (s), p the part of packets lost:

    ends     C                      cores of both ends: what nothing but they bound
    link     e P                    e payload (or rows) to a byte of the link's packets
    flight   F / T                  F payload in flight at most: windows, buffers, batches that wait
    losses   K s N / T / sqrt(p)    Mathis et al. 1997, of N streams with packets of s bytes; CUBIC: RFC 9438
             K s N / T / p^a        others: a as measured
    X = (sum of bound^-m)^(-1/m)      m = 1: times add up, as where each batch waits for its answer
    start    X / (1 + (g T r + u / X) / t)
             of t s TCP's start takes r round trips, from f packets of each stream doubled each time; u of
             the payload, half a batch of each stream but one, is on its way when the time is up

All that is known before stands in priors (`_priors`): of a window its size, of a link that packets are full.
What the links have not shown stays as open as its prior is, and the interval of a prediction that stands on
it is as wide. Parameters are sampled (`statistics.ensemble`), for of a bound that was not reached it is only
known that it lies above. Deviations are of Student's t with 4 degrees of freedom: one disturbed cell bends
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from venturi.analysis.models import tcp
from venturi.analysis.statistics import ensemble, regression
from venturi.analysis.statistics.intervals import Interval
from venturi.common.links import WAYS, Link, Way

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["BOUNDS", "LinkLaw", "Path", "Setting", "fit", "path"]

BOUNDS = ("ends", "link", "flight", "losses")
START = "start"
FIRST_PRIOR = 20
"""f before it is known better: TCP begins with 10 packets (RFC 6928), and a call was made before."""
LEAST_TRIP = 50e-6
"""s: of hosts at one cable."""
UNSEEN = 8.0
"""As far off is a link that has what no measured one has, losses for one: there is no factor from none."""
TAIL = 4.0
"""Degrees of freedom of the deviations."""
_NAMES = (*BOUNDS, "power", "sharp", START, "first", "scatter")


@dataclass(frozen=True)
class Path:
    """What of a link counts for data that go one way over it."""

    carried: float
    """bytes/s of TCP's payload in full packets; infinite where the link has no rate."""
    trip: float
    """s."""
    loss: float
    segment: float
    """Payload bytes of a full packet."""


def path(link: Link, way: Way, cross: float = 0.0, rate: float | None = None) -> Path:
    """Of data that go down to the client or up, where others take `cross` percent of the rate. `rate`: bits/s
    where they are not this link's alone, but those of several loaders together."""
    i = WAYS.index(way)
    if rate is None:
        rate = math.inf if link.rate is None else link.rate[i]
    carried = rate / 8 * link.payload_part * (1 - cross / 100)
    return Path(carried, max(link.round_trip_ns / 1e9, LEAST_TRIP), link.loss[i], link.packet)


@dataclass(frozen=True)
class Setting:
    """What is known of a setting before its links are looked at."""

    streams: int
    per_byte: float
    """Payload bytes (or rows) to a byte on the wire, as counted."""
    per_byte_sure: float
    """Standard deviation of its logarithm."""
    flight: float
    """Payload (or rows) that is in flight at most, over all streams; as sure as `flight_sure`."""
    flight_sure: float
    sharp: float
    """m, and how sure its logarithm is."""
    sharp_sure: float
    control: str | None
    """TCP's congestion control, None where that is not known."""
    seconds: float | None
    """A trial's time, where that is fixed."""
    amount: float | None
    """What a trial moves, where that is."""
    starts: bool = True
    """Whether trials begin with connections that have not yet carried data."""
    uncounted: float = 0.0
    """Payload on its way when a trial's time is up."""


@dataclass(frozen=True)
class LinkLaw:
    """A fitted law. Rates are in what was fitted, per second."""

    setting: Setting
    paths: tuple[Path, ...]
    """Those that were measured."""
    measured: tuple[float, ...]
    """Their medians."""
    draws: Array
    """Sampled parameters, a row each, as `_NAMES`."""
    spread: float
    """Standard deviation of the logarithm of a trial."""

    def rates(self, at: Path) -> Array:
        """Of each draw."""
        import numpy as np

        return np.asarray(np.exp(_logs(self.draws, _Columns.of([at]), self.setting))[:, 0])

    def along(self, paths: Sequence[Path]) -> list[float]:
        """The rate over each: the median of the draws."""
        import numpy as np

        logs = np.median(_logs(self.draws, _Columns.of(paths), self.setting), axis=0)
        return [float(value) for value in np.exp(logs)]

    def band(self, at: Path) -> Interval:
        """The law's own 95 %: as sure as its parameters are."""
        import numpy as np

        low, median, high = np.quantile(self.rates(at), (0.025, 0.5, 0.975))
        return Interval(float(median), float(low), float(high), len(self.paths), 0.95)

    def predict(self, at: Path, repeats: int) -> Interval:
        """The 95 % prediction interval for the median of so many new trials over this path."""
        import numpy as np

        generator = np.random.default_rng(ensemble.SEED)
        logs = np.log(self.rates(at))
        # No law is quite true, and the less the further off.
        far = max(self.outside(at), UNSEEN if self.unseen(at) else 1.0)
        scatter = np.exp(self.draws[:, -1]) * (1 + math.log(far))
        deviation = np.sqrt(scatter**2 + self.spread**2 * regression.median_variance(repeats))
        new = logs + deviation * generator.standard_t(TAIL, len(logs))
        low, high = np.exp(np.quantile(new, (0.025, 0.975)))
        return Interval(float(np.exp(np.median(logs))), float(low), float(high), len(self.paths), 0.95)

    def unseen(self, at: Path) -> str:
        """What this path has that no measured one has; empty where that is nothing."""
        rates = [math.isfinite(one.carried) for one in self.paths]
        if at.loss and not any(one.loss for one in self.paths):
            return "no measured link loses packets"
        if math.isfinite(at.carried) and not any(rates):
            return "no measured link has a rate"
        return "every measured link has a rate" if math.isinf(at.carried) and all(rates) else ""

    def outside(self, at: Path) -> float:
        """How far outside of what was measured, as a factor; 1 inside. Where there is no factor, see
        `unseen`."""
        found = [1.0]
        kinds: list[Callable[[Path], float]] = [
            lambda one: one.carried,
            lambda one: one.trip,
            lambda one: one.loss,
            # What the path itself holds.
            lambda one: one.carried * one.trip,
        ]
        for kind in kinds:
            values = list(map(kind, self.paths))
            low, value, high = min(values), kind(at), max(values)
            if high < value < math.inf and high:
                found.append(value / high)
            elif 0 < value < low < math.inf:
                found.append(low / value)
        return max(found)

    def shares(self, at: Path) -> dict[str, float]:
        """What part each bound has in the rate; they add up to 1. And of TCP's start: what part of the rate
        it takes away."""
        import numpy as np

        columns = _Columns.of([at])
        bounds = _bounds(self.draws, columns, self.setting)[:, :, 0]
        sharp = np.exp(self.draws[:, _NAMES.index("sharp")])[None]
        each = np.exp(-sharp * (bounds - bounds.min(axis=0)))
        found = (each / each.sum(axis=0)).mean(axis=1)
        taken = 1 - np.exp(
            -_started(self.draws, _smooth(self.draws, columns, self.setting), columns, self.setting)
        )
        return dict(zip(BOUNDS, map(float, found), strict=True)) | {START: float(np.median(taken))}

    def bound(self, at: Path) -> str:
        """The one that counts most."""
        shares = self.shares(at)
        return max(BOUNDS, key=lambda name: shares[name])

    @cached_property
    def seen(self) -> frozenset[str]:
        """The bounds that some measured link was at."""
        return frozenset(self.bound(one) for one in self.paths)

    def knee(self, at: Path) -> Interval:
        """The round trip (s) from which on F / T is less than what ends and link carry."""
        import numpy as np

        ends, each, flight = (self.draws[:, _NAMES.index(name)] for name in ("ends", "link", "flight"))
        other = np.minimum(ends, each + math.log(at.carried)) if math.isfinite(at.carried) else ends
        low, median, high = np.exp(np.quantile(flight - other, (0.025, 0.5, 0.975)))
        return Interval(float(median), float(low), float(high), len(self.paths), 0.95)

    def parameter(self, name: str) -> Interval:
        """Of a bound its C, e, F (in units of the rate, without `per second` of F) or K; of `start` its g."""
        import numpy as np

        low, median, high = np.exp(np.quantile(self.draws[:, _NAMES.index(name)], (0.025, 0.5, 0.975)))
        return Interval(float(median), float(low), float(high), len(self.paths), 0.95)


def fit(setting: Setting, observed: Sequence[tuple[Path, Sequence[float]]]) -> LinkLaw:
    """From the rates of the trials over each path. Raises ValueError for rates that are not positive."""
    import numpy as np

    found = regression.points({float(i): rates for i, (_, rates) in enumerate(observed)})
    paths = tuple(one for one, _ in observed)
    columns, y = _Columns.of(paths), found.y
    variance = found.variance if found.freedom else np.full(len(y), 0.02**2)
    centre, spread = _priors(setting, float(y.max()))

    def density(theta: Array) -> Array:
        width = np.exp(2 * theta[:, -1:]) + variance
        residual = y - _logs(theta, columns, setting)
        likely = -(TAIL + 1) / 2 * np.log1p(residual**2 / (TAIL * width)) - np.log(width) / 2
        prior = -(((theta - centre) / spread) ** 2).sum(axis=1) / 2
        found: Array = likely.sum(axis=1) + prior
        return found if np.isfinite(found).all() else np.nan_to_num(found, nan=-np.inf)

    draws = ensemble.sample(density, centre, spread)
    one = float(np.sqrt(np.mean(found.spread**2))) if found.freedom else 0.02
    return LinkLaw(setting, paths, tuple(map(float, np.exp(y))), draws, one)


def _priors(setting: Setting, top: float) -> tuple[Array, Array]:
    """Centre and standard deviation of the parameters, of logarithms but for `power`; as `_NAMES`."""
    import numpy as np

    known = setting.control in tcp.LOSS_BASED
    found: Mapping[str, tuple[float, float]] = {
        # The fastest that was seen is the least that it is; no more is known.
        "ends": (top + 0.5, 1.0),
        "link": (math.log(setting.per_byte), setting.per_byte_sure),
        "flight": (math.log(setting.flight), setting.flight_sure),
        # bbr hardly minds what loses others half of their rate.
        "losses": (0.0, 0.4) if known else (2.0, 1.5),
        "power": (0.9, 0.2),
        "sharp": (math.log(setting.sharp), setting.sharp_sure),
        START: (0.0, 0.5),
        "first": (math.log(FIRST_PRIOR), 0.8),
        "scatter": (math.log(0.03), 0.6),
    }
    pairs = np.array([found[name] for name in _NAMES])
    return pairs[:, 0], pairs[:, 1]


@dataclass(frozen=True)
class _Columns:
    """Paths as arrays: logarithms, and the round trips."""

    carried: Array
    trip: Array
    loss: Array
    segment: Array

    @classmethod
    def of(cls, paths: Sequence[Path]) -> _Columns:
        import numpy as np

        with np.errstate(divide="ignore"):
            return cls(*(np.log([getattr(one, name) for one in paths]) for name in cls.__dataclass_fields__))


def _bounds(theta: Array, at: _Columns, setting: Setting) -> Array:
    """Logarithms, by bound, draw and path."""
    import numpy as np

    def column(name: str) -> Array:
        return theta[:, _NAMES.index(name), None]

    link = column("link")
    # Thousands of calls have a few dozen rows each: one array for all bounds costs less than four.
    bounds = np.empty((len(BOUNDS), len(theta), len(at.trip)))
    bounds[0] = column("ends")
    np.add(link, at.carried, out=bounds[1])
    np.subtract(column("flight"), at.trip, out=bounds[2])
    packets = column("losses") + link + at.segment + math.log(setting.streams) - at.trip
    reno = math.log(tcp.RENO) - 0.5 * at.loss
    if setting.control == "reno":
        np.add(packets, reno, out=bounds[3])
    elif setting.control == "cubic":
        cubic = np.maximum(reno, math.log(tcp.CUBIC) + 0.75 * (at.trip - at.loss))
        np.add(packets, cubic, out=bounds[3])
    else:
        # Of none lost the logarithm is -inf.
        np.subtract(packets, np.maximum(column("power"), 0.1) * at.loss, out=bounds[3])
    return bounds


def _smooth(theta: Array, at: _Columns, setting: Setting) -> Array:
    """The smooth minimum of the bounds."""
    import numpy as np

    bounds = _bounds(theta, at, setting)
    sharp = np.exp(theta[:, _NAMES.index("sharp"), None])
    least = bounds.min(axis=0)
    out: Array = least - np.log(np.exp(-sharp * (bounds - least)).sum(axis=0)) / sharp
    return out


def _started(theta: Array, rate: Array, at: _Columns, setting: Setting) -> Array:
    """What TCP's start takes off the logarithm of a rate."""
    import numpy as np

    if not setting.starts:
        return np.zeros_like(rate)
    trip = np.exp(at.trip)
    wire = rate - theta[:, _NAMES.index("link"), None]
    # A rate is that of all streams, f that of one.
    first = at.segment + theta[:, _NAMES.index("first"), None] + math.log(setting.streams)
    rounds = np.maximum(0.0, wire + at.trip - first) / math.log(2)
    spent = np.exp(theta[:, _NAMES.index(START), None]) * trip * rounds + setting.uncounted / np.exp(rate)
    whole = setting.seconds if setting.seconds is not None else (setting.amount or 1.0) / np.exp(rate)
    out: Array = np.log1p(spent / whole)
    return out


def _logs(theta: Array, at: _Columns, setting: Setting) -> Array:
    rate = _smooth(theta, at, setting)
    out: Array = rate - _started(theta, rate, at, setting)
    return out
