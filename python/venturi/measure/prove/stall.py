"""A stall of a known length in an open loop: the response time has it, as the schedule says, and the service
time has it once.

A relay holds one batch up. Batches that fall due meanwhile are sent late, one after the other; the time of
each from when it was due follows from the schedule, the length of the stall and how long a batch takes
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

from venturi.common import hdr
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.framing import FRAMINGS
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What
from venturi.measure.prove.relay import Plan

__all__ = ["prove", "responses"]

STALL_NS = 200_000_000
_RATE, _BATCHES, _AT = 500.0, 250, 80
_PERCENTILES = (50.0, 75.0, 90.0, 95.0, 99.0, 100.0)


def prove(bench: Bench, short: bool = False) -> Proof:
    operation = next((one for one in bench.operations if one != "get"), None)
    if operation is None:
        return Proof(Name.STALL, Outcome.IMPOSSIBLE, (), [("stall", Reason.NO_ACKNOWLEDGEMENT)])
    if not bench.framed:
        return Proof(Name.STALL, Outcome.IMPOSSIBLE, (), [("stall", bench.unframed)])
    if "ack" not in bench.options(operation):
        return Proof(Name.STALL, Outcome.IMPOSSIBLE, (), [("stall", Reason.NO_ACKNOWLEDGEMENT)])
    checks = attempts(bench, _stalled, operation)
    return Proof(Name.STALL, checks.outcome, checks)


def _stalled(bench: Bench, operation: str) -> Checks:
    cell = bench.cell(operation=operation)
    least = int(cell.parameters["row_bytes"] * cell.parameters["rows_per_batch"])
    plan = Plan(True, FRAMINGS[bench.system.scheme], least, stall_at=_AT, stall_ns=STALL_NS)
    trial = bench.trial(
        plan=plan, operation=operation, streams=1, rate=_RATE, ack="batch",
        rows_per_stream=_BATCHES * cell.parameters["rows_per_batch"],
    )  # fmt: skip
    checks = Checks()
    checks.same(What.OUTCOME, "ok", trial.record["outcome"])
    if not trial.ok:
        return checks
    record, seen, noisy = trial.record, trial.relay, trial.outside.noisy
    service, response = record["latency"]["service"], record["latency"]["response"] or {}
    stall = seen.stalled_ns
    for name, one in (("service", service), ("response", response)):
        checks.same(What.BATCHES, _BATCHES, one.get("count"), "", latency=name)
    checks.same(What.SCHEDULE, _BATCHES, record["schedule"]["intended"])
    at = _AT - (seen.batches - _BATCHES)
    counts = hdr.decode(service["hdr"])
    # No batch took less than the least, and most took no more than the slow ones.
    least_ns, slow_ns = min(counts), hdr.percentile(counts, 90)
    low, high = responses(stall, least_ns * 0.999, at), responses(stall, slow_ns, at)
    for percent in _PERCENTILES:
        found = next((ns for p, ns in response.get("percentiles", ()) if p == percent), None)
        checks.between(
            What.PERCENTILE, _rank(high, percent), found, "ns", _rank(low, percent) * 0.998,
            _rank(high, percent) * 1.002 + 2e6, moves="up", noisy=noisy, percent=percent,
        )  # fmt: skip
    checks.between(
        What.SERVICE, stall, service["max"], "ns", stall * 0.998, stall * 1.01 + 2e6, moves="up", noisy=noisy
    )
    ninetieth = hdr.percentile(counts, 90)
    checks.between(What.SERVICE, 0.0, ninetieth, "ns", 0.0, stall / 4, moves="up", noisy=noisy, percent=90.0)
    # Those that fell due while one was held up could not be sent in time.
    late = int(stall * _RATE / 1e9) - 1
    checks.between(What.SCHEDULE, late, record["schedule"]["late"], "", late, _BATCHES)
    lag = stall - 1e9 / _RATE
    checks.between(
        What.SCHEDULE, lag, record["schedule"]["max_lag_ns"], "ns", lag * 0.998, lag * 1.01 + 3e6, moves="up",
        noisy=noisy, of_slot="lag",
    )  # fmt: skip
    return checks


def responses(stall_ns: float, service_ns: float, at: int) -> list[float]:
    """From when each batch was due to when it was done, where each takes so long and that one the stall
    more."""
    found, free = [], 0.0
    for slot in range(_BATCHES):
        due = slot * 1e9 / _RATE
        free = max(due, free) + service_ns + (stall_ns if slot == at else 0.0)
        found.append(free - due)
    return sorted(found)


def _rank(values: Sequence[float], percent: float) -> float:
    """The least value with so many at or below it."""
    return values[max(1, -(-len(values) * int(percent * 100) // 10_000)) - 1]
