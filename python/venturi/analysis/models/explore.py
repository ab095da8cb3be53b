"""Which setting to try next: explore by expected improvement, then confirm what looks best.

What few trials say of all settings: a Gaussian process over the cells of a sweep, and which to try next.

Rasmussen & Williams, Gaussian Processes for Machine Learning (2006), ch. 2, 4.2, 5.4; expected improvement:
Jones, Schonlau & Welch (1998), Journal of Global Optimization 13, eq. 15. It works on logarithms of
throughput: settings multiply, and noise is a share of the figure.

Why our own and no library: Optuna's Gaussian process sampler needs torch, its tree-structured Parzen
estimator takes more trials to learn than such a search has in all (docs/tune.md), and with hundreds of
candidates at most the whole of it is one Cholesky factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from venturi.analysis.cells.figures import is_number

JITTER = 1e-9
ROUGH = 0.015
"""Standard deviation of what a cell has to itself, as a logarithm: no surface is as smooth as its kernel.
Without it trials of the neighbours would do for a cell's own."""
TAIL = 4.0
"""Degrees of freedom of a trial's deviation: now and then a trial is disturbed, and one that lies far off is
taken for that, not for the noise of all."""
ROUNDS = 8
"""Of weighting and fitting again, at most: the noise comes down by a third a round."""
LEAST_NOISE = 0.002
"""Standard deviation of a repeat's logarithm, at least: no machine repeats itself better."""


@dataclass(frozen=True)
class Space:
    """Candidates as points. Numbers lie on a logarithmic axis from 0 to 1, words have an axis a value."""

    names: list[str]
    points: np.ndarray
    """(candidates, dimensions)"""
    owner: np.ndarray
    """(dimensions,) which name each dimension belongs to."""

    @classmethod
    def of(cls, candidates: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Space:
        """The space of these parameters; `names` are those that vary."""
        columns: list[list[float]] = []
        owner: list[int] = []
        for at, name in enumerate(names):
            values = [c.get(name) for c in candidates]
            if all(is_number(v) and v > 0 for v in values):
                logs = [math.log(v) for v in values if isinstance(v, int | float)]
                low, span = min(logs), max(logs) - min(logs) or 1.0
                columns.append([(v - low) / span for v in logs])
                owner.append(at)
                continue
            # Every two words are equally far apart.
            for level in dict.fromkeys(map(repr, values)):
                columns.append([math.sqrt(0.5) * (repr(v) == level) for v in values])
                owner.append(at)
        points = np.array(columns, dtype=np.float64).T.reshape(len(candidates), len(columns))
        return cls(list(names), points, np.array(owner, dtype=int))

    def first(self, count: int, seed: int) -> list[int]:
        """Candidates to begin with: one near the middle, then always the one farthest from all before
        (Johnson, Moore & Ylvisaker 1990: maximin distance). Ties by `seed`."""
        generator = np.random.default_rng(seed)
        # Corners of a grid are equally far from all: the seed chooses among what is about as good.
        jitter = 0.1 * generator.random(len(self.points))
        chosen = [int(np.argmin(((self.points - np.median(self.points, axis=0)) ** 2).sum(axis=1) + jitter))]
        distance = np.full(len(self.points), math.inf)
        while len(chosen) < min(count, len(self.points)):
            distance = np.minimum(distance, ((self.points - self.points[chosen[-1]]) ** 2).sum(axis=1))
            chosen.append(int(np.argmax(np.where(distance > 0, distance + jitter, -1.0))))
        return chosen


@dataclass(frozen=True)
class Belief:
    """What is believed of each candidate's log throughput: mean and standard deviation, without noise."""

    mean: np.ndarray
    deviation: np.ndarray
    noise: float
    """Standard deviation of one trial's logarithm."""
    joint: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Posterior covariance of the logarithms of these candidates with those: (a,), (b,) -> (a, b)."""

    def improvement(self, incumbent: float) -> np.ndarray:
        """Expected gain of each candidate's logarithm over `incumbent`."""
        from scipy.special import ndtr

        spread = np.maximum(self.deviation, 1e-12)
        z = (self.mean - incumbent) / spread
        found = spread * (z * ndtr(z) + np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi))
        return np.asarray(np.maximum(found, 0.0))

    def worth(self, tried: np.ndarray, trials: int) -> np.ndarray:
        """By how much the logarithm of what one would name as the best is expected to rise with `trials` more
        of each candidate, those that were `tried` included (Frazier, Powell & Dayanik 2009: the knowledge
        gradient of correlated beliefs, INFORMS Journal on Computing 21; its expectation by quadrature).
        """
        every = np.arange(len(self.mean))
        spread = np.sqrt(self.deviation**2 + self.noise**2 / trials)
        moves = self.joint(every, tried) / spread[:, None]
        own = self.deviation**2 / spread
        nodes, weights = np.polynomial.hermite_e.hermegauss(31)
        found = np.zeros(len(every))
        for node, weight in zip(nodes, weights / weights.sum(), strict=True):
            others = (self.mean[tried] + moves * node).max(axis=1)
            found += weight * np.maximum(others, self.mean + own * node)
        return np.asarray(found - self.mean[tried].max())


