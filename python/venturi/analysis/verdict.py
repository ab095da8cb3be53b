"""Verdicts: the narrowest place of each cell, with its numbers, how sure that is, and what to try next.

METHOD's order of proof; `docs/verdicts.md` says what each verdict means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from venturi.analysis.cells import Cell

Kind = Literal[
    "load-generator",
    "cores",
    "stage",
    "link",
    "disk",
    "memory",
    "flow-control",
    "server",
    "schedule",
    "unknown",
]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Evidence:
    """One fact that a verdict rests on: `name` is short and stable, `text` has the numbers."""

    name: str
    text: str


@dataclass(frozen=True)
class Verdict:
    """The narrowest place of one cell. `kind` is stable and meant for scripts, the texts are for people."""

    kind: Kind
    end: str | None
    """`client` or `server`, None where the place is between them or not known."""
    stage: str | None
    """The stage that the verdict names, as docs/format.md calls it."""
    title: str
    """A few words: `both cores`, `server: encode`, `link`."""
    sentence: str
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    next: tuple[str, ...]
    """What to try, each with its command where there is one."""
    flagged: bool
    """Whether the figure is no measure of the target: the load generator, or its schedule, set it."""


@dataclass(frozen=True)
class Finding:
    """What a sweep says as a whole, along one of its axes."""

    title: str
    sentence: str
    evidence: tuple[Evidence, ...]
    next: tuple[str, ...]


def verdicts(cells: Sequence[Cell], environment: Mapping[str, Any]) -> dict[str, Verdict]:
    """The verdict of each cell, by its name."""
    return {cell.name: judge(cell) for cell in cells}


def judge(cell: Cell) -> Verdict:
    """The narrowest place of one cell."""
    return Verdict("unknown", None, None, "unknown", "nothing was judged yet", (), "low", (), False)


def findings(
    cells: Sequence[Cell], verdicts: Mapping[str, Verdict], environment: Mapping[str, Any]
) -> list[Finding]:
    """What the sweep says as a whole."""
    return []
