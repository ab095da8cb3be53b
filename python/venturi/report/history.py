"""Cells over many runs: as a document, for machines, and as an HTML page with a picture each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.summary import varying
from venturi.analysis.compare.history import Change, Series
from venturi.common.units import FACTORS, MISSING, pick_unit, plural
from venturi.report.document import Block, Bullets, Column, Document, Section, Table, fields
from venturi.report.page.cells import render

FEW = 10
"""So many runs, half of them on each side of a change, are needed for a p under 1 %."""
MOST_CHANGES = 3
"""Changes of a cell that stand in its line, the newest ones."""


def name(one: Series, among: Sequence[Series]) -> str:
    """A cell by what tells it from the others, and its machine where there are several."""
    label = wording.label(one.cell, varying([s.cell for s in among]))
    return f"{label}, on {wording.plain(one.machine)}" if one.machine else label


def change(one: Series, found: Change) -> str:
    """`-7.2 % [-8.0..-6.4] from 2026-11-20 on (run quick-14)`."""
    point = one.points[found.at]
    ratios = (found.ratio, found.low, found.high)
    middle, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in ratios)
    margin = f" [{low}..{high}]" if found.high > found.low else ""
    since = f"from {point.started:%Y-%m-%d %H:%M} on " if point.started else ""
    return f"{middle} %{margin} {since}(run {wording.plain(point.run)})"


def changes(one: Series) -> list[str]:
    """The newest first; how many more there are; runs of other machines. Without any, whether one could have
    been seen."""
    texts = [change(one, found) for found in reversed(one.changes)]
    few = sum(p.value.measured for p in one.points) < FEW
    if not texts:
        texts = [
            "no change of the level seen" + (f"; fewer than {FEW} runs are too few to tell" if few else "")
        ]
    if (more := len(texts) - MOST_CHANGES) > 0:
        texts = [*texts[:MOST_CHANGES], f"and {plural(more, 'older change')}"]
    if one.elsewhere:
        texts.append(f"{plural(one.elsewhere, 'run')} of other machines not counted")
    return texts


def document(found: Sequence[Series]) -> Document:
    """Of several cells a section each; of one cell also a table of its runs."""
    blocks: list[Block] = []
    for one in found:
        newest = next((p for p in reversed(one.points) if p.value.measured), None)
        last = f"; last {newest.value}" if newest else "; no trial succeeded"
        title = f"{name(one, found)}: {plural(len(one.points), 'run')}{last}"
        rows = [_table(one)] if len(found) == 1 else []
        blocks.append(Section(title, [Bullets(changes(one)), *rows]))
    return Document("History", blocks)


def _table(one: Series) -> Table:
    points = one.points
    unit = pick_unit(one.metric.unit, [p.value.value for p in points])
    starts = {found.at for found in one.changes}
    runs = [f"{p.run}{' <- change' if i in starts else ''}" for i, p in enumerate(points)]
    dates = [f"{p.started:%Y-%m-%d %H:%M}" if p.started else MISSING for p in points]
    columns = [
        Column("started", "", dates, text=True),
        Column(unit, "", [p.value.number(unit) for p in points]),
        Column("interval", "", [p.value.margin(unit) for p in points]),
        Column("run", "", [wording.plain(run) for run in runs], text=True, folds=True),
    ]
    return Table(columns)


def machine(found: Sequence[Series]) -> list[dict[str, Any]]:
    """For scripts: base units."""
    return [
        {
            "parameters": dict(one.cell.parameters),
            "machine": one.machine or None,
            "runs_of_other_machines": one.elsewhere,
            "metric": one.metric.name,
            "unit": one.metric.unit,
            "points": [
                {
                    "run": point.path,
                    "started": point.started.isoformat() if point.started else None,
                    **fields(point.value, "low", "high", median="value"),
                }
                for point in one.points
            ],
            "changes": [fields(c, "at", "ratio", "low", "high", "p") for c in one.changes],
        }
        for one in found
    ]


WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 220, 80, 24, 12


@dataclass(frozen=True)
class Mark:
    """A run in the picture."""

    x: float
    y: float
    low: float
    high: float
    text: str
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
    return f"{render('history', name=wording.plain(name), pictures=pictures, **shape)}\n"


def _picture(one: Series, among: Sequence[Series]) -> Picture:
    points = [(i, p) for i, p in enumerate(one.points) if p.value.value is not None]
    unit = pick_unit(one.metric.unit, [p.value.value for _, p in points])
    factor = FACTORS[unit][1]
    ends = [v for _, p in points for v in (p.value.value, p.value.low, p.value.high) if v is not None]
    # From zero on: half the height is half the rate.
    highest = max(ends, default=factor) / factor * 1.05 or 1.0
    step = (WIDTH - LEFT - 20) / max(len(one.points) - 1, 1)

    def height(value: float | None) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value or 0.0) / factor / highest, 1)

    starts = {change.at for change in one.changes}
    marks = []
    for i, p in points:
        value, low, high = p.value.value, p.value.low, p.value.high
        y, bottom, top = map(height, (value, value if low is None else low, value if high is None else high))
        text = f"{wording.plain(p.run)}: {p.value}"
        marks.append(Mark(round(LEFT + 10 + step * i, 1), y, bottom, top, text, i in starts))
    ticks = [(height(share * highest * factor), f"{share * highest:,.4g}") for share in (0.0, 0.5, 1.0)]
    dates = [f"{p.started:%Y-%m-%d}" if p.started else "" for p in (one.points[0], one.points[-1])]
    title = f"{name(one, among)}: {one.metric.title}, {unit}"
    return Picture(title, changes(one), marks, ticks, *dates)