def learn(space: Space, tried: Sequence[int], logs: Sequence[float]) -> Belief:
    """Fits the process to trials (candidate, ln throughput) and answers its belief of every candidate.

    A Matérn 5/2 kernel with a length scale a setting, and a deviation of each candidate's own; scales,
    signal, roughness and noise by the largest posterior under wide log-normal priors, which keep a handful
    of trials from certainty. Trials deviate as Student's t.
    """
    from scipy.linalg import cho_factor, cho_solve
    from scipy.optimize import minimize

    x = space.points[list(tried)]
    y = np.asarray(logs, dtype=np.float64)
    centre, width = float(y.mean()), max(float(y.std()), 0.02)
    z = (y - centre) / width
    names = len(space.names)
    # Means and deviations of the logarithms of: scales, signal, roughness, noise.
    centres = np.concatenate([np.full(names, math.log(0.7)), [0.0, math.log(ROUGH / width), math.log(0.05)]])
    widths = np.concatenate([np.full(names, 0.9), [0.7, 0.7, 1.2]])
    floor = math.log(LEAST_NOISE / width)

    weights = np.ones(len(x))

    def squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        # (names, a, b): the squared distance along each setting.
        out = np.zeros((names, len(a), len(b)))
        for dimension, name in enumerate(space.owner):
            out[name] += (a[:, None, dimension] - b[None, :, dimension]) ** 2
        return out

    own = squares(x, x)
    same = np.equal.outer(np.asarray(tried), np.asarray(tried)).astype(float)

    def kernel(parts: np.ndarray, theta: np.ndarray) -> np.ndarray:
        r2 = np.tensordot(np.exp(-2 * theta[:names]), parts, axes=1)
        r = np.sqrt(5.0 * r2)
        return np.asarray(np.exp(2 * theta[names]) * (1 + r + r * r / 3) * np.exp(-r))

    def variance_of_one(theta: np.ndarray) -> float:
        return math.exp(2 * max(float(theta[-1]), floor))

    def noisy(theta: np.ndarray) -> np.ndarray:
        noise = variance_of_one(theta) / weights
        rough = math.exp(2 * float(theta[-2]))
        return np.asarray(kernel(own, theta) + rough * same + np.diag(noise + JITTER))

    def cost(theta: np.ndarray) -> float:
        try:
            factor = cho_factor(noisy(theta), lower=True)
        except np.linalg.LinAlgError:
            return 1e9
        fit = 0.5 * float(z @ cho_solve(factor, z)) + float(np.log(np.diag(factor[0])).sum())
        return fit + 0.5 * float((((theta - centres) / widths) ** 2).sum())

    bounds = [(c - 3 * w, c + 3 * w) for c, w in zip(centres, widths, strict=True)]
    starts = [centres, centres + np.concatenate([np.full(names, -0.7), [0.0, 0.0, 0.0]])]
    found = [minimize(cost, s, method="L-BFGS-B", bounds=bounds, options={"maxiter": 40}) for s in starts]
    theta = min(found, key=lambda f: float(f.fun)).x
    factor = cho_factor(noisy(theta), lower=True)
    for _ in range(ROUNDS):
        # Student's t by expectation and maximisation (Lange, Little & Taylor 1989, JASA 84): each trial's
        # noise is weighted by what it deviates from the belief, plus what that itself is uncertain by.
        noise = variance_of_one(theta) / weights
        off = noise * cho_solve(factor, z)
        held = np.maximum(noise - noise**2 * np.diag(cho_solve(factor, np.eye(len(x)))), 0.0)
        before, weights = weights, (TAIL + 1) / (TAIL + (off**2 + held) / variance_of_one(theta))
        if float(np.abs(weights - before).max()) < 0.05:
            break
        theta = minimize(cost, theta, method="L-BFGS-B", bounds=bounds, options={"maxiter": 8}).x
        factor = cho_factor(noisy(theta), lower=True)
    rough = math.exp(2 * theta[-2])
    every = np.arange(len(space.points))
    cross = kernel(squares(x, space.points), theta) + rough * np.equal.outer(np.asarray(tried), every)
    mean = cross.T @ cho_solve(factor, z)
    variance = math.exp(2 * theta[names]) + rough - np.einsum("ij,ij->j", cross, cho_solve(factor, cross))

    def joint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        prior = kernel(squares(space.points[a], space.points[b]), theta) + rough * np.equal.outer(a, b)
        return np.asarray(width**2 * (prior - cross[:, a].T @ cho_solve(factor, cross[:, b])))

    return Belief(
        mean=centre + width * mean,
        deviation=width * np.sqrt(np.maximum(variance, 0.0)),
        noise=width * math.exp(max(float(theta[-1]), floor)),
        joint=joint,
    )


