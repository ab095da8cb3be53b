"""What a proof answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from venturi.analysis.verdict.causes import Cause, Kind, MissingEvidence


@dataclass(frozen=True)
class Diagnosis:
    """A place that was proved narrow. `margin`: 0 on the threshold, 1 as clear as can be."""

    cause: Cause
    end: str | None
    stage: str | None
    margin: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    lacks: tuple[MissingEvidence, ...] = ()
    """What was not measured and could have overturned it."""
    pool: str | None = None
    """The pool of threads that is the place."""

    @property
    def kind(self) -> Kind:
        return self.cause.kind

    @property
    def flagged(self) -> bool:
        """Whether the figure is no measure of the target."""
        return self.kind in ("load-generator", "schedule")


def beyond(value: float, threshold: float, most: float = 1.0) -> float:
    """How far beyond its threshold a figure lies, 0..1."""
    return max(0.0, min(1.0, (value - threshold) / (most - threshold)))


def known(**numbers: float | None) -> dict[str, float]:
    """Those that were measured."""
    return {name: value for name, value in numbers.items() if value is not None}
