"""Upserts in the four lines of the published MemSQL and Cassandra benchmark.

    51,983,500 rows in total
    5,198,350 rows per second
    Min query latency: 0.055 ms
    Max query latency: 172.780 ms

One block a cell, of the trial in the middle by rows/s; a query is a batch. `venturi import` reads them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from venturi.analysis.cells import batches
from venturi.analysis.cells.choice import middle_trial
from venturi.analysis.cells.figures import numeric, per_second
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.errors import VenturiError

_TOLD = ("hosts", "streams", "rows_per_batch", "in_flight", "duration_ns")


def text(results: Results) -> str:
    """All cells that upsert. Raises `VenturiError` (usage) for a run without any that succeeded."""
    blocks = [block(cell) for cell in results.cells if cell.answered and cell.rows.known]
    if not blocks:
        raise VenturiError(
            f"--format seed: {results.name} has no upsert that succeeded",
            hint="it prints rows and query latency as the upsert benchmark does; --format table has the rest",
        )
    return "\n".join(blocks)


def _word(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float) else labels.plain(value)


def block(cell: Cell) -> str:
    """One cell: a heading that says which trial this is, and its lines; latencies where there are any."""
    trial = middle_trial(cell)
    target = urlsplit(str(cell.parameters.get("target") or ""))
    facts: dict[str, object] = {"target": target.scheme or target.path}
    facts |= {n: v for n in _TOLD if (v := cell.parameters.get(n)) is not None}
    if interval := numeric(trial, "times", "interval_ns"):
        facts["interval_ns"] = interval
    told = " ".join(f"{name}={_word(value)}" for name, value in facts.items())
    repeat = trial.get("repeat")
    # Of an even number there is no trial in the middle.
    middle = "the median" if cell.good % 2 else "the lower of the middle two"
    which = f"repeat {repeat} of {cell.trials}, {middle} by rows a second" if cell.trials > 1 else "one trial"
    lines = [f"### cell {labels.plain(cell.name)}: {told}; {which}"]
    rows, rate = numeric(trial, "counts", "rows"), per_second(trial, "rows")
    lines += [f"{rows or 0:,.0f} rows in total", f"{rate or 0:,.0f} rows per second"]
    for word, figure in (("Min", "min"), ("Max", "max")):
        spent = batches.latency(trial, "service", figure)
        if spent is not None:
            lines.append(f"{word} query latency: {spent / 1e6:.3f} ms")
    return "\n".join(lines) + "\n"
