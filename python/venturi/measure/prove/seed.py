"""Other values of the same kind: other checksums, the same speed.

Repeats that scatter so far that another speed would pass for the same tell nothing.
"""

from __future__ import annotations

import math
import time

from venturi.analysis.cells.figures import main_rate
from venturi.analysis.statistics.difference import LEAST_REPEATS, differences
from venturi.measure.prove.attempts import attempts
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.difference import CHANCE
from venturi.measure.prove.outcome import Checks, Name, Outcome, Proof, Reason, What

__all__ = ["prove"]

_SEEDS = (1, 2)
_BATCHES = 100
_SAME = 0.1
"""A speed that lies so far off is not called the same, whatever chance can do."""


def prove(bench: Bench, short: bool = False) -> Proof:
    if bench.somebodys or bench.cell().parameters.get("seed") is None:
        return Proof(Name.SEED, Outcome.IMPOSSIBLE, (), [("seed", Reason.NO_SEED)])
    # Twice at most: what chance does once in a thousand, it did to one of 30 proofs.
    checks = attempts(bench, _compared, most=2)
    told = any(check.what is What.SEED for check in checks)
    alike = next((check for check in checks if check.what is What.ALIKE), None)
    figures = {"ratio": alike.of["ratio"]} if alike is not None else {}
    missing = [("checksum", Reason.NO_CHECKSUM)] if alike is not None and not told else []
    return Proof(Name.SEED, checks.outcome, checks, missing, figures=figures)


def _compared(bench: Bench) -> Checks:
    operation = bench.operations[0]
    rows = int(bench.cell().parameters["rows_per_batch"])
    sides: dict[int, list[float]] = {seed: [] for seed in _SEEDS}
    sums: dict[int, set[str]] = {seed: set() for seed in _SEEDS}
    noisy, checks = False, Checks()
    began = time.monotonic()
    for repeat in range(5):
        if repeat >= LEAST_REPEATS and not bench.goes_on(began):
            break
        for seed in _SEEDS if repeat % 2 == 0 else _SEEDS[::-1]:
            trial = bench.trial(
                operation=operation, streams=1, rows_per_stream=rows * _BATCHES, seed=seed, sample_ns=0
            )
            if not trial.ok:
                checks.same(What.OUTCOME, "ok", trial.record["outcome"], seed=seed)
                return checks
            noisy = noisy or trial.outside.noisy
            sides[seed].append(main_rate(trial.line()) or math.nan)
            sums[seed].add(_digest(trial.record["verification"]))
    if not any("None" in found for found in sums.values()):
        for seed in _SEEDS:
            checks.same(What.SEED, 1, len(sums[seed]), "", seed=seed)
        checks.same(What.SEED, len(_SEEDS), len(set().union(*sums.values())), "", part="distinct")
    found = differences([(sides[_SEEDS[0]], sides[_SEEDS[1]])])[0]
    checks.between(
        What.ALIKE, CHANCE, found.p, "", CHANCE, 1.0, moves="down", noisy=noisy, ratio=round(found.ratio, 4)
    )
    checks.near(What.ALIKE, 1.0, found.ratio, "", _SAME, moves="down up", noisy=True, part="ratio")
    return checks


def _digest(verification: dict[str, object]) -> str:
    """What tells these values from others: the checksum over them, or a database's sums."""
    return str(verification.get("checksum") or verification.get("sums"))
