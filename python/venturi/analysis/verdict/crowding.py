"""What one cell cannot know of itself and its sweep can: whether having more in flight moved more.

Where neither end is busy, batches may be too few, or they may queue before a lock or a log within the server.
A cell with fewer in flight that does as much settles it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from venturi.analysis.cells.summary import Cell, numeric
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.types import Verdict
from venturi.analysis.verdict.words import hits

FEWER = 1.5
"""So many times fewer batches in flight make a cell one to compare with."""
NO_MORE = 0.05
"""A gain up to this share is none: the machine alone may do that."""
_LANES = ("streams", "threads", "in_flight")


def against_fewer(cells: Sequence[Cell], found: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """These verdicts; those that say too little is in flight are corrected by cells with less in flight."""
    out = dict(found)
    asked = [c for c in cells if c.answered and c.name in out and out[c.name].cause is Cause.LITTLE_IN_FLIGHT]
    if not asked:
        return out
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(_others(cell), []).append(cell)
    for cell in asked:
        fewer = [c for c in groups[_others(cell)] if lanes(c) * FEWER <= lanes(cell) and _as_much(c, cell)]
        if fewer:
            out[cell.name] = _limited(out[cell.name], cell, max(fewer, key=lanes))
    return out


def lanes(cell: Cell) -> float:
    """Batches in flight at a time."""
    return float(cell.parameters.get("streams") or 1) * float(cell.parameters.get("in_flight") or 1)


def _others(cell: Cell) -> str:
    return repr(sorted((k, repr(v)) for k, v in cell.parameters.items() if k not in _LANES))


def _as_much(fewer: Cell, more: Cell) -> bool:
    one, two = fewer.main.value, more.main.value
    return one is not None and two is not None and one > 0 and two <= (1 + NO_MORE) * one


def _limited(verdict: Verdict, cell: Cell, fewer: Cell) -> Verdict:
    numbers = {"batches_in_flight": lanes(cell), "fewer_in_flight": lanes(fewer)}
    for name, one in (("batch_ns", cell), ("fewer_batch_ns", fewer)):
        took = [t for r in one.records if (t := numeric(r, "latency", "service", "mean")) is not None]
        numbers |= {name: sum(took) / len(took)} if took else {}
    cause = Cause.SERVER_LIMIT
    return replace(
        verdict,
        kind=cause.kind,
        cause=cause,
        end="server",
        stage=None,
        title=hits.TITLES[cause],
        sentence=hits.limit(numbers, fewer.main),
        remedies=tuple(r for r in verdict.remedies if not set(r.changes) & set(_LANES)),
        numbers=numbers,
    )
