"""Is there a gain? Does a parameter matter at all? Tests on logs of throughput, paired.

Pairs are what was measured under the same other conditions: the same repeat of interleaved rounds, or, where
every cell has one trial, the same size or the same other parameters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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


def tested(difference: object) -> Gain:
    """From differences of logs of throughput, a pair each; at least two."""
    import numpy as np
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
    import numpy as np

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


def effect(
    blocks: Sequence[Mapping[object, float]], seed: int = 20191104, draws: int = 9999
) -> Effect | None:
    """Tests whether the levels of a parameter differ, by permuting them within each block.

    A block holds the throughput at each level, all others equal. The statistic is the sum of squares between
    the levels' mean deviations from their block (on logs), its distribution that under random order within
    blocks (Good, Permutation, Parametric and Bootstrap Tests, 3rd ed., ch. 6): no shape of the errors is
    assumed. p counts the observed order too, so it is never 0. None under 2 blocks of 2 levels.
    """
    import numpy as np

    useful = [{k: math.log(v) for k, v in b.items() if v > 0} for b in blocks]
    useful = [b for b in useful if len(b) > 1]
    levels = tuple(dict.fromkeys(k for b in useful for k in b))
    if len(useful) < 2 or len(levels) < 2:
        return None
    index = {k: i for i, k in enumerate(levels)}
    generator = np.random.default_rng(seed)
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
