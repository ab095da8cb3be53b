"""Rates that are known in advance, by an open loop's schedule and by a relay that passes batches on at its
own pace. Venturi must report them, and the relay, whose counts and clock are its own, must agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.cells.figures import NOUNS, per_second, throughput
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.outcome import CheckKind, Checks, Outcome, Proof, ProofName, Reason
from venturi.measure.prove.relay import FRAMINGS, Plan
from venturi.targets.system import batches_as_configured, has_tables

RIGHT = 0.01
"""The error of a rate that is allowed."""
_RATE = 800.0
_SLOWER = 4.0
"""The target is at least this much faster than the schedule."""
_TRIED = 10
"""Batches per stream that find this out."""


def prove(bench: Bench, short: bool = False) -> Proof:
    if bench.is_user_table:
        return Proof(ProofName.RATE, Outcome.NOT_APPLICABLE, (), [("rate", Reason.NO_LENGTH)])
    checks, missing = Checks(), []
    batches = 240 if short else 480
    for operation in bench.operations[-1:] if short else bench.operations:
        if batches_as_configured(bench.cell(operation=operation).parameters):
            checks += bench.attempt(_schedule, operation, batches, 1 if short else bench.streams)
        else:
            missing.append((operation, Reason.NO_BATCHES))
    if "get" in bench.operations:
        if bench.why_not_framed is None:
            checks += bench.attempt(_paced, batches // 2)
        else:
            missing.append(("sent", bench.why_not_framed))
    if bench.why_not_relayed is not None:
        missing.append(("seen", bench.why_not_relayed))
    rates = [check for check in checks if check.what in (CheckKind.BYTES_RATE, CheckKind.ROWS_RATE)]
    off = [abs(float(check.found or 0.0) / float(check.expected) - 1) for check in rates]
    return Proof(ProofName.RATE, checks.outcome, checks, missing, figures={"off": max(off, default=0.0)})


def _schedule(bench: Bench, operation: str, batches: int, streams: int) -> Checks:
    """An open loop: slot k is due at k / rate, and the last one is the end."""
    base = bench.cell(operation=operation).parameters
    rows = int(base["rows_per_batch"])
    ack = _acknowledged(base, operation)
    # A rate that the target keeps with ease; as many batches at it as take the same time.
    tried = bench.trial(
        operation=operation, streams=streams, rows_per_stream=rows * _TRIED, ack=ack, sample_ns=0
    )
    speed = (per_second(tried.line(), "batches") if tried.ok else None) or _SLOWER * _RATE
    rate = int(max(1.0, min(_RATE, speed / _SLOWER)))
    batches = streams * max(_TRIED, round(batches * rate / _RATE / streams))
    plan = None
    if bench.why_not_relayed is None:
        framing = FRAMINGS[bench.system.scheme] if bench.why_not_framed is None else None
        plan = Plan(operation != "get", framing, bench.batch_bytes(operation))
    trial = bench.trial(
        plan=plan, operation=operation, streams=streams, rows_per_stream=rows * batches // streams,
        rate=rate, ack=ack,
    )  # fmt: skip
    checks = Checks()
    checks.same(CheckKind.OUTCOME, "ok", trial.record["outcome"], operation=operation)
    if not trial.ok:
        return checks
    response = (trial.record["latency"] or {}).get("response") or {}
    # The trial ends with the answer to the last batch; a few that took longer do not matter.
    usual = next((float(ns) for percent, ns in response.get("percentiles") or () if percent >= 90.0), 0.0)
    _readings(checks, trial, batches, (batches - 1) * 1e9 / rate, usual, way="schedule")
    _clock(checks, trial, operation)
    schedule = trial.record["schedule"] or {}
    checks.same(CheckKind.SCHEDULE, batches, schedule.get("intended"), "", operation=operation)
    checks.near(CheckKind.SCHEDULE, rate, schedule.get("rate"), "batches/s", 1e-9, operation=operation)
    if trial.relay is not None:
        _relayed(checks, trial, batches, operation, framed=plan is not None and plan.framing is not None)
    return checks


def _acknowledged(base: Mapping[str, Any], operation: str) -> str | None:
    """As an application waits for its answers; None is left out."""
    return "batch" if operation == "put" and base.get("ack") is not None else None


def _paced(bench: Bench, batches: int) -> Checks:
    """A get of which a relay passes on a batch every 1 / rate."""
    rows = int(bench.cell(operation="get").parameters["rows_per_batch"])
    framing = FRAMINGS[bench.system.scheme]
    plan = Plan(False, framing, bench.batch_bytes("get"), period_ns=int(1e9 / _RATE))
    trial = bench.trial(plan=plan, operation="get", streams=1, rows_per_stream=rows * batches)
    checks = Checks()
    checks.same(CheckKind.OUTCOME, "ok", trial.record["outcome"], operation="get", way="sent")
    if trial.ok:
        # A first batch may warm the stream, before the clock starts.
        passed = trial.relay.passed_ns[-batches:]
        waited = trial.record["streams"][0]["first_batch_ns"]
        _readings(checks, trial, batches, float(passed[-1] - passed[0]), float(waited), way="sent")
        _carried(checks, trial, batches, operation="get", way="sent")
    return checks


def _readings(checks: Checks, trial: Trial, batches: int, ns: float, wait_ns: float, way: str) -> None:
    """Venturi's figures, if `batches` took `ns` from the first to the last and at most `wait_ns` more."""
    p, record, noisy = trial.cell.parameters, trial.record, trial.external.noisy
    operation, rows = str(p["operation"]), float(batches * int(p["rows_per_batch"]))
    of: dict[str, Any] = {"operation": operation, "way": way}
    checks.same(CheckKind.BATCHES, batches, record["counts"]["batches"], "", **of)
    checks.same(CheckKind.ROWS, rows, record["counts"]["rows"], "rows", **of)
    # A batch cannot end before it is due, so noise makes a rate lower and never higher.
    high = 1 + 1e-6 if way == "schedule" else 1 + RIGHT
    unit = f"{NOUNS.get(operation, 'row')}s/s"
    rates = [(CheckKind.ROWS_RATE, rows, per_second(trial.line(), "rows"), unit)]
    if p["row_bytes"] and operation in ("get", "put"):
        amount = rows * float(p["row_bytes"])
        checks.same(CheckKind.PAYLOAD, amount, record["counts"]["payload_bytes"], "B", **of)
        rates.append((CheckKind.BYTES_RATE, amount, throughput(trial.line()), "B/s"))
    for what, amount, found, unit in rates:
        right, least = amount / ns * 1e9, amount / (ns + wait_ns) * 1e9
        checks.between(
            what, right, found, unit, least * (1 - RIGHT), right * high, moves="down", noisy=noisy, **of
        )


