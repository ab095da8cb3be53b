"""Which difference this machine can find now: a thing does not differ from itself, and differs from one with
5 % more work. Trials are interleaved and judged as `venturi compare` judges."""

from __future__ import annotations

import math
import time
from typing import Any

from venturi.analysis.cells.figures import main_rate
from venturi.analysis.statistics.difference import LEAST_REPEATS, Difference, differences
from venturi.measure.prove.bench import Bench, Trial
from venturi.measure.prove.outcome import CheckKind, Checks, Outcome, Proof, ProofName, Reason

MORE = 0.05
_WORK_NS = 400_000
_BATCHES = 60
CHANCE = 0.001
"""A thing differs from itself less often than this by chance: then it is Venturi's fault."""


def prove(bench: Bench, short: bool = False) -> Proof:
    worked = bench.can_be_slowed and not bench.is_user_table
    if bench.is_user_table and not main_rate(_trial(bench, bench.operations[0], {}).line()):
        return Proof(ProofName.DIFFERENCE, Outcome.NOT_APPLICABLE, (), [("difference", Reason.NO_LENGTH)])
    # Twice at most: chance alone must not stop a run.
    checks = bench.attempt(_compared, worked, 5 if short else 7, most=2)
    missing = [] if worked else [("more", Reason.NO_HANDICAP)]
    figures: dict[str, float] = {}
    for check in checks:
        if check.what is CheckKind.ALIKE and check.of["detectable"] is not None:
            figures["detectable"] = check.of["detectable"]
        if check.what is CheckKind.MORE and isinstance(check.found, float):
            figures["more"] = check.found - 1
    return Proof(ProofName.DIFFERENCE, checks.outcome, checks, missing, figures=figures)


def _compared(bench: Bench, worked: bool, repeats: int) -> Checks:
    operation = bench.operations[0]
    base = {"handicap": f"verify={_WORK_NS}ns"} if worked else {}
    more = {"handicap": f"verify={int(_WORK_NS * (1 + MORE))}ns"}
    sides: list[list[float]] = [[], [], []]
    noisy, checks = False, Checks()
    began = time.monotonic()
    for repeat in range(repeats):
        if repeat >= LEAST_REPEATS and not bench.has_time_for_more(began):
            break
        # In turns, so that drift affects all.
        for side in (0, 1, 2) if repeat % 2 == 0 else (2, 1, 0):
            if side == 2 and not worked:
                continue
            trial = _trial(bench, operation, more if side == 2 else base)
            if not trial.ok:
                checks.same(CheckKind.OUTCOME, "ok", trial.record["outcome"], operation=operation)
                return checks
            noisy = noisy or trial.external.noisy
            sides[side].append(main_rate(trial.line()) or math.nan)
    alike = differences([(sides[0], sides[1])])[0]
    checks.between(
        CheckKind.ALIKE, CHANCE, alike.p, "", CHANCE, 1.0, moves="down", noisy=noisy,
        figure="p", ratio=round(alike.ratio, 4), detectable=_detectable(alike),
    )  # fmt: skip
    if worked:
        checks += _more(differences([(sides[0] + sides[1], sides[2])])[0], noisy)
    return checks


def _trial(bench: Bench, operation: str, changes: dict[str, Any]) -> Trial:
    if bench.is_user_table:
        return bench.trial(operation=operation, duration="100ms")
    rows = int(bench.cell(operation=operation).parameters["rows_per_batch"])
    return bench.trial(
        operation=operation, streams=1, rows_per_stream=rows * _BATCHES, sample_ns=0, **changes
    )


def _more(found: Difference, noisy: bool) -> Checks:
    """The one with more work: its ratio holds what was added, and is found if so much is detectable."""
    checks = Checks()
    detectable = _detectable(found)
    right = 1 / (1 + MORE)
    within = (found.low or 0.0) <= right * (1 + MORE / 2) and (found.high or math.inf) >= right * (
        1 - MORE / 2
    )
    checks.between(
        CheckKind.MORE, right, found.ratio, "", right * 0.97, right * 1.03, moves="down up",
        noisy=noisy or within,
    )  # fmt: skip
    # Without a spread nothing is known to be detectable.
    hidden = detectable is None or detectable > MORE
    checks.between(
        CheckKind.DETECTABLE, 0.05, found.p, "", 0.0, 0.05, moves="up", noisy=noisy or hidden,
        figure="p", detectable=detectable,
    )  # fmt: skip
    return checks


def _detectable(found: Difference) -> float | None:
    """The least share that would be found."""
    return math.expm1(found.detectable) if found.detectable is not None else None