WORTH = 0.005
"""An expected gain under half a percent is not worth a trial of its own: repeats scatter by more."""
CONFIRM = 6
"""One trial in six is kept for repeating the front-runners, so that the answer is not one lucky trial."""
ENOUGH = 3
"""Trials of a front-runner after which it is confirmed."""
SURE = 0.0005
"""Where everything else is done, trials go on as long as `ENOUGH` of one are expected to better the answer by
this: settings that repeats do not tell apart are worth no more of them."""
LEAST = 3


@dataclass(frozen=True)
class Answer:
    """What a search has found so far."""

    best: int
    """The candidate with the highest believed throughput among those tried."""
    mean: float
    """Its believed ln throughput."""
    low: float
    high: float
    """95 % of it."""
    trial_low: float
    trial_high: float
    """Where another trial of it would lie, in 95 %: repeats scatter round what is believed."""
    headroom: float
    """By how much another candidate might still be faster, as a share: the largest 95 % bound of all others
    over the best's mean; 0 where none might."""
    tried: int


class Search:
    """Asks for trials of candidates and is told their throughput; everything that it knows comes from `tell`,
    so a search is gone on with by telling it what is on disk."""

    def __init__(self, candidates: Sequence[Mapping[str, Any]], names: Sequence[str], seed: int = 1) -> None:
        """`names`: the parameters that vary; `seed` chooses among first trials that are as good."""
        if len(candidates) < 2:
            raise ValueError("a search needs at least two settings")
        self.space = Space.of(candidates, names)
        self._first = self.space.first(max(LEAST, len(names) + 1), seed)
        self._trials: list[tuple[int, float]] = []
        self._failed: dict[int, int] = {}
        self._belief: Belief | None = None

    def tell(self, candidate: int, bytes_per_second: float | None) -> None:
        """A trial's outcome; None for one that failed. A candidate that failed twice is not asked
        for again."""
        if bytes_per_second is None or bytes_per_second <= 0:
            self._failed[candidate] = self._failed.get(candidate, 0) + 1
        else:
            self._trials.append((candidate, math.log(bytes_per_second)))
        self._belief = None

    @property
    def trials(self) -> int:
        """Trials told, failed ones included."""
        return len(self._trials) + sum(self._failed.values())

    @property
    def last(self) -> tuple[int, float] | None:
        """The last good trial: candidate and throughput."""
        return (self._trials[-1][0], math.exp(self._trials[-1][1])) if self._trials else None

    def count(self, candidate: int) -> int:
        """Good trials of a candidate."""
        return sum(at == candidate for at, _ in self._trials)

    @property
    def belief(self) -> Belief | None:
        """What is believed of all candidates; None before two good trials."""
        if self._belief is None and len(self._trials) > 1:
            self._belief = learn(self.space, [at for at, _ in self._trials], [v for _, v in self._trials])
        return self._belief

    def ask(self, left: int | None = None, offered: Sequence[bool] | None = None) -> int | None:
        """The candidate to try next; None where nothing is left that is worth a trial.

        `left`: trials of the budget. `offered`: which candidates can be tried (a recorded run has only
        so many repeats); all by default.
        """
        count = len(self.space.points)
        free = np.ones(count, bool) if offered is None else np.asarray(offered, bool).copy()
        free &= np.array([self._failed.get(i, 0) < 2 for i in range(count)])
        done = {at for at, _ in self._trials} | set(self._failed)
        for candidate in self._first:
            if candidate not in done and free[candidate]:
                return candidate
        belief = self.belief
        if belief is None:
            return next((i for i in range(count) if free[i] and i not in done), None)
        known = np.array(sorted({at for at, _ in self._trials}))
        gain = belief.improvement(float(belief.mean[known].max()))
        gain[known] = 0.0
        gain[~free] = 0.0
        confirming = self._front_runner(belief, known, free)
        # The last trials are for confirming; so is any trial where no other candidate promises a gain.
        reserve = max(1, (self.trials + left) // CONFIRM) if left is not None else 0
        if confirming is not None and left is not None and left <= reserve:
            return confirming
        if float(gain.max()) >= WORTH:
            return int(gain.argmax())
        if confirming is not None:
            return confirming
        worth = belief.worth(known, ENOUGH)
        worth[~free] = 0.0
        return int(worth.argmax()) if float(worth.max()) >= SURE else None

    def _front_runner(self, belief: Belief, known: Any, free: Any) -> int | None:
        """Of those that may be the best, the one with the fewest trials, if it has too few; else None."""
        leader = int(known[np.argmax(belief.mean[known])])
        within = belief.mean + 2 * belief.deviation >= belief.mean[leader] - 2 * belief.deviation[leader]
        near = [int(i) for i in known if within[i] and free[i] and self.count(int(i)) < ENOUGH]
        return min(near, key=lambda i: (self.count(i), -belief.mean[i]), default=None)

    def answer(self) -> Answer | None:
        """The best so far; None without a good trial."""
        if not self._trials:
            return None
        belief = self.belief
        if belief is None:
            at, value = self._trials[0]
            return Answer(at, value, value, value, -math.inf, math.inf, math.inf, 1)
        known = np.array(sorted({at for at, _ in self._trials}))
        best = int(known[np.argmax(belief.mean[known])])
        mean, half = float(belief.mean[best]), 1.96 * float(belief.deviation[best])
        # As far as its own trials lie off, where that is more than all trials let expect.
        off = max(abs(value - mean) for at, value in self._trials if at == best)
        scatter = max(math.hypot(half, 1.96 * belief.noise), off)
        bound = belief.mean + 1.96 * belief.deviation
        bound[best] = -math.inf
        for candidate in self._failed:
            bound[candidate] = -math.inf
        ahead = max(0.0, math.expm1(float(bound.max()) - mean))
        within = (mean - half, mean + half, mean - scatter, mean + scatter)
        return Answer(best, mean, *within, ahead, len(known))

    def effects(
        self, candidates: Sequence[Mapping[str, Any]]
    ) -> dict[str, list[tuple[Any, float, float, bool]]]:
        """For each setting, its values with all others as in the best: (value, share of the best, half width
        of 95 %, tried). Values that no candidate has in that company are left out."""
        found, belief = self.answer(), self.belief
        if found is None or belief is None:
            return {}
        names = self.space.names
        best = candidates[found.best]
        tried = {at for at, _ in self._trials}
        out: dict[str, list[tuple[Any, float, float, bool]]] = {}
        for name in names:
            rows = [
                (
                    c.get(name),
                    math.exp(float(belief.mean[i]) - found.mean),
                    1.96 * float(belief.deviation[i]),
                    i in tried,
                )
                for i, c in enumerate(candidates)
                if all(c.get(other) == best.get(other) for other in names if other != name)
            ]
            out[name] = sorted(rows, key=lambda r: (0, r[0]) if isinstance(r[0], int | float) else (1, 0))
        return out
