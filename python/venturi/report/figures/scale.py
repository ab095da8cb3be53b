"""In which unit a figure draws cells: payload a second, or rows a second of what is counted in rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from venturi.analysis.cells.summary import Cell, basis
from venturi.common.units import FACTORS, Quantity, pick_unit

MB = 1e6


@dataclass(frozen=True)
class Scale:
    """`measure` is the cell's field that is drawn; `factor` base units are one of `unit`."""

    measure: str
    unit: str
    factor: float
    label: str

    def of(self, cell: Cell) -> Quantity:
        """The cell's figure, in its base unit."""
        found: Quantity = getattr(cell, self.measure)
        return found

    def __call__(self, value: float | None) -> float | None:
        """A value in base units as it is drawn."""
        return None if value is None else value / self.factor


BYTES = Scale("throughput", "MB/s", MB, "throughput (payload), MB/s")


def scale_of(cells: Sequence[Cell]) -> Scale:
    """The scale of cells that are compared in one panel."""
    measure = basis(cells) if cells else "throughput"
    if measure == "throughput":
        return BYTES
    quantities = [getattr(c, measure) for c in cells]
    unit = pick_unit(quantities[0].unit, [q.value for q in quantities])
    return Scale(measure, unit, FACTORS[unit][1], f"throughput, {unit}")


def label(found: Sequence[Scale]) -> str:
    """What stands at the axis of a figure whose panels have these scales; panels of rows beside panels of
    bytes have a label of their own."""
    return BYTES.label if not found or BYTES in found else found[0].label
