"""How far the engine alone is from the result: what it can do where nothing is moved anywhere."""

from __future__ import annotations

from typing import Any

from venturi.analysis.cells.figures import per_second
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What
from venturi.targets.system import batches_as_asked

__all__ = ["prove"]

LEAST, LEAST_MADE = 5.0, 1.5
"""How many times the result the engine alone must do; where it makes the points meanwhile, which is most of
its work."""
_ROWS_PER_BATCH, _DURATION = "4096", "80ms"


_ROWS = 500_000


def prove(bench: Bench, short: bool = False) -> Proof:
    if bench.somebodys:
        return Proof(Name.HEADROOM, Outcome.IMPOSSIBLE, (), [("headroom", Reason.NO_LENGTH)])
    checks, figures, missing = Checks(), {}, []
    for operation in bench.operations:
        if not batches_as_asked(bench.cell(operation=operation).parameters):
            missing.append((operation, Reason.NO_BATCHES))
            continue
        found = attempts(bench, _one, operation)
        checks += found
        figures[operation] = next((float(c.found) for c in found if c.what is What.HEADROOM and c.found), 0.0)
    return Proof(Name.HEADROOM, checks.outcome, checks, missing, figures=figures)


def _one(bench: Bench, operation: str) -> Checks:
    changes: dict[str, Any] = {
        "operation": operation,
        "rows_per_stream": None,
        "points_per_stream": None,
        "duration": _DURATION,
    }
    if operation in ("get", "put"):
        changes["rows_per_batch"] = _ROWS_PER_BATCH
    if operation == "ingest":
        changes["generate"] = "inline"
    if not bench.takes(**changes):
        # Rows that are written into a table first are of a number that is known.
        changes |= {"duration": None, "rows_per_stream": _ROWS}
    result = bench.trial(sample_ns=0, **changes)
    alone = bench.engine_alone(result.cell)
    checks = Checks()
    for name, outcome in (("result", result.record["outcome"]), ("engine", alone["outcome"])):
        checks.same(What.OUTCOME, "ok", outcome, operation=operation, part=name)
    if not result.ok or alone["outcome"] != "ok":
        return checks
    # In batches, which are the same size in both: an upsert's bytes are the dialect's affair.
    reached = per_second(result.record, "batches") or 0.0
    able = alone["batches"] / alone["interval_ns"] * 1e9
    least = LEAST_MADE if operation == "ingest" else LEAST
    checks.between(
        What.HEADROOM, least, able / reached if reached else None, "", least, None, moves="down",
        noisy=result.outside.noisy, operation=operation, reached=reached, able=able,
    )  # fmt: skip
    return checks
