"""Proofs in words: a line each, what failed under it, what could not be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.proven import proof, unproven
from venturi.common.units import LADDERS, MISSING, Quantity, percent, plural
from venturi.measure.prove.outcome import Check, Name, Outcome, Proof, Reason, What

__all__ = ["Line", "headline", "lines", "verdict"]

TITLES = {
    Name.RATE: "known rate",
    Name.STALL: "known stall",
    Name.PAUSE: "known pause",
    Name.BOTTLENECK: "known bottleneck",
    Name.LIES: "known lies",
    Name.ANSWERS: "known answers",
    Name.DIFFERENCE: "A/A and 5 %",
    Name.CONSERVATION: "conservation",
    Name.HEADROOM: "headroom",
    Name.SEED: "another seed",
}
OUTCOMES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.UNTOLD: "cannot be told",
    Outcome.IMPOSSIBLE: "not possible",
}
EXPECTED = {
    Name.RATE: "the rate, to 1 %; what a relay counted",
    Name.STALL: "percentiles by schedule and stall",
    Name.PAUSE: "a stopped server: no figure",
    Name.BOTTLENECK: "the slowed stage, named",
    Name.LIES: "each caught; a swap is none",
    Name.ANSWERS: "figures by arithmetic",
    Name.DIFFERENCE: "itself: none; 5 % more work: found",
    Name.CONSERVATION: "parts add up",
    Name.HEADROOM: "the engine alone: 5 times or more (ingest: 1.5)",
    Name.SEED: "other checksums, the same speed",
}
REASONS = {
    Reason.NO_STREAM: "its batches cannot be told from other bytes on the way",
    Reason.NO_PLACE: "nothing of it passes a socket",
    Reason.NO_HANDICAP: "it cannot be slowed down from here",
    Reason.NO_ACCOUNT: "it does not tell what it spent",
    Reason.NO_CHECKSUM: "it is not verified by checksum",
    Reason.NO_ACKNOWLEDGEMENT: "nothing is acknowledged batch by batch",
    Reason.NO_SEED: "its rows do not come from a seed",
    Reason.NO_LENGTH: "how much it moves is not known before",
    Reason.NO_BATCHES: "how rows are put into batches is the server's choice",
    Reason.NOT_OURS: "only a server of Venturi's own, started for the proof, is stopped",
    Reason.ONE_STREAM: "its streams share a query, so there is one",
    Reason.NO_NETWORK: "it goes over a Unix socket; the proof of the same server by TCP has this part",
    Reason.SEVERAL: "the address names several hosts",
    Reason.NO_TIME: "the time was over",
}


@dataclass(frozen=True)
class Line:
    """One proof on a screen."""

    title: str
    outcome: str
    expected: str
    found: str
    seconds: str
    below: tuple[str, ...]


def lines(found: Sequence[Proof], most: int = 6) -> list[Line]:
    """A line a proof; `most` details of each."""
    return [
        Line(
            TITLES[one.name],
            OUTCOMES[one.outcome],
            EXPECTED[one.name],
            _found(one) if one.checks else MISSING,
            f"{one.seconds:.1f} s",
            tuple(_below(one, most)),
        )
        for one in found
    ]


def verdict(found: Sequence[Proof]) -> str:
    """All of them in one sentence."""
    counted = {outcome: sum(one.outcome is outcome for one in found) for outcome in Outcome}
    parts = [f"{counted[outcome]} {OUTCOMES[outcome].lower()}" for outcome in Outcome if counted[outcome]]
    return f"{plural(len(found), 'proof')}: {', '.join(parts)}"


def headline(environment: Mapping[str, Any]) -> str:
    """`this machine, today: rate right within 0.3 %; lies caught 5 of 5`; empty where nothing was proved.
    Which differences are detectable is told of each comparison, by its own repeats."""
    told = proof(environment)
    if told is None:
        return ""
    parts = []
    if isinstance(off := told.get("rate_off"), (int, float)):
        unsure = "rate" in (told.get("untold") or ())
        parts.append(
            f"rate {'read' if unsure else 'right'} within {_small(off)}{', by a busy machine' * unsure}"
        )
    if told.get("lies"):
        parts.append(f"lies caught {told.get('lies_caught')} of {told['lies']}")
    if unproven(environment):
        failed = ", ".join(
            TITLES[known] if (known := _name(name)) else str(name) for name in told.get("failed") or ()
        )
        return f"UNPROVEN: {failed} failed on this machine; {'; '.join(parts)}"
    return f"this machine, today: {'; '.join(parts)}" if parts else ""


def _name(text: object) -> Name | None:
    return next((name for name in Name if name.value == text), None)


def _small(share: float) -> str:
    """A share, rounded up to what is worth saying: a bound must not be rounded down."""
    places = 1 if share < 0.0995 else 0
    scale = 10.0 ** (places + 2)
    return percent(-int(-share * scale // 1) / scale if share * scale % 1 else share, places)


def _found(one: Proof) -> str:
    checks, figures = one.checks, one.figures
    if one.name is Name.RATE:
        seen = sum(check.what is What.SEEN and check.right for check in checks)
        return f"off by {percent(figures.get('off'), 2)} at most" + (
            f"; {plural(seen, 'count')} agree" if seen else ""
        )
    if one.name is Name.STALL:
        told = next((c for c in checks if c.what is What.PERCENTILE and c.of.get("percent") == 99.0), None)
        return f"p99 {_value(told)}, computed {_span(told)}" if told is not None else MISSING
    if one.name is Name.PAUSE:
        told = next((c for c in checks if c.what is What.PAUSE and "told" not in c.of), None)
        if told is None:
            return MISSING
        return f"{_value(told)}, stopped for {_span(told)}"
    if one.name is Name.BOTTLENECK:
        named = [check for check in checks if check.what is What.STAGE]
        return f"{sum(check.right for check in named)} of {len(named)} named"
    if one.name is Name.LIES:
        told_lies = [c for c in checks if c.what is What.LIE and "told" not in c.of]
        times = f", {sum(c.right for c in told_lies)} of {len(told_lies)} times"
        return f"{int(figures.get('caught', 0))} of {int(figures.get('lies', 0))} kinds caught{times}"
    if one.name is Name.DIFFERENCE:
        alike = next((c for c in checks if c.what is What.ALIKE), None)
        itself = f"itself {_change(float(alike.of['ratio']) - 1)}" if alike is not None else ""
        more = f"; 5 % more {_change(figures['more'])}" if "more" in figures else ""
        return f"{itself}{more}; detectable from {percent(figures.get('detectable'), 1)}"
    if one.name is Name.HEADROOM:
        return ", ".join(f"{operation} {ratio:,.0f} times" for operation, ratio in figures.items())
    if one.name is Name.SEED:
        return f"speed {_change(figures.get('ratio', 1.0) - 1)}"
    if one.name is Name.ANSWERS:
        return f"{sum(check.right for check in checks)} of {len(checks)} figures"
    held, trials = sum(check.right for check in checks), plural(figures.get("records", 0), "trial")
    return f"{held} of {len(checks)} hold in {trials}{_residual(checks)}"


def _residual(checks: Sequence[Check]) -> str:
    """How far the worst of what is only nearly the same lies from it."""
    off = [
        abs(check.found / check.expected - 1)
        for check in checks
        if check.what in (What.STAGES, What.WORKERS, What.LITTLE, What.STEADY)
        and isinstance(check.found, (int, float))
        and isinstance(check.expected, (int, float))
        and check.expected
        and check.low != check.high
        and check.low
    ]
    return f"; largest residual {percent(max(off), 1)}" if off else ""


def _change(share: float) -> str:
    return f"{share * 100:+.1f} %"


def _below(one: Proof, most: int) -> list[str]:
    wrong = [check for check in one.checks if not check.right]
    # What failed says more than what cannot be told.
    wrong.sort(key=lambda check: check.outcome is not Outcome.FAILED)
    said = [_detail(check) for check in wrong[:most]]
    if len(wrong) > most:
        said.append(f"{len(wrong) - most} more; --format json has all")
    reasons: dict[Reason, list[str]] = {}
    for part, reason in one.missing:
        reasons.setdefault(reason, []).append(part)
    said += [
        f"not made ({', '.join(dict.fromkeys(parts))}): {REASONS[reason]}"
        for reason, parts in reasons.items()
    ]
    return said


def _detail(check: Check) -> str:
    of = " ".join(f"{key}={value}" for key, value in check.of.items())
    head = "FAILED" if check.outcome is Outcome.FAILED else "cannot be told"
    what = f"{check.what.value} ({of})" if of else check.what.value
    return f"{head}: {what}: expected {_span(check)}, found {_value(check)}"


def _value(check: Check) -> str:
    return _quantity(check.found, check.unit)


def _span(check: Check) -> str:
    if isinstance(check.expected, str):
        return check.expected
    expected = _quantity(check.expected, check.unit)
    if check.low == check.high:
        return expected
    low = _quantity(check.low, check.unit) if check.low is not None else ""
    high = _quantity(check.high, check.unit) if check.high is not None else ""
    return f"{expected} [{low}..{high}]"


def _quantity(value: Any, unit: str) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return value
    if unit in LADDERS and unit:
        return str(Quantity(float(value), unit=unit))
    return f"{value:,.6g} {unit}".rstrip()
