"""What few trials say of all settings: a Gaussian process over the cells of a sweep, and which to try next.

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

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
        import numpy as np

        columns: list[list[float]] = []
        owner: list[int] = []
        for at, name in enumerate(names):
            values = [c.get(name) for c in candidates]
            if all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in values):
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
        import numpy as np

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
    scales: np.ndarray
    """(names,) how far one must go along an axis for things to change; small ones matter."""
    joint: Callable[[np.ndarray, np.ndarray], np.ndarray]
    """Posterior covariance of the logarithms of these candidates with those: (a,), (b,) -> (a, b)."""

    def improvement(self, incumbent: float) -> np.ndarray:
        """Expected gain of each candidate's logarithm over `incumbent`."""
        import numpy as np
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
        import numpy as np

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
    import numpy as np
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
        scales=np.exp(theta[:names]),
        joint=joint,
    )
