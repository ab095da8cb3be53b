"""Cells along one axis, all else equal: how far throughput rises, where its knee is, what it gains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import RANGE_BELOW
from venturi.analysis.verdict.causes import FindingKind
from venturi.analysis.verdict.types import Gain
from venturi.common.units import Quantity

__all__ = ["AMOUNT", "PARALLEL", "Series", "figure", "gain", "numeric", "precedence", "series"]

PARALLEL = (
    *("streams", "in_flight", "encoders", "decoders", "hosts", "loaders", "clients", "partitions"),
    "threads",
)
"""Axes along which twice as much should move twice as much, until something is full."""
AMOUNT = ("rows_per_stream", "bytes_per_stream", "duration_ns", "rows", "bytes")
"""Axes that only say how much was moved: they show what starting costs."""
LINEAR = 0.9
"""A point is on the line while it reaches this share of it, counting from the first point."""
KNEE = 0.9
"""METHOD: the knee is where 90 % of the peak is reached."""
MOST_REPEATS = 50
"""More repeats than this are not proposed: something else is wrong with the measurement."""
SERIES = 3
"""Series shown of one axis and operation; a large matrix has hundreds, which say the same again and again."""


def figure(cell: Cell) -> Quantity:
    """What is compared: bytes/s; rows/s of upserts, and where an import has no bytes."""
    return cell.main


def gain(base: Cell, other: Cell) -> Gain | None:
    """The gain of `other` over `base`; None where either was not measured."""
    one, two = figure(base), figure(other)
    if not (one.known and two.known) or not one.value or two.value is None or one.unit != two.unit:
        return None
    low = two.low / one.high - 1 if two.low is not None and one.high else None
    high = two.high / one.low - 1 if two.high is not None and one.low else None
    return Gain(two.value / one.value - 1, low, high)


@dataclass(frozen=True)
class Series:
    """Cells that differ in one numeric parameter only, in its order."""

    axis: str
    cells: tuple[Cell, ...]
    fixed: tuple[tuple[str, Any], ...]

    @property
    def peak(self) -> Cell:
        return max(self.cells, key=lambda c: figure(c).value or 0.0)

    def at(self, cell: Cell) -> float:
        return float(cell.parameters[self.axis])

    @property
    def linear(self) -> Cell | None:
        """The last cell on the straight line through the first one; None where the second is off already."""
        first = self.cells[0]
        slope = (figure(first).value or 0.0) / self.at(first) if self.at(first) > 0 else 0.0
        last = None
        for cell in self.cells[1:]:
            found = figure(cell)
            # The upper end of its interval: a point that may lie on the line is not said to have left it.
            if slope <= 0 or (found.high or found.value or 0.0) < LINEAR * slope * self.at(cell):
                break
            last = cell
        return last

    @property
    def undecided(self) -> bool:
        """Whether the most was reached at the last point alone, and its interval allows that nothing was
        gained there: then nobody knows whether more would gain, and it is flat nowhere yet."""
        return self.knee is self.cells[-1] and not self.rises

    @property
    def knee(self) -> Cell:
        """The first cell with 90 % of the peak."""
        most = figure(self.peak).value or 0.0
        return next(c for c in self.cells if (figure(c).value or 0.0) >= KNEE * most)

    @property
    def rises(self) -> bool:
        """Whether the last step is still a gain beyond doubt, or, without margins, of a tenth or more."""
        step = gain(self.cells[-2], self.cells[-1])
        if step is None or self.peak is not self.cells[-1]:
            return False
        return step.counts and step.value > 0

    @property
    def kind(self) -> FindingKind:
        if self.rises:
            return FindingKind.RISING
        if self.knee is self.cells[0]:
            return FindingKind.FLAT_THROUGHOUT
        return FindingKind.UNDECIDED if self.undecided else FindingKind.FLAT

    @property
    def place(self) -> Cell:
        """The cell whose verdict is that of the series."""
        return self.cells[-1] if self.rises else self.knee

    @property
    def telling(self) -> int | None:
        """How many repeats would narrow the last step's interval to one side of nothing, were their spread
        the same: it shrinks with their square root. None over `MOST_REPEATS`."""
        one, two = (figure(c) for c in self.cells[-2:])
        step = (two.value or 0.0) - (one.value or 0.0)
        width = sum((q.high - q.low) / 2 for q in (one, two) if q.high is not None and q.low is not None)
        done = min(c.good for c in self.cells[-2:])
        wanted = (
            max(RANGE_BELOW, done + 1, math.ceil(done * (width / step) ** 2))
            if step > 0
            else MOST_REPEATS + 1
        )
        return wanted if wanted <= MOST_REPEATS else None


def precedence(axis: str) -> tuple[int, str]:
    rank = PARALLEL.index(axis) if axis in PARALLEL else 50 if axis not in AMOUNT else 99
    return rank, axis


def numeric(cells: Sequence[Cell], name: str) -> bool:
    values = [c.parameters.get(name) for c in cells]
    good = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return good and len(set(values)) > 1


def series(cells: Sequence[Cell], axis: str, others: Sequence[str]) -> list[Series]:
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(repr(cell.parameters.get(n)) for n in others), []).append(cell)
    made = []
    for group in groups.values():
        distinct: dict[float, Cell] = {}
        for cell in group:
            distinct.setdefault(float(cell.parameters[axis]), cell)
        if len(distinct) > 1:
            ordered = tuple(distinct[x] for x in sorted(distinct))
            made.append(Series(axis, ordered, tuple((n, ordered[0].parameters.get(n)) for n in others)))
    return _chosen(made, axis)


def _chosen(made: list[Series], axis: str) -> list[Series]:
    """The series worth telling: with the most data moved, of the others the best and the most modest."""
    for name in AMOUNT:
        sizes = [v for s in made if isinstance(v := dict(s.fixed).get(name), int | float)]
        if name != axis and len(set(sizes)) > 1:
            made = [s for s in made if dict(s.fixed).get(name) == max(sizes)]
    if axis not in PARALLEL and made:
        # One series over sizes is enough: the best.
        return [max(made, key=lambda s: figure(s.peak).value or 0.0)]
    # A series of two points adds nothing to one of ten.
    longest = max((len(s.cells) for s in made), default=0)
    made = [s for s in made if len(s.cells) > longest / 2]
    if len(made) <= SERIES:
        return made
    ordered = sorted(made, key=lambda s: figure(s.peak).value or 0.0)
    kept = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    return [s for s in made if s in kept]
