"""Places, hosts and loaders on the page."""

from __future__ import annotations

from markupsafe import Markup

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.report.page.markup import render
from venturi.report.text import hosts

MOST_ROWS = 200
"""Rows of a table; of more loaders the slowest and the fastest."""
MOST_IN_A_CELL = 64
"""The same in the view of one cell, of which a page has thousands."""


def places(results: Results) -> Markup:
    """Places side by side, and where one amount over more and more streams converges."""
    from venturi.report.text import places as texts
    from venturi.report.text import versions

    found = [versions.section(results), texts.section(results), texts.convergence(results)]
    return render("places", found=found, most_rows=MOST_ROWS)


def loaders(results: Results) -> Markup:
    """Efficiency, and what each loader did."""
    return render(
        "hosts",
        efficiency=hosts.efficiency(results),
        loaders=hosts.loaders(results, MOST_ROWS),
        most_rows=MOST_ROWS,
    )


def document(results: Results, cell: Cell) -> dict[str, object] | None:
    """The loaders of a cell for the page's script: heads and rows as text. None of a cell of one process."""
    from venturi.analysis.cells import hosts as analysis

    found = analysis.hosts(cell)
    if not found:
        return None
    behind = results.stragglers.get(cell.name, [])
    columns = hosts.columns(cell, hosts.few(found, MOST_IN_A_CELL), behind)
    return {
        "heads": [[c.head, c.unit, c.text] for c in columns],
        "rows": [list(row) for row in zip(*(c.cells for c in columns), strict=True)],
        "more": max(0, len(found) - MOST_IN_A_CELL),
    }
