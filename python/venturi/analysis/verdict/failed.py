"""What a run tried in vain: nobody is told to try it again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.verdict.rerun import flag_of, spelled


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

    def asked_for(self, text: str, cell: Cell) -> bool:
        """Whether a command in this text, made for this cell, asks for what failed, or for more of it."""
        for name in self._names:
            _, found, after = text.partition(f"{flag_of(name)} ")
            if found and any(
                _reaches(after.split(" ")[0].rstrip(".;,"), cell.parameters.get(name), there)
                for there in self._tried.get(self._others(cell, name), ())
            ):
                return True
        return False


def _reaches(asked: str, here: Any, there: Any) -> bool:
    if asked.isdigit() and all(isinstance(v, int | float) and not isinstance(v, bool) for v in (here, there)):
        return bool(here < there <= int(asked) or int(asked) <= there < here)
    return asked == ("none" if there is None else spelled("", there))
