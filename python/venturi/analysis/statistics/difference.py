"""Whether two handfuls of repeats differ: a moderated t test on logarithms, over all cells of a comparison.

The case is awkward: five repeats against five, skewed, over dozens of cells. A rank or permutation test is
exact but blind: with 5 against 5 its least p is 2 / C(10, 5) = 0.8 %, which no correction over more than six
cells leaves below 5 %. A t test a cell has power, but its spread comes from eight degrees of freedom. What
helps is that all cells were measured by one machine in one run: their spreads are alike, and each cell's may
be drawn towards what is common to all, as far as the cells themselves agree on it. docs/compare.md has the
reasoning, the sources, and what simulations showed.

Is there a gain? Does a parameter matter at all? Tests on logs of throughput, paired.

Pairs are what was measured under the same other conditions: the same repeat of interleaved rounds, or, where
every cell has one trial, the same size or the same other parameters.

Trials that fall into groups: at two speeds, or before and after a change of level.

Where a series changes its level: the largest difference of means on both sides of a cut, with its
permutation test.

The statistic is that of A. Sen and M. S. Srivastava, *On Tests for Detecting Change in Mean*, Annals of
Statistics 3(1), 1975. Its p comes from permutations, which assume no distribution and hold from few points
on: five runs against five that are all slower have p = 2 / C(10, 5) = 0.8 %. Series of benchmarks have been
cut in this way, with the energy distance, by D. Daly et al., *The Use of Change Point Detection to Identify
Software Performance Regressions in a Continuous Integration System*, ICPE 2020; means take n steps for each
permutation where distances take n x n.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

LEAST_REPEATS = 3
"""Good trials a side without which a cell is not judged. One has no spread; two happen to agree too often:
where a machine runs at two speeds, two repeats of one speed look like certainty."""
LEAST_POOLED = 3
"""Cells from which a common spread is learned; from fewer it would be guessed."""
FLOOR = 1e-4
"""Least standard deviation of a logarithm: no host repeats itself better than 1 in 10^4, and equal figures
(rounded ones of an import) are not certainty."""
POWER = 0.8
"""With what probability the smallest detectable difference would have been found."""
LEAST_SHIFT_CELLS = 4
LEAST_SHIFT = 0.005
"""A shift of all cells below half a percent does not matter, however certain."""


@dataclass(frozen=True)
class Difference:
    """Run over base of one cell: the quotient of their geometric means, with its interval."""

    ratio: float
    low: float | None
    high: float | None
    p: float | None
    """Two-sided, of no difference, not corrected; None where too few repeats are there to judge."""
    adjusted: float | None
    """The same, corrected over all cells judged."""
    detectable: float | None
    """The smallest difference |ln ratio| that would have been found in this cell, were it the only one."""
    error: float | None
    """Standard error of ln ratio."""
    df: float | None

    @property
    def judged(self) -> bool:
        return self.p is not None


@dataclass(frozen=True)
class Shift:
    """What all cells have in common: run over base of the cell in the middle."""

    ratio: float
    low: float
    high: float
    p: float
    cells: int


def trigamma_inverse(value: float) -> float:
    """x > 0 with trigamma(x) = value, by Newton's method on 1 / trigamma, which is nearly linear and convex.

    Smyth (2004), Statistical Applications in Genetics and Molecular Biology 3(1), article 3, appendix.
    """
    if value > 1e7:
        return 1.0 / math.sqrt(value)
    if value < 1e-6:
        return 1.0 / value
    from scipy.special import polygamma

    x = 0.5 + 1.0 / value
    for _ in range(50):
        tri = float(polygamma(1, x))
        step = tri * (1.0 - tri / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-8:
            break
    return x


def prior(variances: np.ndarray, freedom: np.ndarray) -> tuple[float, float]:
    """The spread that many have in common: (degrees of freedom it is worth, variance).

    Each variance s2 with d degrees of freedom is taken for a draw of s0^2 x F(d, d0); d0 and s0^2 follow from
    mean and variance of ln s2 (Smyth 2004, section 6.2). d0 is infinite where they spread no more than
    chance has it, and 0 where there are too few of them to say.
    """
    if variances.size < LEAST_POOLED:
        return 0.0, 1.0
    from scipy.special import digamma, polygamma

    level = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    excess = float(level.var(ddof=1) - polygamma(1, freedom / 2).mean())
    if excess <= 1e-9:
        return math.inf, float(np.average(variances, weights=freedom))
    d0 = 2.0 * trigamma_inverse(excess)
    return d0, float(np.exp(level.mean() + digamma(d0 / 2) - math.log(d0 / 2)))


def moderated(variances: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each variance drawn towards the common one, and the degrees of freedom that it is worth then.

    (d0 s0^2 + d s^2) / (d0 + d), Smyth (2004), eq. 3; never worth more than all of them together.
    """
    d0, common = prior(variances, freedom)
    if math.isinf(d0):
        drawn = np.full(variances.shape, common)
    else:
        drawn = (d0 * common + freedom * variances) / (d0 + freedom)
    return drawn, np.minimum(d0 + freedom, freedom.sum()) if d0 else freedom


