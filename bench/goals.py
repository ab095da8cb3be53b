"""What a bench must reach, and whether it does: met or missed if the whole 95 % interval is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from venturi.analysis.statistics.intervals import median_interval

VERDICTS = ("met", "missed", "inconclusive")
HEAD = ["| goal | wanted | found | |", "|---|---|---|---|"]
CONFIDENCE = 0.95


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
    coverage: float = 1.0
    """Probability that the interval holds the true figure: less than 95 % with under six repeats."""

    @property
    def verdict(self) -> str:
        near, far = (self.high, self.low) if self.most else (self.low, self.high)
        sign = -1 if self.most else 1
        if self.coverage < CONFIDENCE:
            return VERDICTS[2]
        if sign * near >= sign * self.wanted:
            return VERDICTS[0]
        return VERDICTS[1] if sign * far < sign * self.wanted else VERDICTS[2]

    @property
    def figure(self) -> str:
        interval = f" [{self.low:.3g}..{self.high:.3g}]" if self.low != self.high else ""
        return f"{self.found:.3g}{interval}" + (f" {self.unit}" if self.unit else "")

    @property
    def line(self) -> str:
        unit = f" {self.unit}" if self.unit else ""
        word = f"**{self.verdict}**" if self.verdict == VERDICTS[1] else self.verdict
        if self.coverage < CONFIDENCE:
            word += f": too few repeats ({self.coverage:.0%})"
        sign = "<=" if self.most else ">="
        return f"| {self.what} | {sign} {self.wanted:g}{unit} | {self.figure} | {word} |"

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(
    what: str, values: Sequence[float], wanted: float, *, most: bool = False, unit: str = ""
) -> list[Judged]:
    """Judges the median of repeated measurements; empty if there are none."""
    if not values:
        return []
    found = median_interval(list(values))
    return [Judged(what, found.median, found.low, found.high, wanted, most, unit, found.coverage)]


def share(what: str, count: int, whole: int, wanted: float, *, most: bool = False) -> list[Judged]:
    """Judges a share that was sampled, with Wilson's interval (1927); empty if there are no samples."""
    if not whole:
        return []
    found, z = count / whole, NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    weight = z * z / whole
    middle = (found + weight / 2) / (1 + weight)
    half = math.sqrt(weight * (found * (1 - found) + weight / 4)) / (1 + weight)
    return [Judged(what, found, middle - half, middle + half, wanted, most)]


def exact(what: str, found: float, wanted: float, *, most: bool = False, unit: str = "") -> Judged:
    """Judges a figure without an interval: the same each time, or the largest of all repeats."""
    return Judged(what, found, found, found, wanted, most, unit)


def table(goals: Sequence[Judged]) -> list[str]:
    return [*HEAD, *(goal.line for goal in goals)] if goals else []
