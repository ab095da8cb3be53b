"""Warnings for a run that another tool measured: what is not known is said once, not cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis.advice import Advice
from venturi.analysis.advice import trials as own
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell

MOST_NOTES = 5
MOST_SOURCES = 3


def advise(cells: Sequence[Cell], measured: Sequence[Mapping[str, Any]]) -> list[Advice]:
    """All warnings of an imported run, the gravest first.

    `venturi run` cannot repeat it, so the next step is another one than for Venturi's own.
    """
    found = [
        _failed(measured),
        _known(measured),
        *_notes(cells),
        _next(own.too_short(cells), "Read them as the cost of starting as much as of moving"),
        _next(own.two_speeds(cells), "Look at when and where each was made"),
        _next(own.too_wide(cells), "Compare medians of many cells, not one cell with another"),
        _next(own.few(cells), "A margin needs repeats made with that tool"),
    ]
    return [advice for advice in found if advice is not None]


def _next(advice: Advice | None, text: str) -> Advice | None:
    return None if advice is None else replace(advice, next=text)


def _failed(measured: Sequence[Mapping[str, Any]]) -> Advice | None:
    failed = [r for r in measured if r.get("outcome") != "ok"]
    if not failed:
        return None
    return Advice(
        "failed",
        f"{len(failed)} of {len(measured)} imported trials failed",
        "their tool says so, or its output ends early; no figure counts them",
        "See the messages under failed trials",
    )


def _known(measured: Sequence[Mapping[str, Any]]) -> Advice:
    sources = list(dict.fromkeys(str(get(r, "imported", "source") or "another tool") for r in measured))
    named = ", ".join(sources[:MOST_SOURCES])
    if len(sources) > MOST_SOURCES:
        named += f" and {len(sources) - MOST_SOURCES} more"
    return Advice(
        "imported",
        f"measured by {named}, not by Venturi",
        "nothing is known of verification, ceilings and stages, and of the hosts only what the source tells",
        "What each figure means to its tool is in docs/import.md",
    )


def _notes(cells: Sequence[Cell]) -> list[Advice]:
    """What the importer had to say of single figures."""
    seen: dict[str, tuple[Cell, Mapping[str, Any], int]] = {}
    for cell in cells:
        for record in cell.records:
            note = get(record, "imported", "note")
            if isinstance(note, str) and note:
                first = seen.get(note, (cell, record, 0))
                seen[note] = (first[0], first[1], first[2] + 1)
    out = []
    for note, (cell, record, times) in list(seen.items())[:MOST_NOTES]:
        line = get(record, "imported", "line")
        where = str(get(record, "imported", "from") or "the source") + (f":{line}" if line else "")
        again = f" and {times - 1} more" if times > 1 else ""
        out.append(
            Advice("note", f"{own._label(cell, cells)}: {note}", f"from {where}{again}", "Copied as written")
        )
    if len(seen) > MOST_NOTES:
        out.append(
            Advice(
                "note",
                f"{len(seen) - MOST_NOTES} more figures have a note",
                "only the first are shown",
                'All: `venturi sql RUN "select cell, note from trials where note is not null"`',
            )
        )
    return out