def _clock(checks: Checks, trial: Trial, operation: str) -> None:
    """The parts of a trial fill the time that it took by the system's clock. A table is made and dropped
    outside of them."""
    times, external = trial.record["times"], trial.external
    makes_table = operation == "upsert" or has_tables(trial.cell.parameters["target"])
    parts = times["setup_ns"] + times["interval_ns"] + times["verify_ns"]
    least = None if makes_table else external.elapsed_ns * (1 - RIGHT) - 60e6
    checks.between(
        CheckKind.CLOCK, external.elapsed_ns, parts, "ns", least, external.elapsed_ns, moves="down",
        noisy=external.noisy, operation=operation,
    )  # fmt: skip
    began = times["started_unix_ns"] - external.began_unix_ns
    # The time of day may be set while it runs, by milliseconds.
    checks.between(
        CheckKind.CLOCK, 0.0, began, "ns", -5e6, external.elapsed_ns + 5e6, operation=operation, clock="unix"
    )


def _relayed(checks: Checks, trial: Trial, batches: int, operation: str, framed: bool) -> None:
    """What the relay counted and timed."""
    seen, counts = trial.relay, trial.record["counts"]
    carried = seen.to_client if operation == "get" else seen.to_server
    payload, both = counts["payload_bytes"], seen.to_client + seen.to_server
    checks.between(CheckKind.SEEN, payload, carried, "B", payload, operation=operation)
    checks.between(
        CheckKind.WIRE, carried, counts["wire_bytes"], "B", payload, both, operation=operation, way="relay"
    )
    if not framed or operation == "get":
        return
    pieces = _carried(checks, trial, batches, operation=operation)
    if len(seen.passed_ns) >= pieces:
        passed = seen.passed_ns[-1] - seen.passed_ns[-pieces]
        checks.near(
            CheckKind.CLOCK, passed, trial.record["times"]["interval_ns"], "ns", RIGHT, more=2e6,
            moves="down up", noisy=trial.external.noisy, operation=operation, clock="relay",
        )  # fmt: skip


def _carried(checks: Checks, trial: Trial, batches: int, **of: Any) -> int:
    """The relay passed as many pieces as were counted; one more per stream may have warmed it."""
    p = trial.cell.parameters
    pieces = batches * int(p["rows_per_batch"]) if trial.relay.rows else batches
    checks.between(CheckKind.SEEN, pieces, trial.relay.batches, "", pieces, pieces + p["streams"], **of)
    return pieces
