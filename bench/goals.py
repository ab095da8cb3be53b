"""What a bench must reach, and whether it does: met or missed where the whole interval says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

VERDICTS = ("met", "missed", "cannot be told")
HEAD = ["| goal | wanted | found | |", "|---|---|---|---|"]


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % percentile interval of their median."""
    drawn = np.random.default_rng(1).choice(np.array(values), size=(2000, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


@dataclass(frozen=True)
class Judged:
    """A figure with its interval, and its goal: `wanted` or more, or, with `most`, `wanted` or less."""

    what: str
    found: float
    low: float
    high: float
    wanted: float
    most: bool = False
    unit: str = ""

    @property
    def verdict(self) -> str:
        near, far = (self.high, self.low) if self.most else (self.low, self.high)
        sign = -1 if self.most else 1
        if sign * near >= sign * self.wanted:
            return VERDICTS[0]
        return VERDICTS[1] if sign * far < sign * self.wanted else VERDICTS[2]

    @property
    def line(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        found = f"{self.found:.3g}"
        if (self.low, self.high) != (self.found, self.found):
            found += f" [{self.low:.3g}..{self.high:.3g}]"
        word = f"**{self.verdict}**" if self.verdict == "missed" else self.verdict
        sign = "<=" if self.most else ">="
        return f"| {self.what} | {sign} {self.wanted:g}{unit} | {found}{unit} | {word} |"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    what: str, values: Sequence[float], wanted: float, *, most: bool = False, unit: str = ""
) -> list[Judged]:
    """Of repeated measurements: their median and its interval. Of nothing: nothing."""
    if not values:
        return []
    low, high = bootstrap(values)
    return [Judged(what, float(np.median(values)), low, high, wanted, most, unit)]


def exact(what: str, found: float, wanted: float, *, most: bool = False, unit: str = "") -> Judged:
    """Of what was counted once."""
    return Judged(what, found, found, found, wanted, most, unit)


def table(goals: Sequence[Judged]) -> list[str]:
    return [*HEAD, *(goal.line for goal in goals)] if goals else []
