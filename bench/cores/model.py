"""From what one CPU does, and what cores take from one another, to what many do.

X(n) = n / (c (1 + s (n - 1) + k n (n - 1)) + x), in payload a second: c is the CPU time a byte of both ends
on one CPU, x what it takes more, or less, where client and server may have CPUs of their own: a byte crosses
over once, however many CPUs there are. One stream alone tells x, for it shares nothing with another. s and k
are the Universal Scalability Law's (docs/models.md): what cores lose by waiting for one another, and by
telling each other. At n = 2 a batch loses e = c (s + 2 k); two CPUs do not tell s from k, so the range is
from all of it s to all of it k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

USES = {
    "encoder": 1,
    "source": 1,
    "counters of streams": 1,
    "slabs": 1,
    "allocator": 2,
    "stage clock and histogram": 6,
    "stop flag": 1,
}
"""How often a batch of a get uses a part of the hot path, at both ends together."""
CONTROLS = ("one counter for all", "one batch for all, kept by each")
"""What cores do share, for the probe to find."""
ASKED = (1, 2, 8, 32, 128)


@dataclass(frozen=True)
class Lost:
    """What a batch loses to another core that does the same, in ns of CPU: a median and its 95 % interval."""

    ns: float
    low: float
    high: float


def lost(found: Mapping[str, Mapping[int, Sequence[float]]], draws: int = 2000) -> Lost:
    """From ns an operation, by part and threads: the sum over all parts of two threads' less one's."""
    rng = np.random.default_rng(1)
    sums = np.zeros(draws)
    for part, uses in USES.items():
        alone, beside = np.array(found[part][1]), np.array(found[part][2])
        for at in range(draws):
            more = np.median(rng.choice(beside, beside.size)) - np.median(rng.choice(alone, alone.size))
            sums[at] += uses * more
    middle, low, high = np.percentile(sums, [50, 2.5, 97.5])
    return Lost(float(middle), float(low), float(high))


@dataclass(frozen=True)
class Costs:
    """CPU seconds a byte of both ends together."""

    one: float
    """On one CPU."""
    crossing: float
    """More, where the bytes may go from one CPU to another: one stream's on two CPUs less its on one."""
    batches: float
    """Batches a byte."""

    def on_two(self, contended: float) -> float:
        """On two CPUs, where a batch loses so many ns."""
        return self.one + self.crossing + contended * 1e-9 * self.batches

    def throughput(self, cpus: int, contended: float, pairs: bool) -> float:
        """Bytes a second of so many CPUs. `pairs`: what is lost grows with each pair of cores, else with each
        core."""
        grows = cpus * (cpus - 1) / 2 if pairs else cpus - 1
        crossing = self.crossing if cpus > 1 else 0.0
        return cpus / (self.one + crossing + max(0.0, contended) * 1e-9 * self.batches * grows)
