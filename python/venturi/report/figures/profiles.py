"""What happened inside trials: throughput over time, where the time went, latency."""

from __future__ import annotations

import itertools
from typing import Any

from venturi.analysis.cells.choice import choice_note, middle_trial, representative
from venturi.analysis.cells.figures import ENDS, get, noun, numeric
from venturi.analysis.cells.summary import Cell, best, by_operation, varying
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import FACTORS, percent, pick_unit, significant
from venturi.report.figures import palette, pipeline
from venturi.report.figures.figure import Figure, Panel, Series
from venturi.report.figures.scale import BYTES, MB, Scale, label, scale_of

MOST_BARS = 16
MOST_LINES = 6
MOST_STEPS = 600
"""Points of a line; more would be drawn into the same pixels."""
PERCENTILES = (
    (50.0, "p50"),
    (90.0, "p90"),
    (95.0, "p95"),
    (99.0, "p99"),
    (99.9, "p99.9"),
    (99.99, "p99.99"),
    (100.0, "max"),
)


def over_time(results: Results) -> Figure | None:
    """Throughput within the median trial of each cell; None without samples."""
    panels, shown, worst = [], 0, None
    drawn_in: dict[str, Scale] = {}
    for operation, cells in by_operation(results.cells).items():
        scale = scale_of(cells)
        panel = Panel(operation, y_label=None if scale.measure == "throughput" else scale.label)
        drawn_in[operation] = scale
        counters = {c.name: _counters(results, c) for c in representative(cells, MOST_LINES)}
        drawn = [c for c in cells if counters.get(c.name)]
        names = varying(drawn)
        for index, cell in enumerate(drawn):
            steps = _steps(counters[cell.name], scale.factor)
            rates = [rate for *_, rate in steps]
            worst = _deepest_dip(middle_trial(cell), steps, worst)
            panel.series.append(
                Series(
                    labels.label(cell, names),
                    [round((t0 + t1) / 2e9, 4) for t0, t1, _ in steps],
                    [round(rate, 1) for rate in rates],
                    palette.series_colour(index),
                    markers=len(steps) <= 30,
                )
            )
        if panel.series:
            shown += len(panel.series)
            panels.append(panel)
    if not panels:
        return None
    nouns = {noun(operation) for operation in drawn_in}
    counted = "payload" if BYTES in drawn_in.values() else f"{' and '.join(sorted(nouns))}s"
    title = (
        "Throughput within a trial"
        if worst is None
        else (
            f"While all streams move, no step falls more than {percent(max(worst, 0.01))} below the "
            f"middle of its trial"
        )
    )
    return Figure(
        "throughput-time",
        title,
        f"The trial with the median throughput of each cell, from the counters of {counted}, all streams "
        "together; "
        "the last step may be shorter and hold the end of the first stream."
        + choice_note(shown, results.cells),
        "time since the start instant, s",
        label(list(drawn_in.values())),
        panels,
    )


