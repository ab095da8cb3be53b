"""What a proof answers."""

from __future__ import annotations

from dataclasses import dataclass

from venturi.analysis.verdict.evidence import Evidence


@dataclass(frozen=True)
class Hit:
    """A place that was proved narrow. `margin`: 0 on the threshold, 1 as clear as can be."""

    kind: str
    end: str | None
    stage: str | None
    title: str
    sentence: str
    margin: float
    evidence: tuple[Evidence, ...] = ()
    lacks: tuple[str, ...] = ()
    """What was not measured and could have overturned it."""
    flagged: bool = False


def beyond(value: float, threshold: float, most: float = 1.0) -> float:
    """How far beyond its threshold a figure lies, 0..1."""
    return max(0.0, min(1.0, (value - threshold) / (most - threshold)))