def adjust(p: Sequence[float]) -> list[float]:
    """p corrected for many cells by Benjamini and Hochberg (1995), JRSS B 57(1).

    Of the cells reported as different at 5 %, 5 % are so by chance on average; and where nothing differs at
    all, the probability that any cell is reported is at most 5 %: what a gate in CI needs.
    """
    order = sorted(range(len(p)), key=lambda i: p[i], reverse=True)
    out, least = [1.0] * len(p), 1.0
    for rank, i in zip(range(len(p), 0, -1), order, strict=True):
        least = min(least, p[i] * len(p) / rank)
        out[i] = least
    return out


def differences(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], confidence: float = 0.95
) -> list[Difference]:
    """Run against base for every cell at once; `pairs` are (base's, run's) positive values of its trials.

    The statistic is the difference of the means of logarithms over its standard error, whose square is
    moderated over all cells. Cells with fewer than `LEAST_REPEATS` values on a side get their ratio and
    nothing else. Raises `ValueError` for an empty side or values that are not positive.
    """
    from scipy.special import stdtr, stdtrit

    for base, run in pairs:
        if not base or not run or min(*base, *run) <= 0 or not all(map(math.isfinite, (*base, *run))):
            raise ValueError("a comparison needs positive values on both sides")
    logs = [(np.log(np.asarray(b, float)), np.log(np.asarray(r, float))) for b, r in pairs]
    shifts = [float(r.mean() - b.mean()) for b, r in logs]
    judged = [i for i, (b, r) in enumerate(logs) if min(b.size, r.size) >= LEAST_REPEATS]
    found = [Difference(math.exp(s), None, None, None, None, None, None, None) for s in shifts]
    if not judged:
        return found
    sizes = np.array([[b.size, r.size] for b, r in (logs[i] for i in judged)], float)
    spreads = np.array([[b.var(ddof=1), r.var(ddof=1)] for b, r in (logs[i] for i in judged)])
    # The variance of the difference is the sum of both sides', as Welch has it: right also where the repeats
    # of one side scatter more. Per repeat it becomes comparable over cells with different numbers of them.
    weights = (1.0 / sizes).sum(axis=1)
    variances = np.maximum((spreads / sizes).sum(axis=1) / weights, FLOOR**2)
    drawn, df = moderated(variances, sizes.sum(axis=1) - 2.0)
    error = np.sqrt(drawn * weights)
    distance = np.array([shifts[i] for i in judged])
    # The t distribution and its inverse; scipy.stats has them too, but takes a second to import.
    p = 2.0 * stdtr(df, -np.abs(distance) / error)
    half = stdtrit(df, (1.0 + confidence) / 2) * error
    # What a lone change must reach to be the first that the correction lets through, 80 % of the time.
    alone = -stdtrit(df, (1.0 - confidence) / 2 / len(judged))
    detectable = (alone + stdtrit(df, POWER)) * error
    for k, (i, corrected) in enumerate(zip(judged, adjust(p.tolist()), strict=True)):
        low, high = math.exp(distance[k] - half[k]), math.exp(distance[k] + half[k])
        found[i] = Difference(
            found[i].ratio, low, high, float(p[k]), corrected,
            float(detectable[k]), float(error[k]), float(df[k]),
        )  # fmt: skip
    return found


Rounds = Sequence[Mapping[int, float]]
"""A cell each: its values by the number of the repeat."""


