"""What a run tried in vain: nobody is told to try it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from venturi.analysis.cells.summary import Cell, varying


class Failed:
    """The cells of a run that failed in every trial, to be found by those that differ in one parameter."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        in_vain = [cell for cell in cells if cell.failed and not cell.good]
        self._names = varying(cells) if in_vain else []
        self._tried: dict[str, list[Any]] = {}
        for cell in in_vain:
            for name in self._names:
                self._tried.setdefault(self._others(cell, name), []).append(cell.parameters.get(name))

    def _others(self, cell: Cell, name: str) -> str:
        """All that a cell shares with those that differ in this parameter alone."""
        return repr([name, cell.operation, *(cell.parameters.get(n) for n in self._names if n != name)])

    def asked_for(self, changes: Mapping[str, Any], cell: Cell) -> bool:
        """Whether these changes of this cell ask for what failed, or for more of it."""
        return any(
            _reaches(changes[name], cell.parameters.get(name), there)
            for name in self._names
            if name in changes
            for there in self._tried.get(self._others(cell, name), ())
        )


def _reaches(asked: Any, here: Any, there: Any) -> bool:
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in (asked, here, there)):
        return bool(here < there <= asked or asked <= there < here)
    return bool(asked == there)
