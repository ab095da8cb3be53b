"""Latency of batches up to the far tail: time over percentile, spread out as 1 / (1 - p), logarithmic.

On that axis every nine takes the same room: 90, 99, 99.9 %. The curves come from the trials' whole histograms
where they are kept, so that a step between two named percentiles is seen.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from venturi.analysis import selection, wording
from venturi.analysis.advice.load_advice import BEHIND
from venturi.analysis.cells import writes
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell, by_operation, varying
from venturi.analysis.results import Results
from venturi.analysis.statistics.intervals import median_interval
from venturi.common import hdr
from venturi.common.units import FACTORS, pick_unit, significant
from venturi.report.figures import palette
from venturi.report.figures.figure import Figure, Panel, Series

MOST_LINES = 6
STEPS = 12
"""Points of a curve a decade."""
MOST = 7
"""Decades drawn at most: beyond, no benchmark has enough batches."""


def latency(results: Results) -> Figure | None:
    """Latency over percentile; of an open loop both times. None without any."""
    panels: list[Panel] = []
    shown, told = 0, []
    both = False
    for operation, every in by_operation(results.cells).items():
        cells = selection.representative([c for c in every if c.latency], MOST_LINES)
        names = varying(cells)
        panel = Panel(operation)
        for index, cell in enumerate(cells):
            name = wording.label(cell, names)
            for kind in reversed(writes.KINDS):
                line = curve(cell, kind)
                if len(line) < 2:
                    continue
                response = bool(cell.parameters.get("rate"))
                both = both or response
                apart = response and kind == "service"
                panel.series.append(
                    Series(
                        f"{name}, service" if apart else name,
                        [x for x, _ in line],
                        [y / 1e6 for _, y in line],
                        palette.series_colour(index),
                        dash="dot" if apart else "solid",
                        markers=False,
                        notes=[f"{_percentile(x)}: {_time(y)}" for x, y in line],
                    )
                )
        if panel.series:
            shown += len(cells)
            told += _told(cells, names)
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
    title = "; ".join(told) or "Latency of a batch"
    return Figure(
        "latency",
        title[:1].upper() + title[1:],
        f"{kinds}At each percentile the median of the trials' values; every nine takes the same room. A "
        "curve ends where a trial has no batch beyond." + selection.choice_note(shown, results.cells),
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
        known = [v for trial in trials if (v := _at(*trial, x)) > 0]
        if known:
            out.append((x, median_interval(known).median))
    return out


def _recorded(record: Any, kind: str) -> tuple[list[float], list[float]] | None:
    """Latencies of a trial in order, and how many batches took no longer than each; by the percentiles alone
    where the histogram was not kept."""
    found = get(record, "latency", kind)
    try:
        counts = hdr.decode(str(get(found, "hdr") or ""))
    except ValueError:
        counts = {}
    if counts:
        values = sorted(counts)
        return [float(v) for v in values], [float(n) for n in accumulate(counts[v] for v in values)]
    given = [(1.0, get(found, "min")), *(get(found, "percentiles") or ())]
    known = sorted((float(p), float(v)) for p, v in given if isinstance(v, int | float))
    if not known:
        return None
    count = get(found, "count")
    if not isinstance(count, int | float) or count < 1:
        # Of an import that did not count: as many as its last percentile tells of.
        count = max(100 / (100 - p) for p, _ in known if p < 100)
    return [v for _, v in known], [*(p / 100 * count for p, _ in known[:-1]), float(count)]


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


def _told(cells: Sequence[Cell], names: Sequence[str]) -> list[str]:
    """How far the tail of the worst cell reaches; of an open loop that fell behind how far."""
    behind = [b for c in cells if c.parameters.get("rate") and (b := _behind(c, names)) is not None]
    if behind:
        return [max(behind, key=lambda pair: pair[0])[1]]
    found = []
    for cell in cells:
        kind = "response" if cell.parameters.get("rate") else "service"
        known = writes.latencies(cell, kind)
        p50, p99 = known.get("p50"), known.get("p99")
        if p50 and p99 and p50.value and p99.value:
            found.append((p99.value / p50.value, cell, p99.value))
    if not found:
        return []
    ratio, worst, reached = max(found, key=lambda item: item[0])
    where = f" ({wording.label(worst, names)})" if len(cells) > 1 else ""
    times = f"{ratio:,.{0 if ratio >= 10 else 1}f}"
    most = "at most " if len(found) > 1 else ""
    return [f"{worst.operation}: p99 is {most}{times} x the median batch, {_time(reached)}{where}"]