def shift(base: Rounds, run: Rounds, confidence: float = 0.95) -> Shift | None:
    """What moved all cells alike; None under `LEAST_SHIFT_CELLS` cells.

    The median of ln(run / base) over cells. Its standard error has two parts: how cells scatter about it
    (median: pi/2 x s^2 / m, s from the median absolute deviation), and how much the machine wandered from
    round to round inside each run, all cells together, for a round's state is common to its cells and does
    not average out over them. A state that lasts a whole run does not show inside it: that is what the
    finding must say.
    """
    if len(base) < LEAST_SHIFT_CELLS:
        return None
    from scipy.special import stdtr, stdtrit

    logs = [[{k: math.log(v) for k, v in cell.items()} for cell in side] for side in (base, run)]
    moved = np.array([_mean(r) - _mean(b) for b, r in zip(*logs, strict=True)])
    middle = float(np.median(moved))
    scatter = max(1.4826 * float(np.median(np.abs(moved - middle))), FLOOR)
    square, freedom = math.pi / 2 * scatter**2 / moved.size, float(moved.size - 1)
    rounds = [_rounds(side) for side in logs]
    if all(r.size > 1 for r in rounds):
        square += sum(float(r.var(ddof=1)) / r.size for r in rounds)
        freedom = min(freedom, sum(r.size - 1 for r in rounds))
    error = math.sqrt(square)
    half = float(stdtrit(freedom, (1.0 + confidence) / 2)) * error
    p = 2.0 * float(stdtr(freedom, -abs(middle) / error))
    return Shift(math.exp(middle), math.exp(middle - half), math.exp(middle + half), p, moved.size)


def _mean(values: Mapping[int, float]) -> float:
    return sum(values.values()) / len(values)


def _rounds(cells: Sequence[Mapping[int, float]]) -> Any:
    """Of each round that holds at least half the cells, how far they lay from their means, on average."""
    off: dict[int, list[float]] = {}
    for cell in cells:
        mean = _mean(cell)
        for number, value in cell.items():
            off.setdefault(number, []).append(value - mean)
    return np.array([sum(v) / len(v) for v in off.values() if 2 * len(v) >= len(cells)])


ALPHA = 0.05
LEAST_PAIRS = 3


@dataclass(frozen=True)
class Gain:
    """What one setting gives over another: a ratio less one, with a 95 % interval."""

    change: float
    low: float
    high: float
    p: float
    """Two-sided."""
    pairs: int
    effective: float
    """Pairs that the serial correlation leaves."""

    @property
    def significant(self) -> bool:
        """A gain: above 0 with 97.5 % on that side."""
        return self.low > 0


def test_gain(difference: object) -> Gain:
    """From differences of logs of throughput, a pair each; at least two."""
    from scipy.special import stdtr, stdtrit

    d = np.asarray(difference, dtype=np.float64)
    size, mean = len(d), float(d.mean())
    effective = effective_number(d)
    error = max(float(d.std(ddof=1)), 1e-9) / math.sqrt(effective)
    half = float(stdtrit(effective - 1, 1 - ALPHA / 2)) * error
    p = float(2 * stdtr(effective - 1, -abs(mean / error)))
    return Gain(math.expm1(mean), math.expm1(mean - half), math.expm1(mean + half), p, size, effective)


def effective_number(values: object) -> float:
    """How many independent values these in a row are worth; at least 2. Under 8 they are taken as they are:
    a correlation of so few says nothing."""
    d = np.asarray(values, dtype=np.float64)
    centred = d - d.mean()
    total = float((centred**2).sum())
    if len(d) < 8 or total <= 0:
        return float(len(d))
    r = max(0.0, float((centred[1:] * centred[:-1]).sum()) / total)
    return max(2.0, len(d) * (1 - r) / (1 + r))


@dataclass(frozen=True)
class Effect:
    """Whether a parameter matters, other parameters being equal."""

    levels: tuple[object, ...]
    p: float
    pairs: int
    """Blocks: settings of all others."""
    spread: float
    """Largest over smallest mean level, less one."""
    least: float = 0.0
    """The smallest p that so few blocks can give, however large the effect."""

    @property
    def significant(self) -> bool:
        return self.p < ALPHA

    @property
    def testable(self) -> bool:
        """Whether an effect could have been found at all: without that, none found says nothing."""
        return self.significant or self.least < ALPHA


