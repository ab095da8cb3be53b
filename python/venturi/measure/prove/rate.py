"""A stream of a known rate reads that rate: in bytes, in rows, as it is printed, and as a relay on its way
has counted and timed it by clocks of its own.

Two ways to a known rate: an open loop on a schedule, and a relay that passes batches on at its own pace, as a
server does that sends at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.cells.figures import NOUNS, per_second, throughput
from venturi.common.units import Quantity
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Checks, Name, Proof, Reason, What
from venturi.measure.prove.printed import read_back
from venturi.measure.prove.relay import Plan
from venturi.targets.system import batches_as_asked, has_tables

__all__ = ["prove"]

RIGHT = 0.01
"""How right a rate must be."""
_RATE = 800.0
_SLOWER = 4.0
"""How much faster than the schedule the target is at least."""
_TRIED = 10
"""Batches a stream by which that is found out."""


def prove(bench: Bench, short: bool = False) -> Proof:
    checks, missing = Checks(), []
    batches = 240 if short else 480
    if bench.somebodys:
        return Proof(Name.RATE, Checks().outcome, (), [("rate", Reason.NO_LENGTH)])
    for operation in bench.operations[-1:] if short else bench.operations:
        if not batches_as_asked(bench.cell(operation=operation).parameters):
            missing.append((operation, Reason.NO_BATCHES))
            continue
        checks += attempts(bench, _schedule, operation, batches, 1 if short else bench.streams)
    if "get" in bench.operations:
        if bench.framed:
            checks += attempts(bench, _sent, batches // 2)
        else:
            missing.append(("sent", bench.unframed))
    if not bench.relayed:
        missing.append(("seen", bench.unframed))
    rates = [check for check in checks if check.what in (What.BYTES_RATE, What.ROWS_RATE)]
    off = [abs(float(check.found or 0.0) / float(check.expected) - 1) for check in rates]
    return Proof(Name.RATE, checks.outcome, checks, missing, figures={"off": max(off, default=0.0)})


def _schedule(bench: Bench, operation: str, batches: int, streams: int) -> Checks:
    """An open loop: slot k is due at k / rate, the last one is the end."""
    base = bench.cell(operation=operation).parameters
    rate, batches = _pace(bench, operation, batches, streams)
    plan = None
    if bench.relayed:
        framing = FRAMINGS.get(bench.system.scheme) if bench.framed else None
        plan = Plan(operation != "get", framing, _least(bench, operation))
    trial = bench.trial(
        plan=plan,
        operation=operation,
        streams=streams,
        rows_per_stream=int(base["rows_per_batch"]) * batches // streams,
        rate=rate,
        ack=_ack(base, operation),
    )
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], operation=operation)
    if not trial.ok:
        return checks
    due_ns = (batches - 1) * 1e9 / rate
    response = (trial.record["latency"] or {}).get("response") or {}
    # The last one ends when it has been answered; a few that took longer are none of its business.
    usual = next((float(ns) for percent, ns in response.get("percentiles") or () if percent >= 90.0), 0.0)
    _readings(checks, trial, batches, due_ns, "schedule", usual)
    _clock(checks, trial, operation)
    schedule = trial.record["schedule"] or {}
    checks.same(What.SCHEDULE, batches, schedule.get("intended"), "", operation=operation)
    checks.near(What.SCHEDULE, rate, schedule.get("rate"), "batches/s", 1e-9, operation=operation)
    if trial.relay is not None:
        _seen(checks, trial, batches, due_ns, operation, bench.framed)
    return checks


def _ack(base: Mapping[str, Any], operation: str) -> str | None:
    """As an application waits for its answers; None is left out."""
    return "batch" if operation == "put" and base.get("ack") is not None else None


def _pace(bench: Bench, operation: str, batches: int, streams: int) -> tuple[int, int]:
    """A rate (batches/s) that the target keeps with ease, and how many batches at it take as long as
    `batches` do at ours."""
    base = bench.cell(operation=operation).parameters
    rows = int(base["rows_per_batch"]) * _TRIED
    tried = bench.trial(
        operation=operation, streams=streams, rows_per_stream=rows, ack=_ack(base, operation), sample_ns=0
    )
    speed = (per_second(tried.record, "batches") if tried.ok else None) or _SLOWER * _RATE
    rate = int(max(1.0, min(_RATE, speed / _SLOWER)))
    return rate, streams * max(_TRIED, round(batches * rate / _RATE / streams))


def _sent(bench: Bench, batches: int) -> Checks:
    """A get of which a relay passes on a batch every 1 / rate."""
    rows = int(bench.cell(operation="get").parameters["rows_per_batch"])
    framing = FRAMINGS[bench.system.scheme]
    plan = Plan(False, framing, _least(bench, "get"), period_ns=int(1e9 / _RATE))
    trial = bench.trial(plan=plan, operation="get", streams=1, rows_per_stream=rows * batches)
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], operation="get", way="sent")
    if trial.ok:
        # The first may be one that warms the stream, before the clock.
        passed = trial.relay.passed_ns[-batches:]
        waited = trial.record["streams"][0]["first_batch_ns"]
        _readings(checks, trial, batches, float(passed[-1] - passed[0]), "sent", float(waited))
        _carried(checks, trial, batches, operation="get", way="sent")
    return checks


def _least(bench: Bench, operation: str) -> int:
    """Bytes that a message with a batch has at least."""
    cell = bench.cell(operation=operation)
    return max(1, int((cell.parameters["row_bytes"] or 0) * cell.parameters["rows_per_batch"]))


def _readings(checks: Checks, trial: Trial, batches: int, ns: float, way: str, wait_ns: float = 0.0) -> None:
    """What Venturi reads, where `batches` took `ns` from the first to the last, and it waited `wait_ns` more
    at most."""
    p, record, noisy = trial.cell.parameters, trial.record, trial.outside.noisy
    operation, rows = str(p["operation"]), float(batches * int(p["rows_per_batch"]))
    of: dict[str, Any] = {"operation": operation, "way": way}
    checks.same(What.BATCHES, batches, record["counts"]["batches"], "", **of)
    checks.same(What.ROWS, rows, record["counts"]["rows"], "rows", **of)
    # A batch cannot end before it is due, so noise makes a rate lower and never higher.
    high = 1 + 1e-6 if way == "schedule" else 1 + RIGHT
    nouns = f"{NOUNS.get(operation, 'row')}s/s"
    rates = [(What.ROWS_RATE, rows, per_second(record, "rows"), nouns)]
    if p["row_bytes"] and operation in ("get", "put"):
        amount = rows * float(p["row_bytes"])
        checks.same(What.PAYLOAD, amount, record["counts"]["payload_bytes"], "B", **of)
        rates.append((What.BYTES_RATE, amount, throughput(record), "B/s"))
    for what, amount, found, unit in rates:
        right, least = amount / ns * 1e9, amount / (ns + wait_ns) * 1e9
        checks.between(
            what, right, found, unit, least * (1 - RIGHT), right * high, moves="down", noisy=noisy, **of
        )
        if found is not None:
            checks.near(What.PRINTED, found, read_back(str(Quantity(found, unit=unit))), unit, 0.001, **of)


def _clock(checks: Checks, trial: Trial, operation: str) -> None:
    """The parts of a trial by its own clock fill the time that it took by ours; a table is made and
    dropped outside of them."""
    times, outside, target = trial.record["times"], trial.outside, trial.cell.parameters["target"]
    makes_table = operation == "upsert" or has_tables(target)
    parts = times["setup_ns"] + times["interval_ns"] + times["verify_ns"]
    checks.between(
        What.CLOCK,
        outside.elapsed_ns,
        parts,
        "ns",
        None if makes_table else outside.elapsed_ns * (1 - RIGHT) - 60e6,
        outside.elapsed_ns,
        moves="down",
        noisy=outside.noisy,
        operation=operation,
    )
    began = times["started_unix_ns"] - outside.began_unix_ns
    # The time of day may be set while it runs, by milliseconds.
    checks.between(
        What.CLOCK, 0.0, began, "ns", -5e6, outside.elapsed_ns + 5e6, operation=operation, clock="unix"
    )


def _seen(checks: Checks, trial: Trial, batches: int, due_ns: float, operation: str, framed: bool) -> None:
    """What the relay saw of it."""
    seen, counts, noisy = trial.relay, trial.record["counts"], trial.outside.noisy
    carried = seen.to_client if operation == "get" else seen.to_server
    checks.between(
        What.SEEN, counts["payload_bytes"], carried, "B", counts["payload_bytes"], operation=operation
    )
    checks.between(
        What.WIRE, carried, counts["wire_bytes"], "B", counts["payload_bytes"],
        seen.to_client + seen.to_server, operation=operation, way="relay",
    )  # fmt: skip
    if not framed or operation == "get":
        return
    _carried(checks, trial, batches, operation=operation)
    pieces = batches * int(trial.cell.parameters["rows_per_batch"]) if seen.rows else batches
    if len(seen.passed_ns) < pieces:
        return
    passed = seen.passed_ns[-1] - seen.passed_ns[-pieces]
    checks.near(
        What.CLOCK, passed, trial.record["times"]["interval_ns"], "ns", RIGHT, more=2e6, moves="down up",
        noisy=noisy, operation=operation, clock="relay",
    )  # fmt: skip
    checks.near(
        What.CLOCK,
        due_ns,
        passed,
        "ns",
        RIGHT,
        moves="down up",
        noisy=noisy,
        operation=operation,
        clock="schedule",
    )


def _carried(checks: Checks, trial: Trial, batches: int, **of: Any) -> None:
    """As many pieces as were counted went by; one a stream more may have warmed it."""
    p = trial.cell.parameters
    pieces = batches * int(p["rows_per_batch"]) if trial.relay.rows else batches
    checks.between(What.SEEN, pieces, trial.relay.batches, "", pieces, pieces + p["streams"], **of)
