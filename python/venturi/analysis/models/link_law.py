"""The throughput of one setting over a link: the least of four bounds, each with one number.

With P what full packets of TCP carry of the link (bytes/s), T its round trip (s), and N streams:

    ends     C          what both ends reach
    link     e P        e payload bytes (or rows) per byte that the link carries
    flight   F / T      F payload bytes (or rows) in flight: a window, a buffer, batches that wait for answers
    losses   K e N L    L what one stream reaches by Mathis et al. 1997 (reno) or RFC 9438 (cubic)

If each batch waits for its answer, the times of ends, link and round trip add up instead. A number is the one
that brings the law closest to the links (least sum of |log(measured / law)|, which a disturbed link does not
bend). A bound that limited no measured link keeps what is known of it before, as a range.

A trial of t seconds also pays for TCP's start, a round trip for each doubling from ten packets per stream
(RFC 6928), and for the payload that is on its way when the time is up. Nothing of that is fitted.

What TCP does to a link: how far losses hold a connection back, and what its start costs.

- loss, Reno: rate = MSS / RTT x sqrt(3 / 2) / sqrt(p) (Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior
  of the TCP Congestion Avoidance Algorithm, CCR 27(3), 1997; without delayed ACKs, as Linux counts what they
  acknowledge).
- loss, CUBIC: window = (C (3 + beta) / (4 (1 - beta)))^(1/4) x (RTT / p)^(3/4) packets, C = 0.4, beta = 0.7,
  or Reno's where that is larger (RFC 9438, 5.1 and 4.3).
- start: ten packets in the first round trip (RFC 6928), and twice as many in each that follows (RFC 5681,
  3.1).

BBR keeps to the rate and the round trip that it measures, not to losses, as long as they are some percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from venturi.analysis.statistics.intervals import Interval
from venturi.common.links import WAYS, Link, Way

LOSS_BASED = ("cubic", "reno")
"""Congestion controls that take a loss for a full link."""
FIRST_PACKETS = 10
RENO = math.sqrt(1.5)
"""Packets in flight on average x sqrt(p)."""
_C, _BETA = 0.4, 0.7
CUBIC = (_C * (3 + _BETA) / (4 * (1 - _BETA))) ** 0.25
"""Packets in flight on average x (p / RTT)^(3/4), where that is more than Reno's."""


def loss_bound(control: str, payload: float, round_trip: float, loss: float) -> float:
    """Bytes/s of one connection whose packets carry `payload` bytes and are lost with probability `loss`, at
    a round trip in seconds."""
    window = RENO / math.sqrt(loss)
    if control == "cubic":
        window = max(window, CUBIC * (round_trip / loss) ** 0.75)
    return payload * window / round_trip


def trips_to_fill(full: float, first: float) -> int:
    """Round trips until as many bytes are in flight as a link holds (`full`), from `first` bytes on."""
    return max(0, math.ceil(math.log2(full / first))) if full > first else 0


def started_share(trips: float, full: float, first: float) -> float:
    """Of what a link carries in so many round trips, the part that connections carry which begin with `first`
    bytes in flight, double them, and wait one round trip for the first answer."""
    doubling = trips_to_fill(full, first)
    grown, carried, left = first, 0.0, max(0.0, trips - 1)
    for _ in range(doubling):
        if left < 1:
            break
        carried, grown, left = carried + grown, 2 * grown, left - 1
    return min(1.0, (carried + left * min(grown, full)) / (trips * full)) if trips > 0 else 0.0


BOUNDS = ("ends", "link", "flight", "losses")
LEAST_TRIP = 50e-6
"""Seconds between hosts at one cable."""
ROUNDS = 4
"""Each number is chosen again so often, given the others."""
CLOSER = 0.15
"""A number is fitted if it brings the law closer by this, as a sum of |log|; else a bound limits nothing.
That of the link is always fitted, within what is known of it."""
LIKE = 3
"""So many links that are limited alike have an error of their own."""
LEAST_ERROR = 0.05
"""No prediction is said to be closer, as a logarithm; also an error beside those of links left out, so that
few links cannot look exact."""


@dataclass(frozen=True)
class Path:
    """What counts of a link for data that go one way over it."""

    carried: float
    """bytes/s of TCP's payload in full packets; infinite if the link has no rate."""
    trip: float
    """Seconds."""
    loss: float
    segment: float
    """Payload bytes of a full packet."""


