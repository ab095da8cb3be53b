"""Who searches: Venturi, blind choice, and Optuna's TPE where it is installed. All get the same trials.

A policy is asked for a candidate and told its throughput; at the end it names one. A blind one, and Optuna,
name what was fastest by the mean of what they saw of it.
"""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from venturi.analysis.search.explore import Search

Candidates = Sequence[Mapping[str, Any]]


class Policy(Protocol):
    def ask(self, left: int, offered: Sequence[bool]) -> int | None: ...
    def tell(self, candidate: int, speed: float) -> None: ...
    def answer(self) -> int: ...


class Venturi:
    def __init__(self, candidates: Candidates, names: Sequence[str], seed: int) -> None:
        self.search = Search(candidates, names, seed)

    def ask(self, left: int, offered: Sequence[bool]) -> int | None:
        return self.search.ask(left, offered)

    def tell(self, candidate: int, speed: float) -> None:
        self.search.tell(candidate, speed)

    def answer(self) -> int:
        found = self.search.answer()
        assert found is not None
        return found.best


class _Means:
    """Names the candidate with the highest mean of what was seen, on logarithms."""

    def __init__(self) -> None:
        self.seen: dict[int, list[float]] = {}

    def tell(self, candidate: int, speed: float) -> None:
        self.seen.setdefault(candidate, []).append(math.log(speed))

    def answer(self) -> int:
        return max(self.seen, key=lambda at: sum(self.seen[at]) / len(self.seen[at]))


class Blind(_Means):
    """Every candidate once in random order; again from the start where the trials reach further."""

    def __init__(self, candidates: Candidates, names: Sequence[str], seed: int) -> None:
        super().__init__()
        self.draw = random.Random(seed)
        self.queue: list[int] = []
        self.count = len(candidates)

    def ask(self, left: int, offered: Sequence[bool]) -> int | None:
        for _ in range(2):
            while self.queue:
                if offered[at := self.queue.pop()]:
                    return at
            self.queue = self.draw.sample(range(self.count), self.count)
        return None


class Tpe(_Means):
    """Optuna's tree-structured Parzen estimator with its defaults, over the same axes: numbers as the values
    that occur, in order, so that it knows which are neighbours. What is no cell, or has no repeat left, is
    pruned at no cost."""

    def __init__(self, candidates: Candidates, names: Sequence[str], seed: int) -> None:
        import optuna

        super().__init__()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        self.names = list(names)
        self.values = {n: _ordered([c.get(n) for c in candidates]) for n in names}
        self.index = {tuple(repr(c.get(n)) for n in names): i for i, c in enumerate(candidates)}
        self.pruned = optuna.trial.TrialState.PRUNED
        self.trial: Any = None

    def _point(self, trial: Any) -> int | None:
        chosen = []
        for name, values in self.values.items():
            if all(isinstance(v, int | float) for v in values):
                value = values[trial.suggest_int(name, 0, len(values) - 1)]
            else:
                value = next(
                    v for v in values if repr(v) == trial.suggest_categorical(name, list(map(repr, values)))
                )
            chosen.append(repr(value))
        return self.index.get(tuple(chosen))

    def ask(self, left: int, offered: Sequence[bool]) -> int | None:
        for _ in range(500):
            trial = self.study.ask()
            at = self._point(trial)
            if at is not None and offered[at]:
                self.trial = trial
                return at
            self.study.tell(trial, state=self.pruned)
        return None

    def tell(self, candidate: int, speed: float) -> None:
        super().tell(candidate, speed)
        self.study.tell(self.trial, math.log(speed))


def _ordered(values: Sequence[Any]) -> list[Any]:
    distinct = list({repr(v): v for v in values}.values())
    return sorted(distinct, key=lambda v: (0, v) if isinstance(v, int | float) else (1, 0))


def policies() -> dict[str, Any]:
    """By name; Optuna only where it can be imported. It is no part of the project."""
    found: dict[str, Any] = {"venturi tune": Venturi, "random": Blind}
    if importlib.util.find_spec("optuna") is not None:
        import optuna

        found[f"Optuna {optuna.__version__} TPE"] = Tpe
    return found
