"""Places of one system side by side, each against the first: two builds of a server, say."""

from __future__ import annotations

from venturi.analysis.cells import places
from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare.runs import Comparison, Side, compare_by
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.errors import VenturiError
from venturi.report import comparison
from venturi.report.sections import Section, Table
from venturi.report.summary import Column
from venturi.targets.system import scheme_of

__all__ = ["headline", "section"]


def _comparisons(results: Results) -> list[Comparison]:
    """None of one place, of local beside remote, which has a section of its own, of unlike systems, of trials
    that did not take turns, and of places whose cells differ in more than the address."""
    named = {str(place) for cell in results.cells if (place := cell.parameters.get("place")) is not None}
    systems = {scheme_of(str(cell.parameters.get("target"))) for cell in results.cells}
    if len(named) < 2 or named == {places.LOCAL, places.REMOTE} or len(systems) > 1 or results.imported:
        return []
    try:
        found = compare_by(results, "place")
    except VenturiError:  # no cell of one is a cell of another
        return []
    return [one for one in found if all(_settings(row.base) == _settings(row.run) for row in one.rows)]


def _settings(cell: Cell) -> dict[str, object]:
    return {name: value for name, value in cell.parameters.items() if name not in ("place", "target")}


def headline(results: Results) -> list[str]:
    """`new against old: slower, ratio 0.958 [0.941..0.975]`; of several cells how many are slower."""
    out = []
    for one in _comparisons(results):
        told = comparison.summary(one)[0]
        if len(one.rows) == 1:
            told = f"{one.rows[0].word}, ratio {one.rows[0].ratio}"
        out.append(f"{_name(one.run)} against {_name(one.base)}: {told}")
    return out


def section(results: Results) -> Section | None:
    """A table a place but the first, a row a cell."""
    found = _comparisons(results)
    if not found:
        return None
    tables = [
        Table(f"{_name(one.run)} against {_name(one.base)}", _columns(one), comparison.summary(one))
        for one in found
    ]
    note = (
        "Trials of all places took turns, so the machine's drift hits them alike; ratio: of geometric means; "
        "p: how often chance alone would show such a difference, corrected for the number of cells"
    )
    return Section("Places side by side", tables, note, captioned=True)


def _name(side: Side) -> str:
    return labels.plain(side.cells[0].parameters["place"])


def _columns(one: Comparison) -> list[Column]:
    heads = comparison.heads(one, _name(one.base), _name(one.run))
    cells = zip(*comparison.cells(one), strict=True)
    # Names, figures and verdicts stay where room is short.
    ranks = (0, 1, 1, 0, 0, 2, 0)
    return [
        Column(head, "", list(column), rank, text=text)
        for head, column, rank, text in zip(heads, cells, ranks, comparison.LEFT, strict=True)
    ]