def _counters(results: Results, cell: Cell) -> list[tuple[float, float]]:
    """Times (ns) and payload, or rows, so far of the median trial; at most `MOST_STEPS` of them. Opens one
    file."""
    trial = middle_trial(cell)
    if trial is None:
        return []
    wanted = ("t_ns", "rows" if cell.in_rows else "payload_bytes")
    table = results.directory.samples(str(trial.get("trial")), wanted)
    columns = (table.column(n).to_pylist() for n in wanted)
    points = sorted((t, b) for t, b in zip(*columns, strict=True) if t is not None and b is not None)
    step = max(1, -(-len(points) // MOST_STEPS))
    return points[::step] if step == 1 else [*points[:-1:step], points[-1]]


def _steps(points: list[tuple[float, float]], factor: float = MB) -> list[tuple[float, float, float]]:
    """Begin, end (ns) and rate (in `factor` a second) between samples; counters start at zero with the clock.

    A sampler takes one reading at the start and one at the end, whenever these fall. A step under a quarter
    of the usual one would turn the grain of the counters, a batch, into a spike or a gap: it joins the next.
    """
    gaps = sorted(t1 - t0 for (t0, _), (t1, _) in itertools.pairwise(points))
    least = gaps[len(gaps) // 2] / 4 if gaps else 0.0
    steps, t0, b0 = [], 0.0, 0.0
    for t1, b1 in points:
        if t1 - t0 > least:
            steps.append((t0, t1, (b1 - b0) / (t1 - t0) * 1e9 / factor))
            t0, b0 = t1, b1
    return steps


def _deepest_dip(record: Any, steps: list[tuple[float, float, float]], before: float | None) -> float | None:
    """How far the slowest step of the steady window lies under its median step; the deepest over all
    trials."""
    streams = get(record, "streams") or []
    begin = max((numeric(s, "first_batch_ns") or 0.0 for s in streams), default=0.0)
    end = min((numeric(s, "end_ns") or 0.0 for s in streams), default=0.0)
    inside = sorted(rate for t0, t1, rate in steps if t0 >= begin and t1 <= end)
    if len(inside) < 3 or inside[len(inside) // 2] <= 0:
        return before
    dip = 1 - inside[0] / inside[len(inside) // 2]
    return dip if before is None else max(before, dip)


def stages(results: Results) -> Figure | None:
    """Where the time went by stage, at both ends; None where no trial accounted for stages."""
    accounted = [c for c in results.cells if any(c.stages[end] for end in ENDS)]
    chosen = representative(accounted, MOST_BARS)
    if not chosen:
        return None
    names = varying(chosen)
    rows = [", ".join(filter(None, [c.operation, labels.label(c, names) if names else ""])) for c in chosen]
    panels = []
    for end in ENDS:
        if not any(c.stages[end] for c in chosen):
            continue
        seen = {s for c in chosen for s in c.stages[end]}
        order = [s for s in palette.STAGES if s in seen] + sorted(seen - set(palette.STAGES))
        panels.append(
            Panel(
                end,
                [
                    Series(
                        stage,
                        [round(100 * c.stages[end].get(stage, 0.0), 3) for c in chosen],
                        rows,
                        palette.stage_colour(stage),
                        "bar",
                    )
                    for stage in order
                ],
            )
        )
    largest = [
        max(
            ((share, stage, end, c) for stage, share in c.stages[end].items() if not pipeline.waits(stage)),
            default=None,
            key=lambda item: item[0],
        )
        for end in ENDS
        for c in chosen
        if c is best(chosen)
    ]
    work = max((item for item in largest if item), key=lambda item: item[0], default=None)
    title = (
        "Where the time went"
        if work is None
        else (
            f"In the fastest cell ({labels.label(work[3], ['operation', 'streams'])}) most work is "
            f"{work[1]} at the {work[2]}: "
            f"{percent(work[0])} of its time"
        )
    )
    missing = "" if len(panels) == 2 else " The other end did not account for its stages."
    return Figure(
        "stages",
        title,
        "Share of the time of all workers of that end, median over the good trials. Pale stages wait "
        "(await_input for the other end's bytes, await_output for the socket, await_window for the peer's "
        "HTTP/2 window, await_thread for a thread at work for another stream); verify is the instrument's "
        "own checksum." + missing + choice_note(len(chosen), accounted),
        "share of time, %",
        "",
        panels,
        x_range=(0.0, 100.0),
        categories=rows,
    )


def latency(results: Results) -> Figure | None:
    """Latency percentiles of a batch; None where no trial recorded any."""
    panels, shown, open_loop = [], 0, False
    tail: tuple[float, str] | None = None
    for operation, cells in by_operation(results.cells).items():
        chosen = representative([c for c in cells if c.latency], MOST_LINES)
        names = varying(chosen)
        panel = Panel(operation)
        for index, cell in enumerate(chosen):
            open_loop = open_loop or cell.parameters.get("rate") is not None
            known = [(text, cell.latency[p]) for p, text in PERCENTILES if p in cell.latency]
            panel.series.append(
                Series(
                    labels.label(cell, names),
                    [text for text, _ in known],
                    [_ms(q.value) for _, q in known],
                    palette.series_colour(index),
                    low=[_ms(q.low) for _, q in known],
                    high=[_ms(q.high) for _, q in known],
                    notes=[q.text() for _, q in known],
                )
            )
            p50, p99 = cell.latency.get(50.0), cell.latency.get(99.0)
            if p50 and p99 and p50.value and p99.value and (tail is None or p99.value / p50.value > tail[0]):
                where = labels.label(cell, ["operation", "streams"])
                unit = pick_unit("ns", [p99.value])
                tail = (
                    p99.value / p50.value,
                    f"p99 {significant(p99.value / FACTORS[unit][1])} {unit} ({where})",
                )
        if panel.series:
            shown += len(panel.series)
            panels.append(panel)
    if not panels:
        return None
    kind = (
        "Response time from the intended send time (open loop)" if open_loop else "Service time (closed loop)"
    )
    title = "Batch latency"
    if tail:
        times = f"{tail[0]:,.{0 if tail[0] >= 10 else 1}f}"
        title = f"The longest tail: p99 is {times} x the median batch, {tail[1]}"
    return Figure(
        "latency",
        title,
        f"{kind} of a batch; each point is the median of the trials' percentile, with its interval; max "
        f"is the median "
        "of the trials' longest batch." + choice_note(shown, results.cells),
        "percentile of batches",
        "latency, ms",
        panels,
        x_scale="category",
        y_scale="log",
        categories=[text for _, text in PERCENTILES if any(text in s.x for p in panels for s in p.series)],
    )


def _ms(ns: float | None) -> float | None:
    return None if ns is None or ns <= 0 else ns / 1e6
