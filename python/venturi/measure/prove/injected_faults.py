"""Injected faults: a relay between the two ends turns a bit, loses a batch, doubles one, withholds an
acknowledgement or cuts the connection. Each must fail the trial. Two batches that change places must not,
because order does not matter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.measure.prove.bench import TIMEOUT_NS, Bench, Trial
from venturi.measure.prove.outcome import CheckKind, Checks, Outcome, Proof, ProofName, Reason
from venturi.measure.prove.relay import FRAMINGS, Fault, Plan

_BATCHES = 6
_TIMEOUT_NS = 300_000_000
_KINDS = {
    Fault.FLIP: ("verification", "server"),
    Fault.DROP: ("verification", "timeout"),
    Fault.DOUBLE: ("verification",),
    Fault.WITHHOLD: ("timeout",),
    Fault.CUT: ("lost",),
}
"""The errors of a trial that has caught it."""
_STARVED = ("timeout", "unreachable", "lost")
_Missing = list[tuple[str, Reason]]


def prove(bench: Bench, short: bool = False) -> Proof:
    if bench.is_user_table:
        return Proof(ProofName.INJECTED_FAULTS, Outcome.NOT_APPLICABLE, (), [("lies", Reason.NO_LENGTH)])
    checks, missing = Checks(), _Missing()
    for operation in bench.operations if bench.why_not_relayed is None else ():
        _cut(checks, missing, bench, operation)
    if bench.why_not_framed is None:
        for operation in bench.operations:
            _batches(checks, missing, bench, operation, short)
    else:
        made = (Fault.SWAP, Fault.CUT) if bench.why_not_relayed is None else (Fault.SWAP,)
        missing += [(fault.value, bench.why_not_framed) for fault in Fault if fault not in made]
    injected = {c.of.get("lie") for c in checks if c.of.get("lie")} - {Fault.SWAP.value}
    missed = {c.of.get("lie") for c in checks if c.outcome is not Outcome.PASSED}
    figures = {"lies": float(len(injected)), "caught": float(len(injected - missed))}
    return Proof(ProofName.INJECTED_FAULTS, checks.outcome, checks, missing, figures=figures)


def _cut(checks: Checks, missing: _Missing, bench: Bench, operation: str) -> None:
    """A stream's connection ends in the middle of its batches."""
    if operation == "ingest" and not bench.is_reference:
        # A store that is not Venturi's acknowledges everything with the end of the connection.
        missing.append((Fault.CUT.value, Reason.NO_ACKNOWLEDGEMENT))
        return
    if not bench.has_time():
        missing.append((Fault.CUT.value, Reason.NO_TIME))
        return
    good = bench.trial(plan=Plan(operation != "get"), **_few_batches(bench, operation))
    checks.same(CheckKind.OUTCOME, "ok", good.record["outcome"], operation=operation, way="relayed")
    if good.ok:
        # Both directions of the stream's connection: a third of it is among the batches. The relay also
        # counts set-up and verification.
        carried = good.record["counts"]["wire_bytes"] or good.relay.to_server + good.relay.to_client
        checks += bench.attempt(_cut_after, operation, carried // 3)


def _cut_after(bench: Bench, operation: str, passed: int) -> Checks:
    plan = Plan(operation != "get", fault=Fault.CUT, cut_after=passed)
    trial = bench.trial(plan=plan, **_few_batches(bench, operation))
    checks, of = Checks(), dict[str, Any](operation=operation, lie=Fault.CUT.value)
    _check_caught(checks, trial, Fault.CUT, of)
    if operation == "upsert" and trial.relay.done:
        # Nobody knows whether the batch on its way arrived.
        doubt = (trial.record["errors"] or {}).get("in_doubt") or {}
        most = trial.cell.parameters.get("in_flight") or 1
        checks.between(CheckKind.DOUBT, 1.0, doubt.get("batches", 0), "", 1.0, most, **of)
    return checks


def _batches(checks: Checks, missing: _Missing, bench: Bench, operation: str, short: bool) -> None:
    """Faults in the first, a middle and the last batch; in the short form, in the last."""
    honest = _trial(bench, operation, None, 0)
    checks.same(CheckKind.OUTCOME, "ok", honest.record["outcome"], operation=operation, way="honest")
    if not honest.ok:
        return
    summed = honest.record["verification"]["achieved"] == "checksum"
    # A batch that warms a stream is before the clock, and in no count.
    last = honest.relay.batches - 1
    first = last + 1 - honest.record["counts"]["rows" if honest.relay.rows else "batches"]
    for fault in (one for one in Fault if one is not Fault.CUT):
        places = [first, (first + last) // 2, last]
        if fault is Fault.WITHHOLD:
            places = [last]
            if operation == "get" and not FRAMINGS[bench.system.scheme].ends:
                continue
        elif fault is Fault.SWAP:
            places = [first + 1]
        if fault is Fault.FLIP and not summed:
            missing.append((fault.value, Reason.NO_CHECKSUM))
        elif honest.relay.rows and fault in (Fault.DOUBLE, Fault.WITHHOLD):
            # A point that comes twice is there once, and none is acknowledged by itself.
            missing.append((fault.value, Reason.NO_ACKNOWLEDGEMENT))
        elif not bench.has_time():
            missing.append((fault.value, Reason.NO_TIME))
        else:
            for at in places[-1:] if short else places:
                checks += bench.attempt(_injected, operation, fault, at)


def _trial(bench: Bench, operation: str, fault: Fault | None, at: int) -> Trial:
    acks = bench.cell(operation=operation).parameters.get("ack") is not None
    withheld = fault is Fault.WITHHOLD
    waits = withheld or (operation == "ingest" and fault is not None)
    return bench.trial(
        plan=Plan(
            operation != "get",
            FRAMINGS[bench.system.scheme],
            bench.batch_bytes(operation),
            fault=fault,
            at=at,
        ),
        **_few_batches(bench, operation),
        # The number of rows alone shows that a batch is missing, or there twice.
        verify="count" if fault in (Fault.DROP, Fault.DOUBLE) else None,
        timeout_ns=_TIMEOUT_NS if waits else TIMEOUT_NS,
        ack="batch" if withheld and acks and operation == "put" else None,
    )


def _few_batches(bench: Bench, operation: str) -> dict[str, Any]:
    rows = bench.cell(operation=operation).parameters["rows_per_batch"]
    return {"operation": operation, "streams": 1, "rows_per_stream": _BATCHES * rows}


def _injected(bench: Bench, operation: str, fault: Fault, at: int) -> Checks:
    trial = _trial(bench, operation, fault, at)
    of: dict[str, Any] = {"operation": operation, "lie": fault.value, "batch": at}
    checks = Checks()
    if fault is Fault.SWAP:
        _check_injected(checks, trial, of)
        checks.same(CheckKind.OUTCOME, "ok", trial.record["outcome"], **of)
    else:
        _check_caught(checks, trial, fault, of)
    return checks


def _check_injected(checks: Checks, trial: Trial, of: Mapping[str, Any]) -> None:
    """A fault that the relay had no chance to inject decides nothing."""
    checks.between(
        CheckKind.FAULT, 1.0, trial.relay.done, "", 1.0, 1.0, moves="down", noisy=True, injected=1, **of
    )


def _check_caught(checks: Checks, trial: Trial, fault: Fault, of: Mapping[str, Any]) -> None:
    _check_injected(checks, trial, of)
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    wanted = _KINDS[fault]
    # On a machine that schedules nothing for seconds, a trial runs out of time before it finds anything.
    excused = (trial.external.noisy and kind in _STARVED) or not trial.relay.done
    checks.same(CheckKind.FAULT, kind if kind in wanted else wanted[0], kind, excused=excused, **of)
