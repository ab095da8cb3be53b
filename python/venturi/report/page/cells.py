"""The cells of the page: their tables, and what the view of one cell shows, as data for the page's script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from venturi.analysis import selection, wording
from venturi.analysis.cells import hosts as loaders
from venturi.analysis.cells.machines import unproven
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.results import Results
from venturi.report import cell as cells_text
from venturi.report import draw, hosts, reason, summary, terminal
from venturi.report.document import Column
from venturi.report.figures import palette, pipeline, timeline
from venturi.report.figures.figure import Figure
from venturi.report.names import name_of
from venturi.report.page.markup import MOST_ROWS, render

BEST_ROWS = 30
"""What a longer table holds; the script has the others and keeps only those in sight in the page."""
MOST_LOADERS = 64
"""In the view of one cell, of which a page has thousands."""
MOST_LISTED = 100
"""Cells offered by the menu of the view; all others are opened from their table."""


def tables(results: Results, numbers: dict[str, int]) -> Markup:
    """A table an operation. `numbers` are the cells' places in `documents`."""
    found = []
    for operation, cells in by_operation(results.cells).items():
        short = len(cells) <= MOST_ROWS
        chosen = {c.name for c in (cells if short else selection.representative(cells, BEST_ROWS))}
        found.append(
            {
                "operation": operation,
                "columns": summary.columns(
                    cells, True, reason.column(results, cells), unproven(results.environment)
                ),
                "cells": cells,
                "rows": [i for i, c in enumerate(cells) if c.name in chosen],
                "note": "" if short else "the fastest of each stream count",
                "top": best(cells),
            }
        )
    return render("summary", tables=found, numbers=numbers, kind_of=kind_of)


def kind_of(column: Column, text: str) -> str:
    """The class of a table's cell; the script sets the same for rows that it makes."""
    if column.head == "fail" and text != "0":
        return "bad"
    if column.head == "verdict":
        return "t v flagged" if text.startswith(reason.FLAG) else "t v"
    return "t" if column.text else "main" if column.head == "median" else ""


def long_tables(results: Results, numbers: dict[str, int]) -> dict[str, Any]:
    """The rows of tables that are too long for the page itself, by the table's number."""
    out: dict[str, Any] = {}
    for index, cells in enumerate(by_operation(results.cells).values()):
        if len(cells) > MOST_ROWS:
            columns = summary.columns(
                cells, True, reason.column(results, cells), unproven(results.environment)
            )
            out[str(index)] = {
                "columns": [[wording.plain(text) for text in c.cells] for c in columns],
                "kinds": [kind_of(c, "0") for c in columns],
                "cells": [numbers[c.name] for c in cells],
            }
    return out


def documents(results: Results) -> list[dict[str, Any]]:
    """What the view of one cell shows, for every cell, in the run's order. Texts are plain; the script sets
    them as text, never as HTML."""
    return [_document(results, c) for c in results.cells]


def _document(results: Results, cell: Cell) -> dict[str, Any]:
    verdict = results.verdicts.get(cell.name)
    drawn = pipeline.of(cell, verdict)
    plain = wording.plain
    out: dict[str, Any] = {
        "name": plain(cell.name),
        "label": plain(name_of(results, cell)),
        "figures": [[name, plain(text)] for name, text in cells_text.figures(cell)],
        "limits": [
            [
                plain(x.name),
                x.rate.text(cells_text.unit_of(cell, x.rate)),
                round(x.share.value, 4) if x.share.value is not None else None,
                x.binding,
                " ".join(text for text in (x.margin and f"{x.margin} %", x.mark) if text),
            ]
            for x in cells_text.limits(cell)
        ],
        "cost": cells_text.cost(cell),
    }
    if (listed := _loaders(results, cell)) is not None:
        out["loaders"] = listed
    if drawn is not None:
        out["pipeline"] = _pipeline(drawn)
    if (v := verdict) is not None:
        out["verdict"] = {
            "kind": v.kind,
            "title": plain(v.title),
            "lines": [plain(line) for line in v.lines],
            "confidence": v.confidence,
            "evidence": [plain(text) for text in cells_text.evidence(cell, v, drawn)],
            "next": [[(plain(text), is_code) for text, is_code in r.parts] for r in v.remedies],
            "flagged": v.flagged,
        }
    return out


def _loaders(results: Results, cell: Cell) -> dict[str, object] | None:
    """The loaders of a cell for the page's script: heads and rows as text. None of a cell of one process."""
    found = loaders.hosts(cell)
    if not found:
        return None
    behind = results.stragglers.get(cell.name, [])
    columns = hosts.columns(cell, hosts.few(found, MOST_LOADERS), behind)
    return {
        "heads": [[c.head, c.unit, c.text] for c in columns],
        "rows": [list(row) for row in zip(*(c.cells for c in columns), strict=True)],
        "more": max(0, len(found) - MOST_LOADERS),
    }


def _pipeline(found: pipeline.Pipeline) -> dict[str, Any]:
    def parts(these: Sequence[pipeline.Part]) -> list[list[Any]]:
        return [[wording.plain(p.stage), round(p.share, 4)] for p in these]

    return {
        "sides": [
            {
                "end": s.end,
                "workers": s.workers,
                "work": parts(s.work),
                "besides": parts(s.besides),
                "waiting": [[pipeline.WAITS[p.stage], round(p.share, 4), p.stage] for p in s.waiting],
            }
            for s in found.sides
        ],
        "missing": found.missing,
        "narrowest": found.narrowest,
        "words": pipeline.sentence(found),
    }


def timelines(results: Results, numbers: dict[str, int]) -> dict[str, Any]:
    """The timelines that the page holds, by the number of their cell."""
    out: dict[str, Any] = {}
    for cell in timeline.chosen(results):
        figure = timeline.timeline(results, cell)
        if figure is not None:
            out[str(numbers[cell.name])] = {
                "spec": draw.stack(figure),
                "height": 160 + 84 * (len(figure.panels) - 1),
                "caption": wording.plain(figure.caption),
                "legend": _legend(figure),
                "words": wording.plain(figure.title),
            }
    return out


def _legend(figure: Figure) -> list[list[str]]:
    return [[name, s.colour, s.mark, s.dash] for name, s in figure.names.items()]


def listed(results: Results, with_timeline: Sequence[str]) -> list[int]:
    """The cells that the menu offers: all, or those with a timeline and the best of the others."""
    cells = results.cells
    if len(cells) <= MOST_LISTED:
        return list(range(len(cells)))
    names = {c.name for c in selection.representative(cells, MOST_LISTED)}
    wanted = {i for i, c in enumerate(cells) if c.name in names} | set(map(int, with_timeline))
    return sorted(wanted)[:MOST_LISTED]


def colours() -> dict[str, dict[str, str]]:
    """Roles of stages and of kinds of verdicts, for the script."""
    return {"stages": palette.STAGES, "verdicts": palette.VERDICTS}


def view(results: Results, listed_cells: Sequence[int]) -> Markup:
    """The frame of the view of one cell."""
    top = reason.leading(results) or (results.cells[0] if results.cells else None)
    if top is None:
        return Markup()
    chosen = results.cells.index(top)
    return render(
        "cell",
        results=results,
        chosen=chosen,
        listed=listed_cells,
        offered=sorted({*listed_cells, chosen}),
        words=terminal.text(cells_text.document(results, top, 96), 96).rstrip(),
    )
