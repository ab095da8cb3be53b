"""The trial that stands for a cell where only one can be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.figures import main_rate, per_second
from venturi.analysis.cells.summary import Cell, best, speed
from venturi.common.conditions import Condition
from venturi.common.errors import VenturiError


def chosen(cells: Sequence[Cell], where: Sequence[str] | None, run: str) -> list[Cell]:
    """The cells for which all conditions hold, as "streams <= 8"; a parameter that a cell has not is null.

    Raises `VenturiError` for a condition that is none, and where no cell is left.
    """
    kept = list(cells)
    names = {name for cell in cells for name in cell.parameters}
    for text in where or []:
        try:
            condition = Condition(text)
            kept = [cell for cell in kept if condition(dict.fromkeys(names) | cell.parameters)]
        except ValueError as error:
            raise VenturiError(f"--where: {error}", hint='as in --where "streams <= 8"') from None
    if not kept:
        raise VenturiError(
            f"{run}: there are no trials" if not cells else f"{run}: --where leaves no cell",
            hint=f"see what was measured: venturi show {run}",
        )
    return kept


def representative(cells: Sequence[Cell], most: int) -> list[Cell]:
    """At most `most` cells: all, else the fastest of each operation, place and stream count, thinned
    evenly."""
    known = [c for c in cells if speed(c, cells).known]
    if len(known) <= most:
        return known
    groups: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in known:
        groups.setdefault(
            (cell.operation, cell.parameters.get("place"), cell.parameters.get("streams")), []
        ).append(cell)
    chosen = [b for members in groups.values() if (b := best(members))]
    if len(chosen) <= most:
        return chosen
    step = (len(chosen) - 1) / (most - 1)
    return [chosen[round(i * step)] for i in range(most)]


def choice_note(shown: int, cells: Sequence[Cell]) -> str:
    total = sum(speed(c, cells).known for c in cells)
    return "" if shown >= total else f" {shown} of {total} cells are shown: the fastest of each stream count."


def middle_trial(cell: Cell) -> Any:
    """The trial whose throughput is the median (the lower of the two middle ones)."""
    ranked = sorted(cell.records, key=lambda r: main_rate(r) or per_second(r, "rows") or 0.0)
    return ranked[(len(ranked) - 1) // 2] if ranked else None