def path(link: Link, way: Way, cross: float = 0.0, rate: float | None = None) -> Path:
    """The path of data that go down to the client or up, if others take `cross` percent of the rate. `rate`:
    bits/s that several loaders share, instead of this link's."""
    i = WAYS.index(way)
    if rate is None:
        rate = math.inf if link.rate is None else link.rate[i]
    carried = rate / 8 * link.payload_part * (1 - cross / 100)
    return Path(carried, max(link.round_trip_ns / 1e9, LEAST_TRIP), link.loss[i], link.packet)


@dataclass(frozen=True)
class Setting:
    """What is known of a setting before its links are compared."""

    streams: int
    per_byte: float
    """Payload bytes (or rows) per byte on the wire, as counted, e."""
    per_byte_factor: float
    """How far e may be off that."""
    flight: float
    """Payload bytes (or rows) in flight over all streams, F; known within a factor of 2."""
    waits: bool
    """Whether a batch waits for the answer to the one before."""
    control: str | None
    """TCP's congestion control, None if unknown."""
    seconds: float | None
    """A trial's time, if that is fixed."""
    amount: float | None
    """What a trial moves, if that is fixed."""
    starts: bool = True
    """Whether trials begin with connections that have not yet carried data."""
    uncounted: float = 0.0
    """Payload on its way when a trial's time is up."""


@dataclass(frozen=True)
class LinkLaw:
    """A fitted law. Rates are in the fitted unit per second."""

    setting: Setting
    paths: tuple[Path, ...]
    """The measured ones."""
    measured: tuple[float, ...]
    """Their medians."""
    numbers: tuple[float, ...]
    """C, e, F, K; infinite if nothing is known of one."""

    def rate(self, at: Path, numbers: Sequence[float] | None = None) -> float:
        """The law's rate over a path, with its own numbers or these."""
        bounds = self.bounds(at, numbers).values()
        return _counted(self.setting, at, self._least(bounds))

    def bounds(self, at: Path, numbers: Sequence[float] | None = None) -> dict[str, float]:
        """Each bound's rate."""
        factors = zip(BOUNDS, numbers or self.numbers, _factors(self.setting, at), strict=True)
        return {name: number * factor for name, number, factor in factors}

    def bound(self, at: Path) -> str:
        """The bound that limits a path."""
        bounds = self.bounds(at)
        return min(BOUNDS, key=lambda name: bounds[name])

    def _least(self, bounds: Iterable[float]) -> float:
        return 1 / sum(1 / one for one in bounds) if self.setting.waits else min(bounds)

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """The bound that limits each measured path."""
        return tuple(map(self.bound, self.paths))

    @cached_property
    def ranges(self) -> list[tuple[float, float]]:
        """Where each number is: that of a bound which limited no link is only known to be above them all."""
        pairs = zip(self.paths, self.measured, strict=True)
        implied = [[_steady(self.setting, at, r) / f for f in _factors(self.setting, at)] for at, r in pairs]
        out = []
        for i, (number, (value, factor)) in enumerate(zip(self.numbers, _prior(self.setting), strict=True)):
            if BOUNDS[i] in self.limits:
                factor, least = 1.0, number
            else:
                least = max(*(one[i] for one in implied), 0.0 if math.isinf(number) else value / factor)
            out.append((min(number, least), number * factor))
        return out

    def open(self, at: Path) -> str:
        """The bound that may limit a path though it limited no measured one; empty if there is none."""
        bounds = self.bounds(at, [low for low, _ in self.ranges])
        name = min(BOUNDS, key=lambda name: bounds[name])
        return "" if name in self.limits else name

    @cached_property
    def misses(self) -> list[tuple[tuple[str, bool], float]]:
        """How each link is limited, and |log(measured / predicted)|, predicted from the other links; without
        those that the others leave open."""
        out = []
        pairs = list(zip(self.paths, self.measured, strict=True))
        for i, (at, rate) in enumerate(pairs):
            others = fit(self.setting, pairs[:i] + pairs[i + 1 :])
            if not others.open(at):
                out.append(((others.bound(at), at.loss > 0), abs(math.log(rate / others.rate(at)))))
        return out

    def predict(self, at: Path) -> Interval:
        """The 95 % interval for a new median over a path: Student's t times the root mean square of what the
        law misses by on links that are left out in turn, those that are limited alike if they are enough;
        more outside of the measured links, and down to what an unseen bound may be."""
        from scipy.special import stdtrit

        like = [miss for kind, miss in self.misses if kind == (self.bound(at), at.loss > 0)]
        misses = like if len(like) >= LIKE else [miss for _, miss in self.misses]
        square = sum(miss**2 for miss in (*misses, LEAST_ERROR)) / (len(misses) + 1)
        error = max(LEAST_ERROR, float(stdtrit(len(misses) + 1, 0.975)) * math.sqrt(square))
        off = math.exp(error * (1 + math.log(self.outside(at))))
        low, high = (self.rate(at, numbers) for numbers in zip(*self.ranges, strict=True))
        return Interval(self.rate(at), low / off, high * off, len(self.paths), 0.95)

    def outside(self, at: Path) -> float:
        """How far outside of the measured links, as a factor; 1 inside."""

        def kinds(one: Path) -> tuple[float, ...]:
            # The last are the bytes that the path itself holds.
            return one.carried, one.trip, one.loss, one.carried * one.trip

        found = 1.0
        for value, *measured in zip(kinds(at), *map(kinds, self.paths), strict=True):
            low, high = min(measured), max(measured)
            if 0 < high < value < math.inf:
                found = max(found, value / high)
            elif 0 < value < low < math.inf:
                found = max(found, low / value)
        return found


