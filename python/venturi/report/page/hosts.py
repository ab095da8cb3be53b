"""Places, hosts and loaders on the page, and the picture of who sent how much to whom."""

from __future__ import annotations

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.report.figures import flows
from venturi.report.figures.flows import BAR, Band, End
from venturi.report.page.markup import e
from venturi.report.text import hosts, summary
from venturi.report.text.sections import Section, Table

MOST_ROWS = 200
"""Rows of a table; of more loaders the slowest and the fastest."""
MOST_IN_A_CELL = 64
"""The same in the view of one cell, of which a page has thousands."""
MOST_PICTURES = 4


def places(results: Results) -> str:
    """Local against remote, and where one amount over more and more streams converges."""
    from venturi.report.text import places as texts

    found = [texts.section(results), texts.convergence(results)]
    return "".join(_section(one) for one in found if one is not None)


def loaders(results: Results) -> str:
    """Efficiency, the pictures, what each loader did."""
    pictures = "".join(_picture(results, cell) for cell in flows.chosen(results)[:MOST_PICTURES])
    found = [hosts.efficiency(results), hosts.loaders(results, MOST_ROWS)]
    tables = [_section(one) if one is not None else "" for one in found]
    return tables[0] + pictures + tables[1]


def _section(section: Section) -> str:
    out = [f"<h3>{e(section.title)}</h3>"]
    for table in section.tables:
        out.append(_table(table))
        out += [f"<p>{_sentence(text)}</p>" for text in table.sentences if text]
    return "".join(out) + f'<p class="quiet">{_sentence(section.note.removesuffix("."))}</p>'


def _sentence(text: str) -> str:
    return e(text[:1].upper() + text[1:] + ".").replace(" %", "&nbsp;%")


def _table(table: Table) -> str:
    head = "".join(
        f'<th{" class=t" if c.text else ""} scope="col">{e(c.head)}<small>{e(c.unit)}</small></th>'
        for c in table.columns
    )
    shown = min(table.rows, MOST_ROWS)
    body = "".join(
        "<tr>" + "".join(_td(c, c.cells[i]) for c in table.columns) + "</tr>" for i in range(shown)
    )
    more = f"{table.rows - shown:,} more rows: venturi report --format csv has all."
    return (
        f'<div class="tablebox" tabindex="0" role="region" aria-label="{e(table.caption)}"><table>'
        f"<caption>{e(table.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    ) + (f'<p class="quiet">{more}</p>' if shown < table.rows else "")


def _td(column: summary.Column, text: str) -> str:
    return f'<td class="t">{e(text)}</td>' if column.text else f"<td>{e(text)}</td>"


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


def _picture(results: Results, cell: Cell) -> str:
    """The words stand beside the drawing as text, so that they keep their size on a phone."""
    found = flows.picture(cell)
    if found is None:
        return ""
    high = found.height
    drawn = "".join(_band(band) for band in found.bands)
    drawn += "".join(_bar(end, 0.0) for end in found.senders)
    drawn += "".join(_bar(end, 100.0 - BAR) for end in found.receivers)
    return (
        f'<figure class="flows"><h3>{e(flows.title(results, cell))}</h3>'
        f'<div class="sankey" style="height:{high:.0f}px">{_ends(found.senders, high)}'
        f'<svg viewBox="0 0 100 {high:.1f}" preserveAspectRatio="none" role="img" '
        f'aria-label="{e(found.words)}">{drawn}</svg>{_ends(found.receivers, high)}</div>'
        f"<figcaption>{e(flows.caption(cell))}</figcaption></figure>"
    )


def _band(band: Band) -> str:
    (a, b), (c, d) = band.left, band.right
    left, right = BAR, 100.0 - BAR
    path = (
        f"M{left:g} {a:.2f}C50 {a:.2f} 50 {c:.2f} {right:g} {c:.2f}V{d:.2f}"
        f"C50 {d:.2f} 50 {b:.2f} {left:g} {b:.2f}Z"
    )
    return f'<path d="{path}" fill="{_variable(band.colour)}"><title>{e(band.words)}</title></path>'


def _bar(end: End, x: float) -> str:
    height = max(1.0, end.bottom - end.top)
    return (
        f'<rect x="{x:g}" y="{end.top:.2f}" width="{BAR:g}" height="{height:.2f}" '
        f'fill="{_variable(end.colour)}"/>'
    )


def _ends(found: tuple[End, ...], high: float) -> str:
    items = "".join(
        f'<li style="top:{100 * (end.top + end.bottom) / 2 / high:.2f}%"><b>{e(end.name)}</b>'
        f"{f'<small>{e(end.more)}</small>' if end.more else ''}<span>{e(end.amount)}</span></li>"
        for end in found
    )
    return f"<ul>{items}</ul>"


def _variable(role: str) -> str:
    return f"var(--{role.removeprefix('$').partition('/')[0]})"
