"""A verdict, and what it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from venturi.analysis.verdict.evidence import Evidence

__all__ = ["Confidence", "Finding", "Kind", "Verdict"]

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
