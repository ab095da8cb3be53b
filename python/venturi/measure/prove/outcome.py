"""What a proof is and what it answers: values, and enums in the place of words (`report.text.proofs` has
those)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["Check", "Checks", "Name", "Outcome", "Proof", "Reason", "What", "worst"]


class Name(str, Enum):
    """The proofs, in the order in which they are made."""

    RATE = "rate"
    STALL = "stall"
    PAUSE = "pause"
    LIES = "lies"
    HEADROOM = "headroom"
    BOTTLENECK = "bottleneck"
    SEED = "seed"
    DIFFERENCE = "difference"
    ANSWERS = "answers"
    CONSERVATION = "conservation"


class Outcome(str, Enum):
    PASSED = "passed"
    FAILED = "failed"
    UNTOLD = "cannot-tell"
    """The machine was too noisy, or the spread too wide: neither."""
    IMPOSSIBLE = "impossible"
    """Not of this target."""


class Reason(str, Enum):
    """Why a proof, or a part of one, cannot be told or made."""

    NO_STREAM = "no-stream"
    """Its protocol is not known to the relay, or is encrypted: batches cannot be told from other bytes."""
    NO_PLACE = "no-place"
    """Nothing of it passes a socket."""
    NO_HANDICAP = "no-handicap"
    NO_ACCOUNT = "no-account"
    """The server does not tell what it did."""
    NO_CHECKSUM = "no-checksum"
    NO_ACKNOWLEDGEMENT = "no-acknowledgement"
    NO_SEED = "no-seed"
    NO_LENGTH = "no-length"
    """How much it moves is not known before."""
    NO_BATCHES = "no-batches"
    """How rows are put into batches is the server's choice."""
    NOT_OURS = "not-ours"
    """Only a server of Venturi's own that was started for the proof is stopped."""
    ONE_STREAM = "one-stream"
    """Its streams share a query, so trials have one."""
    NO_NETWORK = "no-network"
    """It goes over a Unix socket, where the relay does not stand and no interface counts."""
    SEVERAL = "several"
    """The address names several hosts."""
    NO_TIME = "no-time"
    """The time that all proofs have together was over."""


class What(str, Enum):
    """What was compared."""

    OUTCOME = "outcome"
    BATCHES = "batches"
    ROWS = "rows"
    PAYLOAD = "payload"
    BYTES_RATE = "bytes-rate"
    ROWS_RATE = "rows-rate"
    PRINTED = "printed"
    SEEN = "seen"
    """Of what an independent count on the way saw."""
    CLOCK = "clock"
    SCHEDULE = "schedule"
    PERCENTILE = "percentile"
    SERVICE = "service"
    STAGE = "stage"
    HANDICAP = "handicap"
    LIE = "lie"
    ALIKE = "alike"
    """A thing and itself."""
    MORE = "more"
    """A thing with more work."""
    DETECTABLE = "detectable"
    STREAMS = "streams"
    WIRE = "wire"
    INTERFACE = "interface"
    CPU = "cpu"
    STAGES = "stages"
    WAIT = "wait"
    """How much of an end's waiting was where it had to be."""
    WORKERS = "workers"
    RETRIES = "retries"
    DOUBT = "doubt"
    """Batches of which nobody knows whether they arrived."""
    CROWDED = "crowded"
    """The time for which a stream was ready and its thread worked for another one."""
    LATENCIES = "latencies"
    LITTLE = "little"
    PAUSE = "pause"
    STEADY = "steady"
    INTERVAL = "interval"
    SAMPLES = "samples"
    MERGED = "merged"
    HEADROOM = "headroom"
    SEED = "seed"
    ANSWER = "answer"
    """What follows by arithmetic."""


@dataclass(frozen=True)
class Check:
    """One comparison. `low` and `high` bound what is right; numbers are in the base units of
    `venturi.common.units`, other values are compared as they are."""

    what: What
    expected: float | str
    found: float | str | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    of: Mapping[str, Any] = field(default_factory=dict)
    """Of what: operation, end, stage, lie, percentile ..."""
    timed: bool = False
    """Whether other work on this machine can move it."""
    excused: bool = False
    """It is wrong in the direction in which other work moves it, and there was such work."""

    @property
    def right(self) -> bool:
        if isinstance(self.expected, str) or isinstance(self.found, str) or self.found is None:
            return self.expected == self.found
        return (self.low is None or self.found >= self.low) and (self.high is None or self.found <= self.high)

    @property
    def outcome(self) -> Outcome:
        if self.right:
            return Outcome.PASSED
        return Outcome.UNTOLD if self.excused else Outcome.FAILED

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
        self,
        what: What,
        expected: float,
        found: float | None,
        unit: str,
        share: float = 0.0,
        *,
        more: float = 0.0,
        moves: str = "",
        noisy: bool = False,
        **of: Any,
    ) -> None:
        """Found is as expected, to a share of it and `more`."""
        room = abs(expected) * share + more
        low, high = expected - room, expected + room
        self.between(what, expected, found, unit, low, high, moves=moves, noisy=noisy, **of)

    def between(
        self,
        what: What,
        expected: float,
        found: float | None,
        unit: str,
        low: float | None = None,
        high: float | None = None,
        *,
        moves: str = "",
        noisy: bool = False,
        **of: Any,
    ) -> None:
        """`moves`: whither other work on this machine can move it, "down", "up", "down up"; where it was
        `noisy`, that much is excused."""
        under = found is not None and low is not None and found < low
        over = found is not None and high is not None and found > high
        by_noise = (under and "down" in moves) or (over and "up" in moves)
        timed = by_noise or bool(moves and not under and not over)
        self.append(Check(what, expected, found, unit, low, high, of, timed, noisy and by_noise))

    def same(
        self,
        what: What,
        expected: float | str,
        found: float | str | None,
        unit: str = "",
        *,
        excused: bool = False,
        **of: Any,
    ) -> None:
        """Exactly so."""
        bound = None if isinstance(expected, str) else expected
        self.append(Check(what, expected, found, unit, bound, bound, of, excused, excused))

    @property
    def outcome(self) -> Outcome:
        return worst(check.outcome for check in self)


@dataclass(frozen=True)
class Proof:
    """One line."""

    name: Name
    outcome: Outcome
    checks: Sequence[Check] = ()
    missing: Sequence[tuple[str, Reason]] = ()
    """Parts that could not be made of this target, by what they would have shown, and why."""
    seconds: float = 0.0
    figures: Mapping[str, float] = field(default_factory=dict)
    """What it found out, in base units."""

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


_ORDER = (Outcome.FAILED, Outcome.UNTOLD, Outcome.PASSED, Outcome.IMPOSSIBLE)


def worst(found: Any) -> Outcome:
    """Of several: failed before what cannot be told before passed; impossible where there are none."""
    all_of_them = set(found)
    return next((one for one in _ORDER if one in all_of_them), Outcome.IMPOSSIBLE)
