"""Lies that are told on the way are caught: one bit turned, a batch that is lost, one that comes twice, a
word of acceptance that is withheld, a connection that ends. Two batches that change places are no lie, where
order does not matter.

The liar is a relay between the two ends: neither of them has a way to lie in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.measure.prove import meddling
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import TIMEOUT_NS, Bench, Trial
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What
from venturi.measure.prove.relay import Lie, Plan

__all__ = ["prove"]

_BATCHES = 6
_TIMEOUT_NS = 300_000_000
_KINDS = {
    Lie.FLIP: ("verification", "server"),
    Lie.DROP: ("verification", "timeout"),
    Lie.DOUBLE: ("verification",),
    Lie.WITHHOLD: ("timeout",),
    Lie.CUT: ("lost",),
}
"""How a trial fails that has caught it."""
_STARVED = ("timeout", "unreachable", "lost")


def prove(bench: Bench, short: bool = False) -> Proof:
    if bench.system.scheme in meddling.SYSTEMS and not bench.somebodys:
        untold = [lie for lie in Lie if lie not in meddling.LIES and lie is not Lie.SWAP]
        return _proof(meddling.caught(bench), [(lie.value, Reason.NO_PLACE) for lie in untold])
    if bench.somebodys:
        return Proof(Name.LIES, Outcome.IMPOSSIBLE, (), [("lies", Reason.NO_LENGTH)])
    checks, missing = Checks(), []
    for operation in bench.operations if bench.relayed else ():
        found, without = _cut(bench, operation)
        checks += found
        missing += without
    if not bench.framed:
        made = (Lie.SWAP, Lie.CUT) if bench.relayed else (Lie.SWAP,)
        return _proof(checks, missing + [(lie.value, bench.unframed) for lie in Lie if lie not in made])
    for operation in bench.operations:
        found, without = _of(bench, operation, short)
        checks += found
        missing += without
    return _proof(checks, missing)


def _proof(checks: Checks, missing: list[tuple[str, Reason]]) -> Proof:
    lies = {c.of.get("lie") for c in checks if c.of.get("lie")} - {Lie.SWAP.value}
    let_by = {c.of.get("lie") for c in checks if c.outcome is not Outcome.PASSED}
    figures = {"lies": float(len(lies)), "caught": float(len(lies - let_by))}
    return Proof(Name.LIES, checks.outcome, checks, missing, figures=figures)


def _cut(bench: Bench, operation: str) -> tuple[Checks, list[tuple[str, Reason]]]:
    """A stream's connection ends in the midst of its batches."""
    if operation == "ingest" and not bench.reference:
        # Of a stranger's store the end of the connection is all that it says, when it has taken all.
        return Checks(), [(Lie.CUT.value, Reason.NO_ACKNOWLEDGEMENT)]
    if not bench.in_time():
        return Checks(), [(Lie.CUT.value, Reason.NO_TIME)]
    good = bench.trial(keep=False, plan=Plan(operation != "get"), **_little(bench, operation))
    checks = Checks()
    checks.same(What.OUTCOME, "ok", good.record["outcome"], operation=operation, way="relayed")
    if good.ok:
        # Both directions of the stream's connection: a third of it falls among the batches. What the relay
        # counts has set-up and verification in it.
        carried = good.record["counts"]["wire_bytes"] or good.relay.to_server + good.relay.to_client
        checks += attempts(bench, _cut_after, operation, carried // 3)
    return checks, []


def _cut_after(bench: Bench, operation: str, passed: int) -> Checks:
    plan = Plan(operation != "get", lie=Lie.CUT, cut_after=passed)
    trial = bench.trial(keep=False, plan=plan, **_little(bench, operation))
    checks, of = Checks(), dict[str, Any](operation=operation, lie=Lie.CUT.value)
    _caught(checks, trial, Lie.CUT, of)
    if operation == "upsert" and trial.relay.done:
        # Nobody knows of the batch that was on its way.
        doubt = (trial.record["errors"] or {}).get("in_doubt") or {}
        most = trial.cell.parameters.get("in_flight") or 1
        checks.between(What.DOUBT, 1.0, doubt.get("batches", 0), "", 1.0, most, **of)
    return checks


def _of(bench: Bench, operation: str, short: bool) -> tuple[Checks, list[tuple[str, Reason]]]:
    """All lies at a get, a put ..."""
    checks = Checks()
    honest = _trial(bench, operation, None, 0)
    checks.same(What.OUTCOME, "ok", honest.record["outcome"], operation=operation, way="honest")
    if not honest.ok:
        return checks, []
    achieved = honest.record["verification"]["achieved"]
    missing: list[tuple[str, Reason]] = []
    if achieved != "checksum":
        missing.append((Lie.FLIP.value, Reason.NO_CHECKSUM))
    # A batch that warms a stream is before the clock, and in no count.
    first = honest.relay.batches - honest.record["counts"]["rows" if honest.relay.rows else "batches"]
    last = honest.relay.batches - 1
    for lie in (one for one in Lie if one is not Lie.CUT):
        if lie is Lie.FLIP and achieved != "checksum":
            continue
        if lie is Lie.WITHHOLD and operation == "get" and not FRAMINGS[bench.system.scheme].ends:
            continue
        if honest.relay.rows and lie in (Lie.DOUBLE, Lie.WITHHOLD):
            # A point that comes twice is there once, and none is acknowledged by itself.
            missing.append((lie.value, Reason.NO_ACKNOWLEDGEMENT))
            continue
        places = {Lie.WITHHOLD: (last,), Lie.SWAP: (first + 1,)}.get(lie, (first, (first + last) // 2, last))
        if not bench.in_time():
            missing.append((lie.value, Reason.NO_TIME))
            continue
        for at in places[-1:] if short else places:
            checks += attempts(bench, _told, operation, lie, at)
    return checks, missing


def _trial(bench: Bench, operation: str, lie: Lie | None, at: int) -> Trial:
    p = bench.cell(operation=operation).parameters
    least = max(1, int((p["row_bytes"] or 0) * p["rows_per_batch"]))
    plan = Plan(operation != "get", FRAMINGS[bench.system.scheme], least, lie=lie, at=at)
    withheld = lie is Lie.WITHHOLD
    waits = withheld or (operation == "ingest" and lie is not None)
    return bench.trial(
        plan=plan,
        keep=lie is None,
        **_little(bench, operation),
        # A batch that is missing, or there twice, is missed by the number of rows alone.
        verify="count" if lie in (Lie.DROP, Lie.DOUBLE) else None,
        timeout_ns=_TIMEOUT_NS if waits else TIMEOUT_NS,
        ack="batch" if withheld and p.get("ack") is not None and operation == "put" else None,
    )


def _little(bench: Bench, operation: str) -> dict[str, Any]:
    rows = bench.cell(operation=operation).parameters["rows_per_batch"]
    return {"operation": operation, "streams": 1, "rows_per_stream": _BATCHES * rows}


def _told(bench: Bench, operation: str, lie: Lie, at: int) -> Checks:
    trial = _trial(bench, operation, lie, at)
    of: dict[str, Any] = {"operation": operation, "lie": lie.value, "batch": at}
    checks = Checks()
    if lie is Lie.SWAP:
        _done(checks, trial, of)
        checks.same(What.OUTCOME, "ok", trial.record["outcome"], **of)
    else:
        _caught(checks, trial, lie, of)
    return checks


def _done(checks: Checks, trial: Trial, of: Mapping[str, Any]) -> None:
    """One that the relay had no chance to tell proves nothing."""
    checks.between(What.LIE, 1.0, trial.relay.done, "", 1.0, 1.0, moves="down", noisy=True, told=1, **of)


def _caught(checks: Checks, trial: Trial, lie: Lie, of: Mapping[str, Any]) -> None:
    _done(checks, trial, of)
    kind = str((trial.record["error"] or {}).get("kind") or trial.record["outcome"])
    wanted = _KINDS[lie]
    # Where nothing is scheduled for seconds, a trial runs out of time before it can find anything.
    excused = (trial.outside.noisy and kind in _STARVED) or not trial.relay.done
    checks.same(What.LIE, kind if kind in wanted else wanted[0], kind, excused=excused, **of)
