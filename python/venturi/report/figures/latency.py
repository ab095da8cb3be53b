"""Figures of distributions: latency, and boxes of repeats.

Latency of batches up to the far tail: time over percentile, spread out as 1 / (1 - p), logarithmic.

On that axis every nine takes the same room: 90, 99, 99.9 %. The curves come from the trials' whole histograms
where they are kept, so that a step between two named percentiles is seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from venturi.analysis import wording
from venturi.analysis.advice.collect import BEHIND
from venturi.analysis.cells import writes
from venturi.analysis.cells.figures import grouped, main_rate
from venturi.analysis.cells.summary import Cell, best, by_operation, varying
from venturi.analysis.results import Results, choice_note, evenly, representative
from venturi.analysis.statistics.intervals import median_interval
from venturi.common import hdr
from venturi.common.units import FACTORS, percent, pick_unit, plural, significant
from venturi.engine.record import Latency, Trial
from venturi.report.document import begun
from venturi.report.figures import figure
from venturi.report.figures.curves import nearest
from venturi.report.figures.figure import BYTES, MB, Figure, Panel, Scale, Series, label, line, scale_of
from venturi.store import reference as published

MOST_LINES = 6
STEPS = 12
"""Points of a curve a decade."""
MOST = 7
"""Decades drawn at most: beyond, no benchmark has enough batches."""


def latency(results: Results) -> Figure | None:
    """Latency over percentile; of an open loop both times. None without any."""
    panels: list[Panel] = []
    shown, findings = 0, []
    both = False
    for operation, every in by_operation(results.cells).items():
        cells = representative([c for c in every if c.latency], MOST_LINES)
        names = varying(cells)
        panel = Panel(operation)
        for index, cell in enumerate(cells):
            name = wording.label(cell, names)
            for kind in reversed(writes.KINDS):
                points = curve(cell, kind)
                if len(points) < 2:
                    continue
                response = bool(cell.parameters.get("rate"))
                both = both or response
                apart = response and kind == "service"
                panel.series.append(
                    line(
                        f"{name}, service" if apart else name,
                        [(x, y / 1e6) for x, y in points],
                        figure.series_colour(index),
                        "dot" if apart else "solid",
                        notes=[f"{_percentile(x)}: {_time(y)}" for x, y in points],
                    )
                )
        if panel.series:
            shown += len(cells)
            findings += _tails(cells, names)
            panels.append(panel)
    if not panels:
        return None
    most = max(s.x[-1] for p in panels for s in p.series)
    ticks = [1.0, 2.0, *(10.0**n for n in range(1, MOST + 1) if 10.0**n <= most * 1.01)]
    kinds = (
        "Solid: response time from the intended send time; dotted: service time, from when a batch was "
        "really sent. "
        if both
        else "Service time of a batch (closed loop). "
    )
    return Figure(
        "latency",
        begun("; ".join(findings) or "latency of a batch"),
        f"{kinds}At each percentile the median of the trials' values; every nine takes the same room. A "
        "curve ends where a trial has no batch beyond." + choice_note(shown, results.cells),
        "percentile of batches",
        "latency, ms",
        panels,
        x_scale="log",
        y_scale="log",
        y_from_zero=False,
        x_ticks=ticks,
        x_texts=["min", *(_percentile(x) for x in ticks[1:])],
    )


def curve(cell: Cell, kind: str) -> list[tuple[float, float]]:
    """1 / (1 - p) and the median of the trials' latency (ns) at p; empty where none was recorded."""
    trials = [found for r in cell.records if (found := _recorded(r, kind))]
    if not trials:
        return []
    most = max(1.0, min(10.0**MOST, min(seen[-1] for _, seen in trials) / hdr.LEAST_BEYOND))
    points = [10 ** (n / STEPS) for n in range(math.floor(math.log10(most) * STEPS) + 1)]
    out = []
    for x in [*points, *([most] if most > points[-1] * 1.01 else [])]:
        values = [v for trial in trials if (v := _at(*trial, x)) > 0]
        if values:
            out.append((x, median_interval(values).median))
    return out


