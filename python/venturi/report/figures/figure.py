"""A figure: panels of series with axes, a title that says the finding, and a caption; and its colours.

Texts are plain and may hold anything a server or a scenario said; who draws escapes them.

A colour is a role (`$c0`, `$ink`, `$c0/0.2` with an opacity) for which a theme has the colour: one figure
serves light, dark and print. The hues keep apart for readers with colour-deficient sight (blue and orange
first, lightness differing along the list), and each has a contrast of 3:1 or more against its paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


def shape_text(shape: Shape, axis: str, at: str = "") -> str:
    """What a curve does, as titles say it. `at`: the point of the claim."""
    return {
        Shape.RISING: f"still rises at {at}",
        Shape.FLAT: f"is flat from {at}",
        Shape.FLAT_THROUGHOUT: f"is flat over {axis}",
        Shape.FALLING: f"falls beyond {at}",
        Shape.UNDECIDED: f"over {axis}: whether more gains cannot be told",
    }[shape]


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
MOST_TICKS = 12


def line(
    name: str, points: Iterable[tuple[Any, Any]], colour: str, dash: Any = "solid", **more: Any
) -> Series:
    """A line without marks at its points."""
    x, y = map(list, zip(*points, strict=True))
    return Series(name, x, y, colour, dash=dash, markers=False, **more)


def ticks(values: Iterable[float]) -> list[Any] | None:
    """These values, if an axis has room for a tick at each."""
    found = sorted(set(values))
    return found if len(found) <= MOST_TICKS else None


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

    def medians(
        self,
        name: str,
        x: Iterable[Any],
        found: Iterable[Quantity],
        colour: str,
        mark: Mark = "points",
        **more: Any,
    ) -> Series:
        """A series of medians with the ends of their intervals."""
        ends = zip(*((self(q.value), self(q.low), self(q.high)) for q in found), strict=True)
        y, low, high = map(list, ends)
        return Series(name, list(x), y, colour, mark, low=low, high=high, **more)


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


LIGHT = {
    "ink": "#1c2733", "muted": "#5b6773", "grid": "#e4e8ec", "paper": "#ffffff", "ceiling": "#7a838d",
    "reference": "#a0713a", "wait": "#d3d8de", "w1": "#c3cbd4", "w2": "#e6d7ae", "w3": "#c9d9e8",
    "w4": "#dccfe3", "w5": "#e8cdc0", "other": "#9aa3ad", "c0": "#1f6fb4", "c1": "#d2591f", "c2": "#21856a",
    "c3": "#8450ab", "c4": "#a67c00", "c5": "#bd3f78", "c6": "#2b8aa3", "c7": "#66707b",
}  # fmt: skip
DARK = {
    "ink": "#e3e8ed", "muted": "#97a2ad", "grid": "#2b343d", "paper": "#161c22", "ceiling": "#8f99a3",
    "reference": "#d3a56c", "wait": "#3c4650", "w1": "#4c5763", "w2": "#5b5132", "w3": "#324a60",
    "w4": "#4d3f57", "w5": "#5c443a", "other": "#6b7580", "c0": "#63abee", "c1": "#f0905b", "c2": "#58c79f",
    "c3": "#bb92e5", "c4": "#dcb54a", "c5": "#ec82b0", "c6": "#69c8de", "c7": "#a3acb7",
}  # fmt: skip
SERIES = tuple(f"$c{i}" for i in range(8))
STAGES = {
    "generate": "$c4", "encode": "$c3", "send": "$c0", "receive": "$c2", "unpack": "$c7", "decode": "$c6",
    "apply": "$c1", "plugin": "$c7", "driver": "$c7", "verify": "$c5", "await_input": "$wait",
    "await_output": "$w1", "await_window": "$w2", "await_reply": "$w3", "await_schedule": "$w4",
    "await_thread": "$w5", "wait": "$wait",
}  # fmt: skip
"""One colour a stage, in the order of the pipeline. Those that wait are pale: no work was done in them."""

VERDICTS = {
    "load-generator": "$c1", "cores": "$c0", "stage": "$c3", "link": "$c2", "disk": "$c4", "memory": "$c6",
    "flow-control": "$c5", "server": "$c7", "schedule": "$w3", "unknown": "$other",
}  # fmt: skip
"""One colour a kind of verdict."""


def series_colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def verdict_colour(kind: str) -> str:
    return VERDICTS.get(kind, "$other")
