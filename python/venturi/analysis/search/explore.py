"""Which setting to try next: explore by expected improvement, then confirm what looks best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.statistics.surrogate import Belief, Space, learn

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
        import numpy as np

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
        import numpy as np

        leader = int(known[np.argmax(belief.mean[known])])
        within = belief.mean + 2 * belief.deviation >= belief.mean[leader] - 2 * belief.deviation[leader]
        near = [int(i) for i in known if within[i] and free[i] and self.count(int(i)) < ENOUGH]
        return min(near, key=lambda i: (self.count(i), -belief.mean[i]), default=None)

    def answer(self) -> Answer | None:
        """The best so far; None without a good trial."""
        import numpy as np

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
