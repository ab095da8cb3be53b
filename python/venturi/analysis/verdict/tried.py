"""What a run has tried already: nobody is told to try it again.

A remedy that asks for a setting of this run becomes what was measured there, or goes where that was no
faster; so does one along an axis on which no further cell is faster, or on which throughput falls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from venturi.analysis.cells.series import figure, followed
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.verdict.causes import RemedyKind
from venturi.analysis.verdict.types import Gain, ParameterEffect, Remedy
from venturi.analysis.verdict.words.findings import change
from venturi.analysis.words.wording import nouns_of

__all__ = ["Tried", "gain"]

_FOLLOWS = ("threads",)
"""Of these a remedy says that they follow another parameter, as `threads` the streams."""


class Tried:
    """The cells of a run, to be found by those that differ in one parameter."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._along: dict[str, dict[str, list[Cell]]] = {}

    @cached_property
    def _names(self) -> list[str]:
        """The run's parameters that vary; threads only where streams do not say how many there are."""
        names = varying(self._cells)
        pairs = {(c.parameters.get("streams"), c.parameters.get("threads")) for c in self._cells}
        follow = "streams" in names and len({streams for streams, _ in pairs}) == len(pairs)
        return [n for n in names if not (follow and n == "threads")]

    def _others(self, cell: Cell, name: str) -> str:
        """All that a cell shares with those that differ in this parameter alone."""
        return repr([cell.operation, *(cell.parameters.get(n) for n in self._names if n != name)])

    def _alike(self, cell: Cell, name: str) -> list[Cell]:
        """The cells that differ from this one in this parameter alone."""
        groups = self._along.get(name)
        if groups is None:
            groups = self._along[name] = {}
            for one in self._cells:
                groups.setdefault(self._others(one, name), []).append(one)
        return [c for c in groups[self._others(cell, name)] if c is not cell]

    def settled(self, remedy: Remedy, cell: Cell) -> Remedy | None:
        """The remedy, for this cell; as a measurement where the run has one that is surely faster; None where
        what was tried failed, or gained nothing."""
        asked = {n: v for n, v in remedy.changes.items() if not (n in _FOLLOWS and v == "streams")}
        if len(asked) != 1 or (name := next(iter(asked))) not in self._names:
            return remedy
        now, wanted = cell.parameters.get(name), asked[name]
        along = [(c, c.parameters.get(name)) for c in self._alike(cell, name)]
        if any(c.failed and not c.good and _reaches(wanted, now, value) for c, value in along):
            return None
        good = [(c, value) for c, value in along if figure(c).known]
        if name == "rows_per_batch" and not followed([cell, *(c for c, _ in good)]):
            return remedy
        if not (_number(now) and _number(wanted)):
            return self._measured(remedy, name, cell, [c for c, value in good if value == wanted])
        ahead = [c for c, value in good if _ahead(now, value, wanted)]
        if ahead:
            return self._measured(remedy, name, cell, ahead)
        # None lies further on; those behind may say that it falls towards here.
        falls = any((found := gain(cell, c)) is not None and found.sure for c, _ in good)
        return None if falls else remedy

    def _measured(self, remedy: Remedy, name: str, cell: Cell, there: Sequence[Cell]) -> Remedy | None:
        """The best of these as a remedy; itself where there is none."""
        if not there:
            return remedy
        best = max(there, key=lambda c: figure(c).value or 0.0)
        found = gain(cell, best)
        if found is None or not found.sure:
            return None
        value = best.parameters.get(name)
        told = change(ParameterEffect(name, cell.parameters.get(name), value, found), nouns_of(cell))
        follow = {n: v for n, v in remedy.changes.items() if n != name}
        return replace(
            remedy,
            why=RemedyKind.MEASURED,
            changes={name: value, **follow},
            numbers={"change": told, "gain": found.factor},
        )


def gain(base: Cell, other: Cell) -> Gain | None:
    """The gain of `other` over `base`; None where either was not measured."""
    one, two = figure(base), figure(other)
    if not (one.known and two.known) or not one.value or two.value is None or one.unit != two.unit:
        return None
    low = two.low / one.high - 1 if two.low is not None and one.high else None
    high = two.high / one.low - 1 if two.high is not None and one.low else None
    return Gain(two.value / one.value - 1, low, high)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _ahead(here: Any, there: Any, asked: Any) -> bool:
    """Whether that lies from here on the side of what is asked."""
    return _number(there) and bool(here < there if here < asked else there < here)


def _reaches(asked: Any, here: Any, there: Any) -> bool:
    """Whether who goes from here to what is asked comes to that or passes it."""
    if all(map(_number, (asked, here, there))):
        return bool(here < there <= asked or asked <= there < here)
    return bool(asked == there)
