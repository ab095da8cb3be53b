"""What a figure is: panels of series with axes, a title that says the finding, and a caption.

Texts are plain and may hold anything a server or a scenario said; who draws escapes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from venturi.analysis.cells.summary import Cell, basis
from venturi.analysis.statistics.curve import Shape
from venturi.common.units import FACTORS, Quantity, pick_unit

Mark = Literal["line", "points", "area", "box", "bar"]
Axis = Literal["linear", "log", "category"]


@dataclass
class Series:
    """One line, row of boxes or set of stacked bars.

    `colour` is a role of the palette. For a `line` and for `points`, `low` and `high` are the ends of the
    interval at each point. An `area` stands on the areas before it in its panel. For a `box`, x repeats the
    category for every observation. For a `bar`, y is the category and x the length.
    """

    name: str
    x: list[Any]
    y: list[Any]
    colour: str
    mark: Mark = "line"
    low: list[float | None] | None = None
    high: list[float | None] | None = None
    dash: Literal["solid", "dash", "dot"] = "solid"
    markers: bool = True
    notes: list[str] | None = None
    """A word for each point, shown when pointed at."""
    links: list[str] | None = None
    """The cell of each point, which the page opens when it is clicked."""
    named_at: Literal["begin", "end", "after", "before"] | None = None
    """Where the name stands at the line itself, for lines of one colour which no legend tells apart: above
    its begin or its end, or after or before its end."""


@dataclass
class Panel:
    """One set of axes."""

    title: str
    series: list[Series] = field(default_factory=list)
    y_label: str | None = None
    """Where panels do not share the figure's."""
    low: bool = False
    """Whether it may be low: one of many over the same x."""


@dataclass(frozen=True)
class Claim:
    """What a title claims of a curve: of these cells, along this parameter."""

    axis: str
    cells: tuple[str, ...]
    """Their names, in the order of the axis."""
    shape: Shape
    at: float | None
    """As `Curve.at`."""


@dataclass
class Figure:
    """A named figure. `columns` is how many panels stand side by side where there is room."""

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    panels: list[Panel]
    x_scale: Axis = "linear"
    y_scale: Axis = "linear"
    columns: int = 2
    y_from_zero: bool = True
    categories: list[str] | None = None
    """The order of a category axis."""
    x_ticks: list[Any] | None = None
    """Where ticks stand, for axes with few distinct values."""
    x_texts: list[str] | None = None
    """What stands at these ticks where that is not their number."""
    x_range: tuple[float, float] | None = None
    shared_x: bool = False
    """Panels stand one above the other over one x axis."""
    claims: tuple[Claim, ...] = ()
    """What the title says of curves, as values."""

    @property
    def names(self) -> dict[str, Series]:
        """One series for each name, for a legend that all panels share."""
        found: dict[str, Series] = {}
        for panel in self.panels:
            for series in panel.series:
                found.setdefault(series.name, series)
        return found


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
