"""The results of a self-test: values, and enums instead of words (`report.proofs` has those)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class ProofName(str, Enum):
    """Parts of the self-test, in the order in which they are made."""

    RATE = "rate"
    INJECTED_FAULTS = "lies"
    DIFFERENCE = "difference"
    ANSWERS = "answers"


class Outcome(str, Enum):
    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "cannot-tell"
    """The machine was too noisy, or the spread too wide, to decide."""
    NOT_APPLICABLE = "impossible"
    """The target does not allow it."""


class Reason(str, Enum):
    """Why a part of the self-test is inconclusive or was left out; `report.proofs` has the words."""

    NO_STREAM = "no-stream"
    NO_PLACE = "no-place"
    NO_HANDICAP = "no-handicap"
    NO_CHECKSUM = "no-checksum"
    NO_ACKNOWLEDGEMENT = "no-acknowledgement"
    NO_LENGTH = "no-length"
    NO_BATCHES = "no-batches"
    NO_NETWORK = "no-network"
    SEVERAL = "several"
    NO_TIME = "no-time"


class CheckKind(str, Enum):
    """What was compared."""

    OUTCOME = "outcome"
    BATCHES = "batches"
    ROWS = "rows"
    PAYLOAD = "payload"
    BYTES_RATE = "bytes-rate"
    ROWS_RATE = "rows-rate"
    SEEN = "seen"
    """What the relay counted."""
    CLOCK = "clock"
    SCHEDULE = "schedule"
    FAULT = "lie"
    ALIKE = "alike"
    """A thing and itself."""
    MORE = "more"
    """A thing with more work."""
    DETECTABLE = "detectable"
    WIRE = "wire"
    DOUBT = "doubt"
    """Batches of which nobody knows whether they arrived."""
    ANSWER = "answer"
    """What follows by arithmetic."""


@dataclass(frozen=True)
class Check:
    """One comparison. `low` and `high` bound what is right. Numbers are in the base units of
    `venturi.common.units`; other values must be equal."""

    what: CheckKind
    expected: float | str
    found: float | str | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    of: Mapping[str, Any] = field(default_factory=dict)
    """The operation, the injected fault ..."""
    timed: bool = False
    """It is wrong in the direction in which other work on this machine moves it."""
    excused: bool = False
    """There was such work, too."""

    @property
    def right(self) -> bool:
        if isinstance(self.expected, str) or isinstance(self.found, str) or self.found is None:
            return self.expected == self.found
        return (self.low is None or self.found >= self.low) and (self.high is None or self.found <= self.high)

    @property
    def outcome(self) -> Outcome:
        if self.right:
            return Outcome.PASSED
        return Outcome.INCONCLUSIVE if self.excused else Outcome.FAILED

    def document(self) -> dict[str, Any]:
        return {
            "what": self.what.value,
            "of": dict(self.of),
            "outcome": self.outcome.value,
            "expected": self.expected,
            "found": self.found,
            "unit": self.unit,
            "low": self.low,
            "high": self.high,
        }


class Checks(list[Check]):
    """Checks as they are made."""

    def near(
        self, what: CheckKind, expected: float, found: float | None, unit: str, share: float, /, *,
        more: float = 0.0, **rest: Any,
    ) -> None:  # fmt: skip
        """Found is as expected, to a share of it and `more`."""
        room = abs(expected) * share + more
        self.between(what, expected, found, unit, expected - room, expected + room, **rest)

    def between(
        self, what: CheckKind, expected: float, found: float | None, unit: str, low: float | None = None,
        high: float | None = None, *, moves: str = "", noisy: bool = False, **of: Any,
    ) -> None:  # fmt: skip
        """`moves`: the directions in which other work on this machine can move it, "down", "up", "down up".
        If it was `noisy`, that is excused."""
        under = found is not None and low is not None and found < low
        over = found is not None and high is not None and found > high
        by_noise = (under and "down" in moves) or (over and "up" in moves)
        self.append(Check(what, expected, found, unit, low, high, of, by_noise, noisy and by_noise))

    def same(
        self, what: CheckKind, expected: float | str, found: float | str | None, unit: str = "", *,
        excused: bool = False, **of: Any,
    ) -> None:  # fmt: skip
        """Found is equal to expected."""
        bound = None if isinstance(expected, str) else expected
        self.append(Check(what, expected, found, unit, bound, bound, of, excused, excused))

    @property
    def outcome(self) -> Outcome:
        return worst(check.outcome for check in self)


@dataclass(frozen=True)
class Proof:
    """The result of one part."""

    name: ProofName
    outcome: Outcome
    checks: Sequence[Check] = ()
    missing: Sequence[tuple[str, Reason]] = ()
    """Parts that were left out, and why."""
    seconds: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)
    """Figures, in base units."""

    @property
    def failures(self) -> list[Check]:
        return [check for check in self.checks if check.outcome is Outcome.FAILED]

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name.value,
            "outcome": self.outcome.value,
            "seconds": round(self.seconds, 3),
            "figures": dict(self.figures),
            "missing": [{"part": part, "reason": reason.value} for part, reason in self.missing],
            "checks": [check.document() for check in self.checks],
        }


_ORDER = (Outcome.FAILED, Outcome.INCONCLUSIVE, Outcome.PASSED, Outcome.NOT_APPLICABLE)


def worst(found: Any) -> Outcome:
    """The worst of several: failed, inconclusive, passed; not applicable if there are none."""
    outcomes = set(found)
    return next((one for one in _ORDER if one in outcomes), Outcome.NOT_APPLICABLE)
