"""What may be said of throughput along an axis: linear up to N, still rising, flat from N, falling; or that
it cannot be told.

A claim needs an effect and an interval: a gain is 5 % or more, and the interval must lie on one side of that.
docs/method.md has the definitions; `bench/models` counts how often a claim is false.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from statistics import fmean, median

import numpy as np

from venturi.analysis.statistics.difference import FLOOR, effective_number, moderated

CONFIDENCE = 0.95
GAIN = 0.05
"""What counts as a gain: of the last step a doubling, of all beyond N altogether."""
LINEAR = 0.8
"""Linear up to N: X(N) is over so much of N times the first point's share."""
REACH = math.sqrt(2.0)
"""How far apart points lie at least that tell whether it rises or is flat: from 7 to 8 streams is no step."""
FOUR_OF_FIVE = 0.8416
"""80 % of a normal distribution lie below so many standard deviations. Without them an interval would keep
off a bound in half of the cases only."""
LEAST_ROUNDS = 3
MOST_ROUNDS = 50
"""More repeats than this are not proposed: something else is wrong with the measurement."""


class Shape(str, Enum):
    """What is claimed of a curve; one of them, and the same wherever it is told."""

    RISING = "rising"
    FALLING = "falling"
    FLAT = "flat"
    FLAT_THROUGHOUT = "flat-throughout"
    UNDECIDED = "undecided"

    @property
    def level(self) -> bool:
        return self in (Shape.FLAT, Shape.FLAT_THROUGHOUT)


