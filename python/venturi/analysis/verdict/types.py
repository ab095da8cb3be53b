"""What a verdict is made of: evidence, diagnosis and remedies, and what a sweep says as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, Literal

from venturi.analysis.statistics.curve import GAIN

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
UNCERTAIN = 0.1
"""Single repeats of one thing on one machine lie this far apart at times."""
HALF_AS_MUCH = 0.5
"""From this gain on a factor is easier to read than percent."""


class MissingEvidence(str, Enum):
    """What was not measured and could have overturned a verdict, in words."""

    BOTH_STAGES = "the stages of both ends"
    CLIENT_STAGES = "the client's stages"
    SERVER_STAGES = "the server's stages"
    RECEIVER_STAGES = "the receiver's stages"
    CLIENT_HOST = "whether the client's host had a core to spare"
    SERVER_HOST = "whether the server's host had a core to spare"
    CLIENT_CPU = "the CPU time of the client"
    SERVER_CPU = "the server's CPU"
    ROUND_TRIP = "the round trip"
    RAW_TCP = "raw TCP over the same path"

    def __str__(self) -> str:
        return self.value


class FindingKind(str, Enum):
    """How throughput goes along an axis."""

    meaning: str

    def __new__(cls, name: str, meaning: str) -> FindingKind:
        kind = str.__new__(cls, name)
        kind._value_, kind.meaning = name, meaning
        return kind

    def __str__(self) -> str:
        return str(self.value)

    RISING = ("rising", "The last step surely gains over 5 % a doubling.")
    FLAT = ("flat", "All beyond this point surely gains under 5 %.")
    FLAT_THROUGHOUT = ("flat-throughout", "All beyond the first point surely gains under 5 %.")
    FALLING = ("falling", "The last point surely lies over 5 % below the highest.")
    UNDECIDED = ("undecided", "Whether the last step gains is inconclusive.")
    ONE_BATCH = ("one-batch", "A stream fits into one batch, whatever its size, so nothing is compared.")
    BATCHES_NOT_OURS = ("batches-not-ours", "The server decides how large batches are; nothing is compared.")


@dataclass(frozen=True)
class Evidence:
    """One fact that a verdict rests on: `name` is short and stable, `text` has the numbers."""

    name: str
    text: str


@dataclass(frozen=True)
class Diagnosis:
    """A place that was proved narrow."""

    cause: str
    """The name of its row in `rules.RULES`."""
    end: str | None = None
    stage: str | None = None
    margin: float = 0.0
    """0 on the threshold, 1 as clear as can be."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    lacks: tuple[MissingEvidence, ...] = ()
    """What was not measured and could have overturned it."""
    pool: str | None = None
    """The pool of threads that is the place."""


def beyond(value: float, threshold: float, most: float = 1.0) -> float:
    """How far beyond its threshold a figure lies, 0..1."""
    return max(0.0, min(1.0, (value - threshold) / (most - threshold)))


def measured(**numbers: float | None) -> dict[str, float]:
    """Those that were measured."""
    return {name: value for name, value in numbers.items() if value is not None}


@dataclass(frozen=True)
class Remedy:
    """Something to try."""

    why: str
    """Its stable name, for scripts."""
    words: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of the cell, by their names, and their new values."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the run, for example `repeats`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the server, of a host or of the path, which no flag of the client sets."""
    left_out: tuple[str, ...] = ()
    """Parameters that the command no longer names."""
    again: bool = False
    """Whether a run shall be repeated although nothing of it changes."""
    before: str | None = None
    """A command that is typed first, on the other host."""
    command: str | None = None
    """The command to type; None if there is none, or if it would be refused."""
    begin: str = ""
    """What precedes the words."""

    @property
    def parts(self) -> tuple[tuple[str, bool], ...]:
        """The remedy in words, each part with whether it is a command."""
        commands: list[tuple[str, bool]] = [(self.before, True), (" there", False)] if self.before else []
        if self.command:
            commands += [*([(", then ", False)] if commands else []), (self.command, True)]
        joint = ", then: " if self.why == "fix-failures" else ": "
        head = self.begin + self.words + (joint if commands else "")
        return ((head, False), *commands)

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.parts)


@dataclass(frozen=True)
class SecondBottleneck:
    """Another place that is proved narrow: opening one of both alone gains little."""

    kind: Kind
    cause: str
    end: str | None
    stage: str | None
    numbers: Mapping[str, float]


@dataclass(frozen=True)
class VerdictText:
    """What a verdict says to its reader."""

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
    cause: str
    end: str | None
    """`client` or `server`, None if the place is between them or not known."""
    stage: str | None
    """The stage that the verdict names, as docs/format.md calls it."""
    title: str
    """A few words: `both cores`, `server: encode`, `link`."""
    write: Callable[[], VerdictText] = field(repr=False, compare=False)
    """Makes `text`, which is kept."""
    flagged: bool
    """Whether the figure is no measure of the target: the load generator, or its schedule, set it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What proves the cause, as docs/verdicts.md names it; base units, shares of 1."""
    also: SecondBottleneck | None = None
    """Another place, as narrow as this one."""

    @cached_property
    def text(self) -> VerdictText:
        return self.write()

    def __getstate__(self) -> dict[str, Any]:
        """To another process it goes with its texts made: what makes them does not travel."""
        return {**self.__dict__, "text": self.text, "write": None}

    @property
    def lines(self) -> tuple[str, ...]:
        """As `VerdictText.lines`; the following likewise."""
        return self.text.lines

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        return self.text.evidence

    @property
    def confidence(self) -> Confidence:
        return self.text.confidence

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        return self.text.remedies

    def revised(self, revise: Callable[[VerdictText], VerdictText], **fields: Any) -> Verdict:
        """The same with other fields, and with what `revise` makes of its text."""
        return replace(self, write=lambda: revise(self.text), **fields)

    @property
    def sentence(self) -> str:
        """All lines in one."""
        return "; ".join(self.lines)

    @property
    def next(self) -> tuple[str, ...]:
        """What to try in words, each with its command if there is one."""
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
        """`5.5 times as fast [5.1..5.8]`, or as a gain if that is less than half as much again."""
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
    cause: str | None
    """Of the verdict there; None if there is none, or if the axis is an amount."""
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
