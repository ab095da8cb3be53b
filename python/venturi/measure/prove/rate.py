"""A stream of a known rate reads that rate: in bytes, in rows, as it is printed, and as a relay on its way
has counted and timed it by clocks of its own.

Two ways to a known rate: an open loop on a schedule, and a relay that passes batches on at its own pace, as a
server does that sends at it.
"""

from __future__ import annotations

import re
from typing import Any

from venturi.analysis.cells.summary import NOUNS, per_second, throughput
from venturi.common.units import Quantity
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Checks, Name, Proof, Reason, What
from venturi.measure.prove.relay import Plan

__all__ = ["prove"]

RIGHT = 0.01
"""How right a rate must be."""
_RATE = 800.0
_UNITS = {"B/s": 1.0, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "k": 1e3, "M": 1e6, "": 1.0}
"""What a unit means, known here by itself: the table that prints is what is put to the test."""


def prove(bench: Bench, short: bool = False) -> Proof:
    checks, missing = Checks(), []
    batches = 240 if short else 480
    if bench.somebodys:
        return Proof(Name.RATE, Checks().outcome, (), [("rate", Reason.NO_LENGTH)])
    for operation in bench.operations[-1:] if short else bench.operations:
        checks += attempts(bench, _schedule, operation, batches, 1 if short else bench.streams)
    if "get" in bench.operations:
        if bench.framed:
            checks += attempts(bench, _sent, batches // 2)
        else:
            missing.append(("sent", Reason.NO_STREAM))
    if not bench.relayed:
        missing.append(("seen", Reason.SEVERAL if bench.several else Reason.NO_PLACE))
    rates = [check for check in checks if check.what in (What.BYTES_RATE, What.ROWS_RATE)]
    off = [abs(float(check.found or 0.0) / float(check.expected) - 1) for check in rates]
    return Proof(Name.RATE, checks.outcome, checks, missing, figures={"off": max(off, default=0.0)})


def _schedule(bench: Bench, operation: str, batches: int, streams: int) -> Checks:
    """An open loop: slot k is due at k / rate, the last one is the end. (A put of fixed work finds out at the
    slot after its last that there is no more: as many slots as it has streams are within what is allowed.)"""
    base = bench.cell(operation=operation).parameters
    plan = None
    if bench.relayed:
        framing = FRAMINGS.get(bench.system.scheme) if bench.framed else None
        plan = Plan(operation != "get", framing, _least(bench, operation))
    trial = bench.trial(
        plan=plan,
        operation=operation,
        streams=streams,
        rows_per_stream=int(base["rows_per_batch"]) * batches // streams,
        rate=_RATE,
        # As an application waits for its answers; None is left out.
        ack="batch" if operation == "put" and base.get("ack") is not None else None,
    )
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"], operation=operation)
    if not trial.ok:
        return checks
    due_ns = (batches - 1) * 1e9 / _RATE
    _readings(checks, trial, batches, due_ns, "schedule")
    _clock(checks, trial, operation)
    schedule = trial.record["schedule"] or {}
    checks.same(What.SCHEDULE, batches, schedule.get("intended"), "", operation=operation)
    checks.near(What.SCHEDULE, _RATE, schedule.get("rate"), "batches/s", 1e-9, operation=operation)
    if trial.relay is not None:
        _seen(checks, trial, batches, due_ns, operation)
    return checks


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
        _readings(checks, trial, batches, float(passed[-1] - passed[0]), "sent")
        _carried(checks, trial, batches, operation="get", way="sent")
    return checks


def _least(bench: Bench, operation: str) -> int:
    """Bytes that a message with a batch has at least."""
    cell = bench.cell(operation=operation)
    return max(1, int((cell.parameters["row_bytes"] or 0) * cell.parameters["rows_per_batch"]))


def _readings(checks: Checks, trial: Trial, batches: int, ns: float, way: str) -> None:
    """What Venturi reads, where `batches` took `ns` from the first to the last."""
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
        right = amount / ns * 1e9
        checks.between(
            what, right, found, unit, right * (1 - RIGHT), right * high, moves="down", noisy=noisy, **of
        )
        if found is not None:
            checks.near(What.PRINTED, found, _read_back(str(Quantity(found, unit=unit))), unit, 0.001, **of)


def _read_back(text: str) -> float | None:
    """The number that a printed figure means."""
    if (found := re.fullmatch(r"([\d,.]+) (\S+)", text)) is None:
        return None
    unit = found[2]
    factor = _UNITS.get(
        unit if unit.endswith("B/s") else unit.removesuffix("rows/s").removesuffix("points/s")
    )
    return None if factor is None else float(found[1].replace(",", "")) * factor


def _clock(checks: Checks, trial: Trial, operation: str) -> None:
    """The parts of a trial by its own clock fill the time that it took by ours."""
    times, outside = trial.record["times"], trial.outside
    parts = times["setup_ns"] + times["interval_ns"] + times["verify_ns"]
    checks.between(
        What.CLOCK,
        outside.elapsed_ns,
        parts,
        "ns",
        outside.elapsed_ns * (1 - RIGHT) - 60e6,
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


def _seen(checks: Checks, trial: Trial, batches: int, due_ns: float, operation: str) -> None:
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
    if not seen.batches or operation == "get":
        return
    _carried(checks, trial, batches, operation=operation)
    pieces = batches * int(trial.cell.parameters["rows_per_batch"]) if seen.rows else batches
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