def fit(setting: Setting, observed: Sequence[tuple[Path, float]]) -> LinkLaw:
    """From the median over each path."""
    # Rows are bounds, columns paths. Times: that of a bound which is not there is 0.
    times = 1 / np.array([_factors(setting, at) for at, _ in observed]).T
    measured = 1 / np.array([_steady(setting, at, rate) for at, rate in observed])
    known = _prior(setting)
    numbers = np.array([value for value, _ in known])
    join = np.add if setting.waits else np.maximum
    for _ in range(ROUNDS):
        for i, name in enumerate(BOUNDS):
            others = join.reduce(np.delete(times / numbers[:, None], i, axis=0))
            left = measured - others if setting.waits else measured
            with np.errstate(divide="ignore", invalid="ignore"):
                implied = (times[i] / left)[(left > 0) & (times[i] > 0)]
                value, factor = known[i]
                tried = np.array([value, math.inf, *implied])
                if name == "link":
                    # A path that stays under its link is limited by something else.
                    tried = tried.clip(value / factor, value * factor)
                off = np.abs(np.log(join(others, times[i] / tried[:, None]) / measured)).sum(axis=1)
            enough = off <= off.min() + (0 if name == "link" else CLOSER)
            numbers[i] = tried[enough.argmax() if enough[:2].any() else off.argmin()]
    paths, rates = zip(*observed, strict=True)
    return LinkLaw(setting, paths, rates, tuple(map(float, numbers)))


def _prior(setting: Setting) -> tuple[tuple[float, float], ...]:
    """What is known before of each number, and within which factor."""
    return (math.inf, 1.0), (setting.per_byte, setting.per_byte_factor), (setting.flight, 2.0), (1.0, 2.0)


def _factors(setting: Setting, at: Path) -> tuple[float, ...]:
    """Each bound's rate if its number is 1."""
    losses = math.inf
    if at.loss and setting.control in LOSS_BASED:
        one = loss_bound(setting.control, at.segment, at.trip, at.loss)
        losses = setting.per_byte * setting.streams * one
    return 1.0, at.carried, 1 / at.trip, losses


def _counted(setting: Setting, at: Path, full: float) -> float:
    """The rate over a whole trial of connections that come to carry `full`."""
    if not setting.starts or math.isinf(full):
        return full
    first = FIRST_PACKETS * at.segment * setting.streams
    doublings = max(0.0, math.log2(full / setting.per_byte * at.trip / first))
    seconds = setting.seconds if setting.seconds is not None else (setting.amount or math.inf) / full
    return full / (1 + (at.trip * doublings + setting.uncounted / full) / seconds)


def _steady(setting: Setting, at: Path, counted: float) -> float:
    """What connections come to carry that reach `counted` over a whole trial, by bisection."""
    low, high = counted, 1e3 * counted
    for _ in range(50):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _counted(setting, at, middle) < counted else (low, middle)
    return high
