"""Places, hosts and loaders on the page, and the picture of who sent how much to whom."""

from __future__ import annotations

from markupsafe import Markup

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.report import hosts
from venturi.report.figures import flows
from venturi.report.figures.flows import BAR, Band
from venturi.report.page.markup import render

MOST_ROWS = 200
"""Rows of a table; of more loaders the slowest and the fastest."""
MOST_IN_A_CELL = 64
"""The same in the view of one cell, of which a page has thousands."""
MOST_PICTURES = 4


def places(results: Results) -> Markup:
    """Places side by side, and where one amount over more and more streams converges."""
    from venturi.report import places as texts
    from venturi.report import versions

    found = [versions.section(results), texts.section(results), texts.convergence(results)]
    return render("places", found=found, most_rows=MOST_ROWS)


def loaders(results: Results) -> Markup:
    """Efficiency, the pictures, what each loader did."""
    chosen = flows.chosen(results)[:MOST_PICTURES]
    pictures = [(flows.title(results, c), flows.caption(c), flows.picture(c)) for c in chosen]
    return render(
        "hosts",
        efficiency=hosts.efficiency(results),
        loaders=hosts.loaders(results, MOST_ROWS),
        pictures=[one for one in pictures if one[2] is not None],
        most_rows=MOST_ROWS,
        width=BAR,
        outline=_outline,
        variable=lambda role: f"var(--{role.removeprefix('$').partition('/')[0]})",
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


def _outline(band: Band) -> str:
    (a, b), (c, d) = band.left, band.right
    left, right = BAR, 100.0 - BAR
    return (
        f"M{left:g} {a:.2f}C50 {a:.2f} 50 {c:.2f} {right:g} {c:.2f}V{d:.2f}"
        f"C50 {d:.2f} 50 {b:.2f} {left:g} {b:.2f}Z"
    )
