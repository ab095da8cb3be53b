"""Cells over many runs as one HTML page, with a picture each; it needs neither a network nor JavaScript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from venturi.analysis.compare.history import Series
from venturi.analysis.words import labels
from venturi.common.units import FACTORS, pick_unit
from venturi.report import history as texts
from venturi.report.page.markup import render

__all__ = ["page"]

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 220, 80, 24, 12


@dataclass(frozen=True)
class Mark:
    """A run in the picture."""

    x: float
    y: float
    low: float
    high: float
    said: str
    new_level: bool


@dataclass(frozen=True)
class Picture:
    title: str
    changes: list[str]
    marks: list[Mark]
    ticks: list[tuple[float, str]]
    begin: str
    end: str


def page(found: Sequence[Series], name: str) -> str:
    """The whole file."""
    pictures = [_picture(one, found) for one in found]
    shape = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "bottom": BOTTOM, "top": TOP}
    return f"{render('history', name=labels.plain(name), pictures=pictures, **shape)}\n"


def _picture(one: Series, among: Sequence[Series]) -> Picture:
    points = [(i, p) for i, p in enumerate(one.points) if p.value.value is not None]
    unit = pick_unit(one.metric.unit, [p.value.value for _, p in points])
    factor = FACTORS[unit][1]
    ends = [
        v / factor for _, p in points for v in (p.value.value, p.value.low, p.value.high) if v is not None
    ]
    # From zero on: half the height is half the rate.
    highest = max(ends, default=1.0) * 1.05 or 1.0
    step = (WIDTH - LEFT - 20) / max(len(one.points) - 1, 1)

    def height(value: float | None) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value or 0.0) / factor / highest, 1)

    starts = {change.at for change in one.changes}
    marks = [
        Mark(
            round(LEFT + 10 + step * i, 1),
            height(p.value.value),
            height(p.value.value if p.value.low is None else p.value.low),
            height(p.value.value if p.value.high is None else p.value.high),
            f"{labels.plain(p.run)}: {p.value}",
            i in starts,
        )
        for i, p in points
    ]
    ticks = [(height(share * highest * factor), f"{share * highest:,.4g}") for share in (0.0, 0.5, 1.0)]
    dates = [f"{p.started:%Y-%m-%d}" if p.started else "" for p in (one.points[0], one.points[-1])]
    title = f"{texts.name(one, among)}: {one.metric.title}, {unit}"
    return Picture(title, [*texts.changes(one), *texts.elsewhere(one)], marks, ticks, *dates)