def _recorded(record: Trial, kind: str) -> tuple[list[float], list[float]] | None:
    """Latencies of a trial in order, and how many batches took no longer than each; by the percentiles alone
    where the histogram was not kept."""
    found: Latency = record.latency[kind]
    try:
        counts = hdr.decode(found.hdr or "")
    except ValueError:
        counts = {}
    if counts:
        values = sorted(counts)
        return [float(v) for v in values], [float(n) for n in accumulate(counts[v] for v in values)]
    points = sorted((p, v) for p, v in [(1.0, found.min), *found.percentiles] if v is not None)
    if not points:
        return None
    count = float(found.count or 0)
    if count < 1:
        # Of an import that did not count: as many as its last percentile tells of.
        count = max(100 / (100 - p) for p, _ in points if p < 100)
    return [v for _, v in points], [*(p / 100 * count for p, _ in points[:-1]), count]


def _at(values: list[float], seen: list[float], x: float) -> float:
    """The latency at p = 1 - 1/x."""
    wanted = max(1.0, (1 - 1 / x) * seen[-1])
    return values[min(bisect_left(seen, wanted - 1e-9 * seen[-1]), len(values) - 1)]


def _percentile(x: float) -> str:
    """`99.9 %` at 1000; as many digits as tell it from 100 %."""
    if x <= 1:
        return "min"
    digits = max(0, math.floor(math.log10(x) + 1e-9) - 1)
    shown = f"{100 * (1 - 1 / x):.{digits}f}"
    return (shown.rstrip("0").rstrip(".") if "." in shown else shown) + " %"


def _time(ns: float) -> str:
    unit = pick_unit("ns", [ns])
    return f"{significant(ns / FACTORS[unit][1])} {unit}"


def _behind(cell: Cell, names: Sequence[str]) -> tuple[float, str] | None:
    """Response over service time (p99) and that in words, where batches waited longer for their turn."""
    response, service = (writes.latencies(cell, kind).get("p99") for kind in ("response", "service"))
    if not response or not service or not response.value or not service.value:
        return None
    ratio = response.value / service.value
    if ratio < BEHIND:
        return None
    text = f"{cell.operation}: the response time is {ratio:,.{0 if ratio >= 10 else 1}f} x the service time"
    where = f", {wording.label(cell, names)}" if names else ""
    return ratio, f"{text} (p99 {_time(response.value)} against {_time(service.value)}{where})"


def _tails(cells: Sequence[Cell], names: Sequence[str]) -> list[str]:
    """How far the tail of the worst cell reaches; of an open loop that fell behind how far."""
    behind = [b for c in cells if c.parameters.get("rate") and (b := _behind(c, names)) is not None]
    if behind:
        return [max(behind, key=lambda pair: pair[0])[1]]
    found = []
    for cell in cells:
        kind = "response" if cell.parameters.get("rate") else "service"
        latencies = writes.latencies(cell, kind)
        p50, p99 = latencies.get("p50"), latencies.get("p99")
        if p50 and p99 and p50.value and p99.value:
            found.append((p99.value / p50.value, cell, p99.value))
    if not found:
        return []
    ratio, worst, reached = max(found, key=lambda item: item[0])
    where = f" ({wording.label(worst, names)})" if len(cells) > 1 else ""
    most = "at most " if len(found) > 1 else ""
    times = f"{ratio:,.{0 if ratio >= 10 else 1}f}"
    return [f"{worst.operation}: p99 is {most}{times} x the median batch, {_time(reached)}{where}"]


SIZE = "rows_per_stream"
MOST_BOXES = 24
"""Boxes in a panel; more are dots whose names nobody can read."""
MOST_STREAMS = 6
"""Stream counts drawn of a run that has more boxes than that."""


def _few_enough(cells: Sequence[Cell]) -> list[Cell]:
    """All cells where a panel can hold them; else the fastest of each size, for some stream counts."""
    panels = grouped(cells, lambda c: (c.operation, c.parameters.get("place"), c.parameters["streams"]))
    if max(map(len, panels.values()), default=0) <= MOST_BOXES:
        return list(cells)
    counts = evenly(sorted({streams for *_, streams in panels}), MOST_STREAMS)
    chosen = []
    for (*_, streams), members in panels.items():
        sizes = grouped(members, lambda c: c.parameters.get(SIZE)) if streams in counts else {}
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
            colour = figure.series_colour(index) if index < own else "$reference"
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
        begun(slow[0]) if slow else _spread_finding(every),
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
