"""A bench's page: three lines that say what, with which result, and how sure; then tables and goals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench import goals
from bench.goals import Judged

_ALL_GOALS, _FEW_GOALS = 20, 4
"""With more goals than the first, the page lists only those that are not met. With no more than the second,
their figures are the result."""


@dataclass(frozen=True)
class Page:
    """What a bench makes of its measurements."""

    title: str
    what: str
    """The question, in one sentence."""
    head: dict[str, Any]
    """The first line of the measurements: machine, commit, load."""
    lines: Sequence[dict[str, Any]]
    body: Sequence[str]
    goals: Sequence[Judged]
    result: str = ""
    """The answer in figures, if the goals alone do not say it."""
    repeats: str = ""
    """How much was measured, for example `7 rounds of 1.5 GB`."""
    failed: Sequence[str] = field(default_factory=list)
    missing: Sequence[str] = field(default_factory=list)
    """What could not be measured here, and why."""

    @property
    def kept(self) -> bool:
        return not self.failed and all(goal.verdict != "missed" for goal in self.goals)

    def markdown(self, spite: str | None = None) -> str:
        """`spite`: why this is a record although it would be refused; it becomes the first line."""
        parts = [f"**{spite}**", ""] if spite else []
        parts += [f"# {self.title}, {self.head['date'][:10]}", "", *self._summary(), "", *self.body]
        shown = [goal for goal in self.goals if goal.verdict != goals.VERDICTS[0]]
        if len(self.goals) <= _ALL_GOALS:
            shown = list(self.goals)
        if shown:
            parts += ["", "## Goals", "", *goals.table(shown)]
            if len(shown) < len(self.goals):
                parts += ["", f"The other {len(self.goals) - len(shown)} goals are met."]
        if self.failed:
            parts += ["", f"Failed: {len(self.failed)}", "", *(f"- {line}" for line in self.failed[:10])]
        if self.missing:
            parts += ["", "Not measured:", "", *(f"- {line}" for line in self.missing)]
        return "\n".join([*parts, ""])

    def _summary(self) -> list[str]:
        counts = Counter(goal.verdict for goal in self.goals)
        counted = ", ".join(f"{counts[verdict]} {verdict}" for verdict in goals.VERDICTS)
        figures = "; ".join(f"{goal.what}: {goal.figure}" for goal in self.goals)
        few = f"{figures}." if figures and len(self.goals) <= _FEW_GOALS else ""
        result = [self.result or few, f"Goals: {counted}." if self.goals else "No goals."]
        if self.failed:
            result.append(f"{len(self.failed)} trials failed.")
        return [
            f"- **What:** {self.what}",
            f"- **Result:** {' '.join(filter(None, result))}",
            f"- **How sure:** {self.repeats + '; ' if self.repeats else ''}{self._machine()}.",
        ]

    def _machine(self) -> str:
        head, words = self.head, []
        words.append(f"load {head['load_before']:.2f} before")
        stolen = [line["steal"] for line in self.lines if "steal" in line]
        if stolen:
            words.append(f"CPU time stolen {100 * float(np.mean(stolen)):.1f} %")
        words.append(f"{head['cpu']}, {head['cpus']} CPUs, Linux {head['kernel']}")
        if "congestion_control" in head:
            words.append(f"TCP with {head['congestion_control']}")
        words.append(f"commit {head['commit']}")
        return "; ".join(words)