@dataclass(frozen=True)
class Change:
    """From one N to another: the ratio of throughputs less one, with its interval; None where rounds are too
    few for one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        text = f"{round(100 * self.value):+d} %"
        if self.low is None or self.high is None:
            return text
        return f"{text} [{round(100 * self.low):+d}..{round(100 * self.high):+d}]"


@dataclass(frozen=True, eq=False)
class Curve:
    """Throughput over N, from rounds in which every N was measured once.

    Each round's own level is taken out, for a machine's state lasts longer than a trial; rounds next to one
    another that are alike count for fewer (`gain.effective_number`). The spread of each N is drawn towards
    what all have in common (`difference.moderated`), then Student's t.
    """

    ns: tuple[float, ...]
    """Rising, at least two."""
    logs: tuple[tuple[float, ...], ...]
    """Logarithms of throughput: a tuple a round, in the order of `ns`."""
    figures: tuple[float, ...]
    """What each N reaches, as it is told: a logarithm too."""
    peak: int
    """The place of the highest: of these figures, or as tables name it, so all sentences name the same."""
    failed: int
    """Rounds beside these that lack an N of `ns` because it failed."""
    repeats: bool
    """Whether the rounds are repeats of the same trials."""

    @classmethod
    def of(
        cls,
        rounds: Sequence[Mapping[float, float]],
        failing: Collection[float] = (),
        repeats: bool = False,
    ) -> Curve | None:
        """From throughputs by N, a mapping a round. Rounds that lack an N are left out. If too few rounds are
        whole, the rarest of the N in `failing` are left out instead: what fails at one N does not silence the
        others. There is no curve without two N or a whole round. Values are above 0.

        `repeats`: the rounds are repeats of the same trials, so each N has the median that tables show, and
        sentences and tables agree. Else rounds have levels of their own, and it is the geometric mean.
        """
        held = [{n: math.log(v) for n, v in one.items() if v > 0} for one in rounds]
        often = Counter(n for one in held for n in one)
        rarest = sorted((n for n in often if n in failing), key=lambda n: often[n])
        found = None
        for left_out in range(len(rarest) + 1):
            ns = tuple(sorted(set(often) - set(rarest[:left_out])))
            whole = tuple(tuple(one[n] for n in ns) for one in held if one.keys() >= set(ns))
            failed = sum(any(n not in one for n in failing if n in ns) for one in held)
            if len(ns) < 2 or not whole:
                continue
            figures = tuple(
                (math.log(median(one[n] for one in rounds if one.get(n, 0) > 0)) for n in ns)
                if repeats
                else map(fmean, zip(*whole, strict=True))
            )
            made = cls(ns, whole, figures, figures.index(max(figures)), failed, repeats)
            if made.bounded:
                return made
            found = found or made
        return found

    @property
    def bounded(self) -> bool:
        """Whether there are rounds enough for intervals: without them nothing is claimed."""
        return len(self.logs) >= LEAST_ROUNDS

    @cached_property
    def _spread(self) -> tuple[np.ndarray, float]:
        """Variance of a repeat at each N (of logarithms), and the degrees of freedom of each."""
        y = np.array(self.logs)
        rounds, size = y.shape
        left = y - y.mean(axis=0) - y.mean(axis=1, keepdims=True) + y.mean()
        freedom = (rounds - 1) * (size - 1) / size
        variances = np.maximum((left**2).sum(axis=0) / freedom, FLOOR**2)
        drawn, df = moderated(variances, np.full(size, freedom))
        return drawn, float(df[0])

    def change(self, start: int, end: int) -> Change:
        """From the N at one place to that at another. The interval is that of the geometric means, and wide
        enough for the change that is told: where medians and means disagree, less is claimed."""
        told = self.figures[end] - self.figures[start]
        if not self.bounded:
            return Change(math.expm1(told))
        error, freedom = self._error(start, end)
        half = _quantile(freedom) * error
        step = fmean(row[end] - row[start] for row in self.logs)
        return Change(
            math.expm1(told), math.expm1(min(told, step - half)), math.expm1(max(told, step + half))
        )

    def _error(self, start: int, end: int) -> tuple[float, float]:
        """Standard error of the logarithm of a change, and its degrees of freedom."""
        variances, each = self._spread
        one, two = float(variances[start]), float(variances[end])
        # Welch and Satterthwaite; never more than all residuals are worth together.
        freedom = min(
            each * (one + two) ** 2 / (one**2 + two**2), float((len(self.logs) - 1) * (len(self.ns) - 1))
        )
        worth = effective_number([row[end] - row[start] for row in self.logs])
        return math.sqrt((one + two) / worth), freedom

    @property
    def rival(self) -> float | None:
        """The N with the highest mean where that is another, and the two cannot be told apart."""
        most = max(range(len(self.ns)), key=lambda i: fmean(row[i] for row in self.logs))
        found = self.change(self.peak, most)
        apart = found.low is not None and found.high is not None and not found.low <= 0 <= found.high
        return None if most == self.peak or apart else self.ns[most]

    @cached_property
    def linear(self) -> float | None:
        """The largest N up to which all surely keep over `LINEAR` of what the first promises; None where the
        second does not."""
        first, last = self.ns[0], None
        for i in range(1, len(self.ns)) if first > 0 else ():
            change = self.change(0, i)
            if change.low is None or (1 + change.low) * first / self.ns[i] <= LINEAR:
                break
            last = self.ns[i]
        return last

    @property
    def before(self) -> int:
        """Where the last step begins: at the largest N that lies `REACH` below the last, else the first."""
        last = self.ns[-1]
        return max((i for i in range(len(self.ns) - 1) if last >= REACH * (1 - 1e-9) * self.ns[i]), default=0)

    @property
    def start(self) -> int:
        """Where the last step is counted from: `before`, or the peak where that lies between."""
        return self.peak if self.before < self.peak < len(self.ns) - 1 else self.before

    def _doublings(self, start: int, end: int) -> float:
        """How often N doubles; once where it begins at 0."""
        return math.log2(self.ns[end] / self.ns[start]) if self.ns[start] > 0 else 1.0

    @cached_property
    def step(self) -> Change:
        """The last step."""
        return self.change(self.start, len(self.ns) - 1)

    @cached_property
    def rising(self) -> bool:
        """Whether the last step surely gains over `GAIN` a doubling, and the last point is the highest."""
        last = len(self.ns) - 1
        if self.peak != last or self.step.low is None:
            return False
        return math.log1p(self.step.low) > math.log1p(GAIN) * self._doublings(self.before, last)

    @cached_property
    def flat(self) -> float | None:
        """The smallest N beyond which everything surely gains under `GAIN`; None where that is not sure, or
        where the last step, of less than a doubling, surely gains more than `GAIN` a doubling."""
        return None if self.rising else self.enough(GAIN)

    def enough(self, gain: float) -> float | None:
        """The smallest N beyond which everything surely gains under `gain`; a doubling, where less than
        `REACH` lies beyond. None where that is not sure of the last step."""
        found, last = None, len(self.ns) - 1
        # From the last step downwards, and no further than the first failure: each claim is tested once.
        for i in range(last - 1, -1, -1):
            bound = gain if i <= self.before else math.expm1(math.log1p(gain) * self._doublings(i, last))
            highs = [self.change(i, j).high for j in range(i + 1, last + 1)]
            if all(high is not None and high < bound for high in highs):
                found = self.ns[i]
            elif i <= self.before:
                break
        return found

    @cached_property
    def rest(self) -> Change | None:
        """The most that is gained beyond where it is flat."""
        return self.beyond(self.flat) if self.flat is not None else None

    def beyond(self, n: float) -> Change:
        """The most that is gained beyond this N, which is not the last."""
        start = self.ns.index(n)
        return max((self.change(start, j) for j in range(start + 1, len(self.ns))), key=lambda c: c.value)

    @cached_property
    def loss(self) -> Change | None:
        """From the peak to the last N, where that surely loses over `GAIN`."""
        if self.peak == len(self.ns) - 1:
            return None
        found = self.change(self.peak, len(self.ns) - 1)
        return found if found.high is not None and found.high < -GAIN else None

    @cached_property
    def shape(self) -> Shape:
        if self.rising:
            return Shape.RISING
        if self.loss is not None:
            return Shape.FALLING
        if self.flat is None:
            return Shape.UNDECIDED
        return Shape.FLAT_THROUGHOUT if self.flat == self.ns[0] else Shape.FLAT

    @property
    def at(self) -> float | None:
        """The N that the claim is about: where it is flat from, else the highest. None where nothing is
        claimed: which of those that cannot be told apart is highest, is chance."""
        if self.shape is Shape.UNDECIDED:
            return None
        return self.flat if self.shape.level else self.ns[self.peak]

    @property
    def scatter(self) -> float | None:
        """By how much repeats at the ends of the last step differ: half their range, of their mean."""
        if len(self.logs) < 2:
            return None
        columns = list(zip(*self.logs, strict=True))
        return max(math.expm1((max(c) - min(c)) / 2) for c in (columns[self.start], columns[-1]))

    @property
    def telling(self) -> int | None:
        """How many repeats would put the last step's interval on one side of what counts as a gain, in four
        of five cases, were change and spread the same. None over `MOST_ROUNDS`."""
        if not self.bounded:
            return None
        last = len(self.ns) - 1
        doublings, gain = self._doublings(self.start, last), math.log1p(GAIN)
        middle, (error, freedom) = math.log1p(self.step.value), self._error(self.start, last)
        flat = gain if self.start <= self.before else gain * doublings
        off = max(flat - middle, middle - gain * doublings)
        rounds = len(self.logs)
        for wanted in range(rounds + 1, MOST_ROUNDS + 1):
            sure = _quantile(freedom * (wanted - 1) / (rounds - 1)) + FOUR_OF_FIVE
            if sure * error * math.sqrt(rounds / wanted) < off:
                return wanted
        return None


def _quantile(freedom: float) -> float:
    """Of Student's t: half the interval, in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
