"""Sweeps whose truth is known, and how often what is said of them is false: for tests and `bench/models`."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from venturi.analysis.statistics.curve import GAIN, LINEAR, Curve

AXES = ((1, 2, 4), (1, 2, 4, 8), (1, 2, 4, 8, 16), (1, 2, 3, 4, 5, 6, 8), (4, 8, 16, 32))
SHAPES = ("flat", "linear", "saturating", "kneed", "slow", "falling", "two speeds")


@dataclass(frozen=True)
class Sweep:
    shape: str
    ns: tuple[int, ...]
    truth: tuple[float, ...]
    repeats: int
    noise: float
    """Standard deviation of the logarithm of a trial."""
    rounds: tuple[dict[float, float], ...]


@dataclass
class Counted:
    sweeps: int = 0
    false: Counter[str] = field(default_factory=Counter)
    """Sweeps of which something false is said, by shape."""
    said: Counter[str] = field(default_factory=Counter)
    """Claims made, by kind."""
    clear: Counter[str] = field(default_factory=Counter)
    """Sweeps whose last step lies over three margins from what counts as a gain, by what is true of it."""
    missed: Counter[str] = field(default_factory=Counter)
    """Of these, those of which it is not said."""


def draw(generator: np.random.Generator) -> Sweep:
    """One of all shapes, on one of the axes, 3 to 15 repeats with 1 to 40 % of noise; a part is common to a
    round."""
    ns = AXES[generator.integers(len(AXES))]
    shape = str(generator.choice(SHAPES))
    repeats = int(generator.integers(3, 16))
    noise = math.exp(generator.uniform(math.log(0.01), math.log(0.4)))
    truth = _truth(shape, np.array(ns, float), generator)
    off = generator.normal(0.0, noise, (repeats, len(ns)))
    common = generator.normal(0.0, noise * generator.uniform(), (repeats, 1))
    if shape == "two speeds":
        slow = generator.random(off.shape) < generator.uniform(0.1, 0.5)
        off = 0.3 * off - slow * math.log(generator.uniform(1.3, 3.0))
    trials = truth * np.exp(off + common)
    rounds = tuple(dict(zip(map(float, ns), map(float, row), strict=True)) for row in trials)
    return Sweep(shape, ns, tuple(map(float, truth)), repeats, noise, rounds)


def _truth(shape: str, n: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    most = generator.uniform(1.2, 20.0)
    if shape == "flat":
        return np.ones_like(n)
    if shape == "linear":
        return n
    if shape == "saturating":
        return n * most / (n + most)
    if shape == "kneed":
        return np.minimum(n, most)
    if shape == "slow":
        return np.asarray(n ** generator.uniform(0.02, 0.6))
    if shape == "falling":
        serial, crossing = generator.uniform(0.02, 0.3), generator.uniform(0.02, 0.5)
        return np.asarray(n / (1 + serial * (n - 1) * (1 + crossing * n)))
    return _truth(str(generator.choice(SHAPES[:4])), n, generator)


def said(curve: Curve) -> dict[str, float]:
    """What is claimed: kind and place."""
    found = {}
    if curve.linear is not None:
        found["linear"] = curve.linear
    if curve.rising:
        found["rising"] = curve.ns[-1]
    elif curve.loss is not None:
        found["falling"] = curve.ns[curve.peak]
    elif curve.flat is not None:
        found["flat"] = curve.flat
    return found


def true(kind: str, at: float, sweep: Sweep, curve: Curve) -> bool:
    """Whether a claim holds of the truth."""
    ns, truth = sweep.ns, sweep.truth
    place = ns.index(int(at))
    if kind == "linear":
        return all(truth[i] / truth[0] * ns[0] / ns[i] > LINEAR for i in range(place + 1))
    if kind == "rising":
        step = math.log2(ns[-1] / ns[curve.before])
        return math.log(truth[-1] / truth[curve.before]) / step > math.log1p(GAIN)
    if kind == "falling":
        return truth[-1] < truth[place] * (1 - GAIN)
    return all(value < truth[place] * (1 + GAIN) for value in truth[place + 1 :])


def count(sweeps: int, seed: int) -> Counted:
    generator, found = np.random.default_rng(seed), Counted()
    for _ in range(sweeps):
        sweep = draw(generator)
        curve = Curve.of(sweep.rounds, repeats=True)
        assert curve is not None
        claims = said(curve)
        found.sweeps += 1
        found.said.update(list(claims))
        if not all(true(kind, at, sweep, curve) for kind, at in claims.items()):
            found.false[sweep.shape] += 1
        wanted = _clear(sweep, curve)
        if wanted:
            found.clear[wanted] += 1
            found.missed[wanted] += wanted not in claims and not (wanted == "flat" and "falling" in claims)
    return found


def _clear(sweep: Sweep, curve: Curve) -> str | None:
    """What is true of the last step by over three margins of its change (95 %, were the noise known)."""
    if sweep.shape == "two speeds":
        return None
    margin = 1.96 * sweep.noise * math.sqrt(2 / sweep.repeats)
    step = math.log(sweep.truth[-1] / sweep.truth[curve.before])
    bound = math.log1p(GAIN)
    if step - bound * math.log2(sweep.ns[-1] / sweep.ns[curve.before]) > 3 * margin:
        return "rising"
    return "flat" if bound - step > 3 * margin else None
