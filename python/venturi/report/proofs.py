"""The results of the self-test in words: one line each, then what failed and what was left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from venturi.analysis.cells.figures import grouped
from venturi.analysis.cells.machines import proof, unproven
from venturi.common.units import LADDERS, MISSING, Quantity, percent, plural
from venturi.measure.prove.outcome import Check, CheckKind, Outcome, Proof, ProofName, Reason

TITLES = {
    ProofName.RATE: "known rate",
    ProofName.INJECTED_FAULTS: "injected faults",
    ProofName.DIFFERENCE: "known difference",
    ProofName.ANSWERS: "known answers",
}
OUTCOMES = {
    Outcome.PASSED: "passed",
    Outcome.FAILED: "FAILED",
    Outcome.INCONCLUSIVE: "inconclusive",
    Outcome.NOT_APPLICABLE: "not possible",
}
EXPECTED = {
    ProofName.RATE: "the rate, to 1 %; the relay's counts",
    ProofName.INJECTED_FAULTS: "each caught; a swap is not a fault",
    ProofName.DIFFERENCE: "itself: none; 5 % more work: found",
    ProofName.ANSWERS: "figures by arithmetic",
}
REASONS = {
    Reason.NO_STREAM: "a relay cannot distinguish its batches from other bytes",
    Reason.NO_PLACE: "nothing of it passes a socket",
    Reason.NO_HANDICAP: "it cannot be slowed down from here",
    Reason.NO_CHECKSUM: "it is not verified by checksum",
    Reason.NO_ACKNOWLEDGEMENT: "nothing is acknowledged batch by batch",
    Reason.NO_LENGTH: "how much it moves is not known in advance",
    Reason.NO_BATCHES: "the server decides how rows are put into batches",
    Reason.NO_NETWORK: "it goes over a Unix socket; test the same server by TCP",
    Reason.SEVERAL: "the address names several hosts",
    Reason.NO_TIME: "the time was over",
}


def lines(one: Proof, most: int = 6) -> list[str]:
    """A result, below it what was expected, and at most `most` details."""
    found, seconds = _found(one) if one.checks else MISSING, f"{one.seconds:.1f} s"
    head = f"{TITLES[one.name]:<17} {OUTCOMES[one.outcome]:<15} {seconds:>6}  {found}"
    below = [f"expected: {EXPECTED[one.name]}", *_below(one, most)]
    return [head, *(f"{'':17} {text}" for text in below)]


def verdict(found: Sequence[Proof]) -> str:
    """All results in one sentence."""
    counted = {outcome: sum(one.outcome is outcome for one in found) for outcome in Outcome}
    parts = [f"{counted[outcome]} {OUTCOMES[outcome].lower()}" for outcome in Outcome if counted[outcome]]
    return f"{plural(len(found), 'part')}: {', '.join(parts)}"


def headline(environment: Mapping[str, Any]) -> str:
    """`this machine, at the time of the run: rate right within 0.3 %; 5 of 5 injected faults caught`; empty
    without a self-test. Each comparison reports which differences it can detect, from its own repeats."""
    record = proof(environment)
    if record is None:
        return ""
    parts = []
    if isinstance(off := record.get("rate_off"), (int, float)):
        unsure = "rate" in (record.get("untold") or ())
        parts.append(
            f"rate {'read' if unsure else 'right'} within {_small(off)}{', by a busy machine' * unsure}"
        )
    if record.get("lies"):
        parts.append(f"{record.get('lies_caught')} of {record['lies']} injected faults caught")
    if unproven(environment):
        failed = ", ".join(
            TITLES[proof_name] if (proof_name := _name(name)) else str(name)
            for name in record.get("failed") or ()
        )
        return f"UNPROVEN: {failed} failed on this machine; {'; '.join(parts)}"
    return f"this machine, at the time of the run: {'; '.join(parts)}" if parts else ""


def _name(text: object) -> ProofName | None:
    return next((name for name in ProofName if name.value == text), None)


def _small(share: float) -> str:
    """A share, rounded up, because it is a bound."""
    places = 1 if share < 0.0995 else 0
    scale = 10.0 ** (places + 2)
    return percent(-int(-share * scale // 1) / scale if share * scale % 1 else share, places)


def _found(one: Proof) -> str:
    checks, figures = one.checks, one.figures
    if one.name is ProofName.RATE:
        seen = sum(check.what is CheckKind.SEEN and check.right for check in checks)
        return f"off by {percent(figures.get('off'), 2)} at most" + (
            f"; {plural(seen, 'count')} agree" if seen else ""
        )
    if one.name is ProofName.INJECTED_FAULTS:
        injected = [c for c in checks if c.what is CheckKind.FAULT and "injected" not in c.of]
        times = f", {sum(c.right for c in injected)} of {len(injected)} times"
        return f"{int(figures.get('caught', 0))} of {int(figures.get('lies', 0))} kinds caught{times}"
    if one.name is ProofName.DIFFERENCE:
        alike = next((c for c in checks if c.what is CheckKind.ALIKE), None)
        itself = f"itself {_change(float(alike.of['ratio']) - 1)}" if alike is not None else ""
        more = f"; 5 % more {_change(figures['more'])}" if "more" in figures else ""
        return f"{itself}{more}; detectable from {percent(figures.get('detectable'), 1)}"
    return f"{sum(check.right for check in checks)} of {len(checks)} figures"


def _change(share: float) -> str:
    return f"{share * 100:+.1f} %"


def _below(one: Proof, most: int) -> list[str]:
    wrong = [check for check in one.checks if not check.right]
    # A failure says more than an inconclusive comparison.
    wrong.sort(key=lambda check: check.outcome is not Outcome.FAILED)
    details = [_detail(check) for check in wrong[:most]]
    if len(wrong) > most:
        details.append(f"{len(wrong) - most} more; --format json has all")
    for reason, missing in grouped(one.missing, lambda pair: pair[1]).items():
        parts = ", ".join(dict.fromkeys(part for part, _ in missing))
        details.append(f"left out ({parts}): {REASONS[reason]}")
    return details


def _detail(check: Check) -> str:
    of = " ".join(f"{key}={value}" for key, value in check.of.items())
    head = "FAILED" if check.outcome is Outcome.FAILED else "inconclusive"
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
