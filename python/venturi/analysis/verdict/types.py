"""A verdict, a finding, a remedy: their reasons and numbers, and the words made of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from venturi.analysis.statistics.curve import GAIN
from venturi.analysis.verdict.causes import Cause, FindingKind, Kind, RemedyKind
from venturi.analysis.verdict.evidence import Evidence

__all__ = [
    "Confidence",
    "Finding",
    "Gain",
    "Kind",
    "ParameterEffect",
    "Remedy",
    "SecondBottleneck",
    "Verdict",
    "VerdictText",
]

UNCERTAIN = 0.1
"""Single repeats of one thing on one machine lie this far apart at times."""
HALF_AS_MUCH = 0.5
"""From this gain on a factor is easier to read than percent."""
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Remedy:
    """Something to try."""

    why: RemedyKind
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the cell, by their names, and their new values."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run, as `repeats`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the server, of a host or of the path, where no flag of the client sets them."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """What its words tell besides."""
    left_out: tuple[str, ...] = ()
    """Parameters that are not said any more."""
    again: bool = False
    """Whether a run shall be repeated although nothing of it changes."""
    before: str | None = None
    """A command that is typed first, on the other host."""
    command: str | None = None
    """The command to type; None where there is none, or where it would be refused."""
    parts: tuple[tuple[str, bool], ...] = ()
    """The remedy in words, each part with whether it is a command."""

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)


@dataclass(frozen=True)
class SecondBottleneck:
    """Another place that is proved narrow: opening one of both alone gains little."""

    kind: Kind
    cause: Cause
    end: str | None
    stage: str | None
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class VerdictText:
    """What is told of a verdict where somebody reads it."""

    lines: tuple[str, ...]
    """What was found, what it means, and what takes from its confidence: a thought each."""
    evidence: tuple[Evidence, ...]
    confidence: Confidence
    remedies: tuple[Remedy, ...]
    """What to try, the most promising first."""


@dataclass(frozen=True)
class Verdict:
    """The narrowest place of one cell. `kind` and `cause` are stable and meant for scripts, the texts are for
    people. A run of thousands of cells shows the texts of few: they are made when they are read."""

    kind: Kind
    cause: Cause
    end: str | None
    """`client` or `server`, None where the place is between them or not known."""
    stage: str | None
    """The stage that the verdict names, as docs/format.md calls it."""
    title: str
    """A few words: `both cores`, `server: encode`, `link`."""
    tell: Callable[[], VerdictText] = field(repr=False, compare=False)
    """Makes `told`, which is kept."""
    flagged: bool
    """Whether the figure is no measure of the target: the load generator, or its schedule, set it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What proves the cause, as docs/verdicts.md names it; base units, shares of 1."""
    also: SecondBottleneck | None = None
    """Another place, as narrow as this one."""

    @cached_property
    def told(self) -> VerdictText:
        return self.tell()

    def __getstate__(self) -> dict[str, Any]:
        """To another process it goes with its texts made: what makes them does not travel."""
        return {**self.__dict__, "told": self.told, "tell": None}

    @property
    def lines(self) -> tuple[str, ...]:
        """As `VerdictText.lines`; the following likewise."""
        return self.told.lines

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.told.evidence

    @property
    def confidence(self) -> Confidence:
        return self.told.confidence

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return self.told.remedies

    def revised(self, revise: Callable[[VerdictText], VerdictText], **fields: Any) -> Verdict:
        """The same with other fields, and with what `revise` makes of what is told of it."""
        return replace(self, tell=lambda: revise(self.told), **fields)

    @property
    def sentence(self) -> str:
        """All lines in one."""
        return "; ".join(self.lines)

    @property
    def next(self) -> tuple[str, ...]:
        """What to try in words, each with its command where there is one."""
        return tuple(remedy.text for remedy in self.remedies)


@dataclass(frozen=True)
class Gain:
    """From one cell to another: the ratio of their medians less one, with what both intervals allow."""

    value: float
    low: float | None
    high: float | None

    @property
    def sure(self) -> bool:
        """Whether the intervals leave no doubt that it counts as a gain; without margins, whether it is over
        a tenth."""
        return self.low > GAIN if self.low is not None else self.value > UNCERTAIN

    @property
    def factor(self) -> str:
        """`5.5 times as fast [5.1..5.8]`, or as a gain where that is less than half as much again."""
        if self.value < HALF_AS_MUCH:
            return f"{self}"
        text = f"{_times(self.value)} times as fast"
        if self.low is None or self.high is None:
            return f"{text} (no margin known)"
        return f"{text} [{_times(self.low)}..{_times(self.high)}]"

    def __str__(self) -> str:
        text = f"{self.value * 100:+.0f} %"
        if self.low is None or self.high is None:
            return f"{text} (no margin known)"
        return f"{text} [{self.low * 100:+.0f}..{self.high * 100:+.0f}]"


def _times(gain: float) -> str:
    factor = 1 + gain
    return f"{factor:.3g}" if factor < 100 else f"{factor:,.0f}"


@dataclass(frozen=True)
class ParameterEffect:
    """What another parameter did to a cell."""

    parameter: str
    before: Any
    after: Any
    gain: Gain

    @property
    def opens(self) -> bool:
        return self.gain.sure


@dataclass(frozen=True)
class Finding:
    """What a sweep says as a whole, along one of its axes."""

    kind: FindingKind
    axis: str
    at: float | None
    """Where on the axis, as `Curve.at`."""
    cause: Cause | None
    """Of the verdict there; None where there is none, or where the axis is an amount."""
    levers: tuple[ParameterEffect, ...]
    """What the other parameters of this sweep did there, the largest gain first."""
    title: str
    lines: tuple[str, ...]
    """What the sweep did, why, and which setting that was measured makes it faster: a thought each."""
    evidence: tuple[Evidence, ...]
    remedies: tuple[Remedy, ...]
    cells: tuple[str, ...] = ()
    """The names of the cells along the axis, in its order."""

    @property
    def sentence(self) -> str:
        """All lines in one."""
        return "; ".join(self.lines)

    @property
    def next(self) -> tuple[str, ...]:
        """What to try in words."""
        return tuple(remedy.text for remedy in self.remedies)