def effect(blocks: Sequence[Mapping[object, float]], draws: int = 9999) -> Effect | None:
    """Tests whether the levels of a parameter differ, by permuting them within each block.

    A block holds the throughput at each level, all others equal. The statistic is the sum of squares between
    the levels' mean deviations from their block (on logs), its distribution that under random order within
    blocks (Good, Permutation, Parametric and Bootstrap Tests, 3rd ed., ch. 6): no shape of the errors is
    assumed. p counts the observed order too, so it is never 0. None under 2 blocks of 2 levels.
    """
    useful = [{k: math.log(v) for k, v in b.items() if v > 0} for b in blocks]
    useful = [b for b in useful if len(b) > 1]
    levels = tuple(dict.fromkeys(k for b in useful for k in b))
    if len(useful) < 2 or len(levels) < 2:
        return None
    index = {k: i for i, k in enumerate(levels)}
    generator = np.random.default_rng(20191104)
    sums = np.zeros((draws + 1, len(levels)))
    counts = np.zeros(len(levels))
    for block in useful:
        values = np.array(list(block.values()))
        values -= values.mean()
        at = [index[k] for k in block]
        counts[at] += 1
        shuffled = generator.permuted(np.tile(values, (draws, 1)), axis=1)
        sums[:, at] += np.vstack([values, shuffled])
    means = sums / counts
    statistic = (counts * means**2).sum(axis=1)
    p = float((statistic >= statistic[0] * (1 - 1e-12)).mean())
    # Of all orders, those that only rename the levels alike in every block are as extreme as the clearest.
    orders = sum(math.lgamma(len(b) + 1) for b in useful)
    least = min(1.0, math.exp(math.lgamma(len(levels) + 1) - orders))
    return Effect(levels, p, len(useful), float(np.expm1(means[0].max() - means[0].min())), least)


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


def slow_trials(cells: Sequence[Sequence[float]]) -> Speeds | None:
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


LEAST = 3
"""Points on each side of a change: fewer say nothing of a level."""
LEVEL = 0.01
"""Largest p of a change, so about the share of series without one in which one is seen."""
DRAWS, MOST_DRAWS, MOST_NUMBERS = 1000, 20_000, 10_000_000
"""Permutations drawn at a time, and at most: as many more of short series as so many numbers are. That of six
runs against four is p = 0.95 %, and `LEVEL` is 1 %."""
SURE = 4.0
"""Standard errors off `LEVEL` from which on a share is told without more draws."""
SEED = 1
NOTHING = 1e-12
"""Differences that are rounding, as a share of the values."""


@dataclass(frozen=True)
class ChangePoint:
    at: int
    """The first point of the new level."""
    p: float


def change_points(values: Sequence[float], level: float = LEVEL) -> list[ChangePoint]:
    """Where the level of `values` changes, in their order. The same values have the same answer.

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
        part = series[begin:end] - series[begin:end].mean()
        apart = _apart(part[None])[0]
        if apart.max() <= NOTHING * np.abs(series[begin:end]).max():
            continue
        cut = LEAST + int(apart.argmax())
        p = _p(part, float(apart.max()), level, generator)
        if p <= level:
            found.append(ChangePoint(begin + cut, p))
            todo += [(begin, begin + cut), (begin + cut, end)]
    return sorted(found, key=lambda one: one.at)


def _apart(rows: Any) -> Any:
    """By how much the means on both sides of each cut differ, over what they would by chance; a row each,
    whose values sum up to zero."""
    n = rows.shape[1]
    left = np.arange(LEAST, n - LEAST + 1)
    return np.abs(rows.cumsum(axis=1)[:, left - 1]) / np.sqrt(left * (n - left))


def _p(part: Any, best: float, level: float, generator: Any) -> float:
    """The share of permutations with a cut as good, as the first draws tell it where they are clear."""
    as_good = drawn = 0
    while drawn < max(MOST_DRAWS, MOST_NUMBERS // len(part)):
        orders = generator.permuted(np.broadcast_to(part, (DRAWS, len(part))), axis=1)
        # Sums in another order differ in their last bits.
        as_good += int((_apart(orders).max(axis=1) >= best * (1 - 1e-9)).sum())
        drawn += DRAWS
        if abs(as_good - level * drawn) > SURE * math.sqrt(level * drawn):
            break
    return (1 + as_good) / (1 + drawn)
