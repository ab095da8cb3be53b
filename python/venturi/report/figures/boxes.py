"""Every trial of a run as boxes: a row of panels a stream count, a box a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.figures import main_rate
from venturi.analysis.cells.summary import Cell, best, varying
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import percent, plural
from venturi.report.figures import palette
from venturi.report.figures.figure import BYTES, MB, Figure, Panel, Scale, Series, label, scale_of
from venturi.report.figures.overlay import nearest
from venturi.store import reference as published

MOST_BOXES = 24
"""Boxes in a panel; more are dots whose names nobody can read."""
MOST_STREAMS = 6
"""Stream counts drawn of a run that has more boxes than that."""


def _few_enough(cells: Sequence[Cell]) -> list[Cell]:
    """All cells where a panel can hold them; else the fastest of each size, for some stream counts."""
    panels: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        p = cell.parameters
        panels.setdefault((cell.operation, p.get("place"), p.get("streams")), []).append(cell)
    if max(map(len, panels.values()), default=0) <= MOST_BOXES:
        return list(cells)
    counts = sorted({key[2] for key in panels if key[2] is not None})
    if len(counts) > MOST_STREAMS:
        counts = [counts[round(i * (len(counts) - 1) / (MOST_STREAMS - 1))] for i in range(MOST_STREAMS)]
    chosen = []
    for key, members in panels.items():
        if key[2] is None or key[2] in counts:
            sizes: dict[Any, list[Cell]] = {}
            for cell in members:
                sizes.setdefault(cell.parameters.get("rows_per_stream"), []).append(cell)
            chosen += [b for same in sizes.values() if (b := best(same))]
    return chosen


def _drawn(cell: Cell) -> bool:
    """What an import counted in rows over hosts has no streams to stand in a panel by."""
    if cell.in_rows:
        return cell.rows.known and bool(cell.parameters.get("streams"))
    return cell.throughput.known


def box_per_size(results: Results, reference: str | None = None) -> Figure | None:
    """Every trial per size: a row of panels a stream count, operations and places side by side."""
    sides: dict[str, dict[Any, list[tuple[str, float, Any]]]] = {}
    several = len(results.places) > 1
    every = [c for c in results.cells if _drawn(c)]
    cells = _few_enough(every)
    scales = {True: scale_of([c for c in cells if c.in_rows]), False: BYTES}
    whose: dict[str, Scale] = {}
    free = [n for n in varying(cells) if n not in ("streams", "threads", "place", "target")]
    if len(cells) < len(every):
        # One cell a size is left, so the size is what tells them apart.
        free = ["rows_per_stream"]
    if not free and any(c.parameters.get("rows_per_stream") for c in cells):
        free = ["rows_per_stream"]
    order: dict[str, Any] = {}
    for cell in cells:
        side = f"{cell.operation}, {cell.parameters.get('place')}" if several else cell.operation
        only_rows = free == ["rows_per_stream"]
        # Values alone: with their names, which the axis has, three of them would not fit under a box.
        category = " · ".join(labels.value(n, cell.parameters.get(n)) for n in free) or cell.operation
        order.setdefault(category, cell.parameters.get("rows_per_stream") or 0)
        values = sides.setdefault(side, {}).setdefault(cell.parameters.get("streams"), [])
        scale = whose.setdefault(side, scales[cell.in_rows])
        values += [
            (category, speed / scale.factor, r) for r in cell.records if (speed := main_rate(r)) is not None
        ]
    if not sides:
        return None
    own, overlaid = len(sides), False
    # Published sizes belong on an axis of sizes only; beside other cells they would be boxes of one point.
    for one in published.sets(reference) if reference and only_rows else []:
        if one.place is None or not any(c.operation == one.operation for c in cells):
            continue
        counts = {n for by_streams in sides.values() for n in by_streams}
        rows = one.rows()
        near = _sizes_near({r["rows_per_stream"] for r in rows}, cells)
        for row in rows:
            if row["streams"] in counts and row["rows_per_stream"] in near:
                category = labels.value("rows_per_stream", row["rows_per_stream"])
                order.setdefault(category, row["rows_per_stream"])
                entry = (category, row["bytes_per_second"] / MB, None)
                sides.setdefault(f"{one.operation}, {one.label}", {}).setdefault(row["streams"], []).append(
                    entry
                )
                overlaid = True
    panels = []
    counts_in_order = sorted({n for s in sides.values() for n in s}, key=lambda n: (n is None, n or 0))
    for streams in counts_in_order:
        for index, (side, by_streams) in enumerate(sides.items()):
            entries = by_streams.get(streams, [])
            panels.append(
                Panel(
                    f"{side}, {labels.phrase('streams', streams)}",
                    [
                        Series(
                            side,
                            [e[0] for e in entries],
                            [e[1] for e in entries],
                            palette.series_colour(index) if index < own else "$reference",
                            "box",
                        )
                    ],
                    # Bytes are the figure's own unit.
                    y_label=f"throughput, {whose[side].unit}" if whose.get(side, BYTES) != BYTES else None,
                )
            )
    categories = sorted(order, key=lambda c: order[c])
    trials = sum(c.good for c in cells)
    caption = (
        "Box: the middle half of the trials, with the median; whiskers reach the last trial within 1.5 "
        "box lengths; "
        f"every trial is a point. {plural(trials, 'trial')}."
    )
    if len(cells) < len(every):
        caption += (
            f" {len(cells)} of {len(every):,} cells are drawn: the fastest of each size and stream count."
        )
    if overlaid:
        caption += " Published figures stand beside the run's own, from the hardware named, nothing scaled."
    slow = results.two_speeds
    return Figure(
        "box-size",
        slow[0][:1].upper() + slow[0][1:] if slow else _spread_finding(every),
        caption,
        "rows per stream" if free == ["rows_per_stream"] else " · ".join(map(labels.head, free)) or "cell",
        "payload, MB/s" if BYTES in whose.values() or not whose else label(list(whose.values())),
        panels,
        x_scale="category",
        columns=len(sides) if len(sides) > 1 else 2,
        categories=categories,
    )


def _sizes_near(sizes: set[int], cells: Sequence[Cell]) -> set[int]:
    """The published sizes within the run's own (and half beyond); else the one nearest to its largest."""
    own = [float(n) for c in cells if (n := c.parameters.get("rows_per_stream"))]
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
