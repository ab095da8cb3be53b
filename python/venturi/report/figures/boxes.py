"""Every trial of a run as boxes: a row of panels a stream count, a box a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import main_rate
from venturi.analysis.cells.summary import Cell, best, varying
from venturi.analysis.results import Results
from venturi.common.units import percent, plural
from venturi.report.figures import palette
from venturi.report.figures.figure import BYTES, MB, Figure, Panel, Scale, Series, label, scale_of
from venturi.report.figures.overlay import nearest
from venturi.store import reference as published

SIZE = "rows_per_stream"
MOST_BOXES = 24
"""Boxes in a panel; more are dots whose names nobody can read."""
MOST_STREAMS = 6
"""Stream counts drawn of a run that has more boxes than that."""


def _few_enough(cells: Sequence[Cell]) -> list[Cell]:
    """All cells where a panel can hold them; else the fastest of each size, for some stream counts."""
    panels: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        p = cell.parameters
        panels.setdefault((cell.operation, p.get("place"), p["streams"]), []).append(cell)
    if max(map(len, panels.values()), default=0) <= MOST_BOXES:
        return list(cells)
    counts = sorted({streams for *_, streams in panels})
    if len(counts) > MOST_STREAMS:
        counts = [counts[round(i * (len(counts) - 1) / (MOST_STREAMS - 1))] for i in range(MOST_STREAMS)]
    chosen = []
    for key, members in panels.items():
        if key[2] in counts:
            sizes: dict[Any, list[Cell]] = {}
            for cell in members:
                sizes.setdefault(cell.parameters.get(SIZE), []).append(cell)
            chosen += [b for same in sizes.values() if (b := best(same))]
    return chosen


def _drawn(cell: Cell) -> bool:
    """What an import counted over hosts or partitions has no streams to stand in a panel by."""
    return (cell.rows if cell.in_rows else cell.throughput).known and bool(cell.parameters.get("streams"))


Boxes = dict[int, list[tuple[str, float]]]
"""Categories and rates of trials, by the number of streams."""


def box_per_size(results: Results, reference: str | None = None) -> Figure | None:
    """Every trial per size: a row of panels a stream count, operations and places side by side."""
    sides: dict[str, Boxes] = {}
    several = len(results.places) > 1
    every = [c for c in results.cells if _drawn(c)]
    cells = _few_enough(every)
    scales = {True: scale_of([c for c in cells if c.in_rows]), False: BYTES}
    whose: dict[str, Scale] = {}
    free = [n for n in varying(cells) if n not in ("streams", "threads", "place", "target")]
    if len(cells) < len(every) or (not free and any(c.parameters.get(SIZE) for c in cells)):
        # One cell a size is left, so the size is what tells them apart.
        free = [SIZE]
    order: dict[str, Any] = {}
    for cell in cells:
        side = f"{cell.operation}, {cell.parameters.get('place')}" if several else cell.operation
        # Values alone: with their names, which the axis has, three of them would not fit under a box.
        category = " · ".join(wording.value(n, cell.parameters.get(n)) for n in free) or cell.operation
        order.setdefault(category, cell.parameters.get(SIZE) or 0)
        scale = whose.setdefault(side, scales[cell.in_rows])
        rates = [rate / scale.factor for r in cell.records if (rate := main_rate(r)) is not None]
        values = sides.setdefault(side, {}).setdefault(cell.parameters["streams"], [])
        values += [(category, rate) for rate in rates]
    if not sides:
        return None
    own = len(sides)
    # Published sizes belong on an axis of sizes only; beside other cells they would be boxes of one point.
    sides |= _published(reference, cells, order) if reference and free == [SIZE] else {}
    panels = []
    for streams in sorted({n for by_streams in sides.values() for n in by_streams}):
        for index, (side, by_streams) in enumerate(sides.items()):
            entries = by_streams.get(streams, [])
            colour = palette.series_colour(index) if index < own else "$reference"
            box = Series(side, [x for x, _ in entries], [y for _, y in entries], colour, "box")
            # Bytes are the figure's own unit.
            unit = None if whose.get(side, BYTES) == BYTES else f"throughput, {whose[side].unit}"
            panels.append(Panel(f"{side}, {wording.phrase('streams', streams)}", [box], unit))
    caption = (
        "Box: the middle half of the trials, with the median; whiskers reach the last trial within 1.5 box "
        f"lengths; every trial is a point. {plural(sum(c.good for c in cells), 'trial')}."
    )
    if len(cells) < len(every):
        caption += (
            f" {len(cells)} of {len(every):,} cells are drawn: the fastest of each size and stream count."
        )
    if len(sides) > own:
        caption += " Published figures stand beside the run's own, from the hardware named, nothing scaled."
    slow = results.two_speeds
    return Figure(
        "box-size",
        slow[0][:1].upper() + slow[0][1:] if slow else _spread_finding(every),
        caption,
        "rows per stream" if free == [SIZE] else " · ".join(map(wording.head, free)) or "cell",
        "payload, MB/s" if BYTES in whose.values() else label(list(whose.values())),
        panels,
        x_scale="category",
        columns=len(sides) if len(sides) > 1 else 2,
        categories=sorted(order, key=lambda c: order[c]),
    )


def _published(reference: str, cells: Sequence[Cell], order: dict[str, Any]) -> dict[str, Boxes]:
    """The published trials with streams of the run, at sizes near its own; these join the `order`."""
    sides: dict[str, Boxes] = {}
    counts = {c.parameters["streams"] for c in cells}
    for one in published.sets(reference):
        if one.place is None or not any(c.operation == one.operation for c in cells):
            continue
        rows = one.rows()
        near = _sizes_near({r[SIZE] for r in rows}, cells)
        for row in rows:
            if row["streams"] in counts and row[SIZE] in near:
                category = wording.value(SIZE, row[SIZE])
                order.setdefault(category, row[SIZE])
                side = sides.setdefault(f"{one.operation}, {one.label}", {})
                side.setdefault(row["streams"], []).append((category, row["bytes_per_second"] / MB))
    return sides


def _sizes_near(sizes: set[int], cells: Sequence[Cell]) -> set[int]:
    """The published sizes within the run's own (and half beyond); else the one nearest to its largest."""
    own = [float(n) for c in cells if (n := c.parameters.get(SIZE))]
    if not own:
        return sizes
    within = {s for s in sizes if min(own) / 1.5 <= s <= max(own) * 1.5}
    return within or {nearest(sizes, max(own))}


def _spread_finding(cells: Sequence[Cell]) -> str:
    half = sorted(
        (q.high - q.low) / 2 / q.value
        for q in (c.main for c in cells)
        if q.value and q.low is not None and q.high is not None
    )
    if not half:
        return "Throughput per size, trial by trial"
    middle, worst = (percent(h, 0 if h >= 0.1 else 1) for h in (half[len(half) // 2], half[-1]))
    wide = f"The medians' intervals are ±{middle} wide in half of the cells"
    return (
        f"{wide}, ±{worst} at most" if len(half) == len(cells) else f"{wide} that have one, ±{worst} at most"
    )
