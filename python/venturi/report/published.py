"""What the authors of a published benchmark wrote as their result, and what this run says of the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from venturi.analysis.cells.summary import Cell, by_operation
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import count, plural
from venturi.report import summary
from venturi.store import reference as published


@dataclass(frozen=True)
class Beside:
    label: str
    """Of the published figures: operation and hardware."""
    said: str
    here: tuple[str, ...]
    """A thought each."""


def beside(results: Results, name: str | None = None) -> list[Beside]:
    """Of every published set that measured what this run did. `name` of a set or a group; None: what the
    scenario says, which may be none."""
    chosen = name or results.default_reference
    if chosen is None or results.imported:
        return []
    groups = by_operation(results.cells)
    out = []
    for one in published.sets(chosen):
        cells = _same_place(groups.get(one.operation, []), one.place)
        if any(c.good for c in cells):
            label = f"{one.operation}, {one.label}"
            out.append(Beside(label, one.said or _figures(one), _here(results, cells, one.axis)))
    return out


def _same_place(cells: Sequence[Cell], place: str | None) -> list[Cell]:
    return [c for c in cells if place is None or c.parameters.get("place") in (None, place)]


def _here(results: Results, cells: list[Cell], axis: str | None) -> tuple[str, ...]:
    names = {c.name for c in cells}
    found = [f for f in results.findings if axis is not None and f.axis == axis and names.issuperset(f.cells)]
    return (summary.fastest(cells), *(labels.plain(text) for f in found for text in (f.title, *f.lines[:1])))


def _figures(one: published.ReferenceSet) -> str:
    rows = sorted(one.rows(), key=lambda row: row["hosts"])
    return ", ".join(f"{count(r['rows_per_second'])} rows/s on {plural(r['hosts'], 'host')}" for r in rows)
