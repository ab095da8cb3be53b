"""Throughput over a parameter: streams, size, rows per batch; and the boxes per size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells import series as sweeps
from venturi.analysis.cells.ceilings import SOCKETS
from venturi.analysis.cells.figures import IN_ROWS, grouped
from venturi.analysis.cells.hosts import axis_of
from venturi.analysis.cells.summary import Cell, best, by_operation, varying
from venturi.analysis.results import Results
from venturi.analysis.statistics.curve import Shape
from venturi.analysis.statistics.intervals import median_interval
from venturi.analysis.wording import nouns_of
from venturi.common.units import count
from venturi.report.document import begun, sentence
from venturi.report.figures import figure
from venturi.report.figures.figure import (
    BYTES,
    MB,
    Claim,
    Figure,
    Mark,
    Panel,
    Scale,
    Series,
    label,
    line,
    scale_of,
)
from venturi.store import reference as published

Points = list[tuple[float, float]]


def rows_only(reference: str | None) -> bool:
    """Whether these published figures are of upserts or ingests, which know no sizes in bytes."""
    return reference is not None and all(one.operation in IN_ROWS for one in published.sets(reference))


def nearest(values: set[int], wanted: float) -> int:
    return min(values, key=lambda v: abs(math.log(v / wanted)))


def reference_lines(
    reference: str, operation: str, axis: str, cells: Sequence[Cell], xs: Sequence[float], scale: Scale
) -> Iterator[Series]:
    """What was published of this operation, along this axis; `xs` are the places of the run's points."""
    for one in published.sets(reference):
        if one.operation != operation:
            continue
        if operation in IN_ROWS:
            if scale.measure == "rows" and xs:
                yield (_upserts if operation == "upsert" else _ingests)(one, axis, xs, scale)
            continue
        found = _pools(one, axis, cells) if one.name == "chspark" else _transfers(one, axis, cells)
        shade = 0.6 if one.place == "remote" else 1.0
        for text, points in found.items():
            at = sorted({x for x, _ in points})
            if len(at) > 1 or one.name != "chspark":
                medians = [(a, median_interval([v for x, v in points if x == a]).median) for a in at]
                yield line(text, medians, f"$reference/{shade:.2f}", "dot")
                shade = max(0.4, shade - 0.25)


def _upserts(one: published.ReferenceSet, axis: str, xs: Sequence[float], scale: Scale) -> Series:
    """Over hosts as they are; over another axis the one host's, which was measured with one number of workers
    and one size of batches only."""
    rows = sorted(one.rows(), key=lambda row: row["hosts"])
    name, x, y = one.label, [float(r["hosts"]) for r in rows], [r["rows_per_second"] for r in rows]
    if axis != "hosts":
        first = rows[0]
        name = f"{one.label}, {first['hosts']} host, {count(first['rows_per_batch'])} rows/batch"
        of_size = axis == "rows_per_batch"
        x = [float(first["rows_per_batch"])] if of_size else [min(xs), max(xs)]
        y = [first["rows_per_second"]] * len(x)
    colour = "$reference" if one.name == "memsql" else "$reference/0.6"
    mark: Mark = "points" if len(x) == 1 else "line"
    return Series(name, list(x), [scale(v) for v in y], colour, mark, dash="dot", markers=axis == "hosts")


def _ingests(one: published.ReferenceSet, axis: str, xs: Sequence[float], scale: Scale) -> Series:
    """An ingest has one number of connections: a point over streams, else a level line."""
    # Of one load alone the number of connections is known.
    (row,) = (row for row in one.rows() if "streams" in row)
    inside = axis == "streams" and min(xs) <= row["streams"] <= max(xs)
    x = [float(row["streams"])] if inside else [min(xs), max(xs)]
    y = [scale(row["rows_per_second"])] * len(x)
    name, mark = f"{one.label}, {row['streams']} streams", "points" if inside else "line"
    return Series(name, list(x), y, "$reference", mark, dash="dot", markers=False)  # type: ignore[arg-type]


def _pools(one: published.ReferenceSet, axis: str, cells: Sequence[Cell]) -> dict[str, Points]:
    """The published partitions x encoders x decoders along one of these axes, the others as most of them
    were: over encoders with 4 partitions, over partitions for each number of encoders, always 4 decoders."""
    found: dict[str, Points] = {}
    own = {c.parameters.get("encoders") for c in cells}
    for row in (row for row in one.rows() if row["decoders"] == 4):
        partitions, encoders = int(row["partitions"]), int(row["encoders"])
        rate = float(row["bytes_per_second"]) / MB
        if axis == "encoders" and partitions == 4:
            found.setdefault(f"{one.label}, 4 partitions", []).append((encoders, rate))
        elif axis == "streams" and encoders in own:
            found.setdefault(f"{one.label}, encoders {encoders}", []).append((partitions, rate))
    return found


def _transfers(one: published.ReferenceSet, axis: str, cells: Sequence[Cell]) -> dict[str, Points]:
    """Over streams at the size nearest to the run's own, over sizes for streams that the run has too."""
    if one.place is None:
        return {}
    rows = one.rows()
    own = sorted(float(c.parameters.get("rows_per_stream") or 0) for c in cells)
    middle = own[len(own) // 2] if own and own[len(own) // 2] > 0 else 1e7
    size = nearest({r["rows_per_stream"] for r in rows}, middle)
    chosen = sorted({r["streams"] for r in rows} & {c.parameters.get("streams") for c in cells})[:3]
    found: dict[str, Points] = {}
    for row in rows:
        rate = row["bytes_per_second"] / MB
        if axis == "streams" and row["rows_per_stream"] == size:
            found.setdefault(f"{one.label}, {count(size)} rows/stream", []).append((row["streams"], rate))
        elif axis != "streams" and row["streams"] in chosen:
            name = f"{one.label}, {wording.phrase('streams', row['streams'])}"
            found.setdefault(name, []).append((row["payload_bytes"] / row["streams"] / MB, rate))
    return dict(sorted(found.items()))


MOST_LINES = 6
"""More lines than this in one panel cannot be told apart."""
MOST_OF_LIMIT = 4.0
"""A limit that is always more than so many times the highest point is told, not drawn."""
HOSTS = ("hosts", "loaders")
"""What counts the machines that a load came from: of imported runs, and of ours."""
SIZE = "rows_per_stream"
FOLLOWERS = {"streams": {"threads"}, SIZE: {"bytes_per_stream"}, "rows_per_batch": set[str]()}
INTERVAL_NOTE = "Points are medians of the repeats, bars their 95 % interval (below 6 repeats their range)."


def _lines(
    cells: Sequence[Cell], axis: str, free: Sequence[str], scale: Scale
) -> tuple[list[tuple[str, list[Cell]]], list[str]]:
    """Cells as lines along `axis`, and the parameters over which the best had to be taken.

    One line for each combination of the other varying parameters; where that makes too many, those with the
    most values are reduced to their best cell, point by point.
    """
    kept = [n for n in free if n != axis and n not in FOLLOWERS.get(axis, ())]
    dropped: list[str] = []

    def settings() -> dict[Any, list[Cell]]:
        return grouped(cells, lambda cell: tuple(repr(cell.parameters.get(n)) for n in kept))

    while len(settings()) > MOST_LINES and kept:
        most = max(kept, key=lambda n: len({repr(c.parameters.get(n)) for c in cells}))
        kept.remove(most)
        dropped.append(most)
    lines = []
    for members in settings().values():
        points = grouped((c for c in members if scale.of(c).known), lambda cell: cell.parameters.get(axis))
        chosen = [b for value in sorted(points, key=float) if (b := best(points[value]))]
        if chosen:
            lines.append((wording.label(chosen[0], kept) if kept else "median", chosen))
    return lines, dropped


X_LABELS = {
    "streams": "{stream}s",
    SIZE: "payload per {stream}, MB",
    "rows_per_batch": "{row}s per batch",
}
"""At the axis, where it is not the parameter's name."""


def over_hosts(results: Results, reference: str | None = None) -> Figure | None:
    """Throughput over hosts, or loaders; None unless at least two numbers of them were measured."""
    axis = "loaders" if any(axis_of(c) == "loaders" for c in results.cells) else "hosts"
    return over(results, "throughput-hosts", axis, reference)


def over(results: Results, name: str, axis: str, reference: str | None = None) -> Figure | None:
    """Throughput over a parameter, over streams with raw sockets; None unless two values or more were run."""
    if axis in ("rows_per_batch", *HOSTS) and not rows_only(reference):
        reference = None

    def position(cell: Cell) -> float:
        value = float(cell.parameters[axis])
        return (cell.payload_bytes or 0.0) / cell.parameters["streams"] / MB if axis == SIZE else value

    panels, findings, reduced = [], [], dict[str, None]()
    scales: list[Scale] = []
    claims: list[Claim] = []
    knees: list[str] = []
    ticks: set[float] = set()
    overlaid = False
    colours: dict[str, str] = {}
    for operation, every in by_operation(results.cells).items():
        cells = [
            c
            for c in every
            if isinstance(c.parameters.get(axis), int | float)
            and (c.parameters.get("streams") or axis in (*HOSTS, "encoders"))
        ]
        # Over hosts there are published figures of rows alone; elsewhere what is counted in bytes stays so.
        scale = scale_of(cells) if axis in HOSTS or any(c.in_rows for c in cells) else BYTES
        if len({c.parameters[axis] for c in cells if scale.of(c).known}) < 2:
            continue
        lines, dropped = _lines(cells, axis, varying(cells), scale)
        # A parameter that only follows another (rows, where the data differs) leaves lines of one point.
        lines = [one for one in lines if len(one[1]) > 1]
        if not lines:
            continue
        reduced |= dict.fromkeys(dropped)
        scales.append(scale)
        panel = Panel(operation, y_label=None if scale == BYTES else scale.label)
        for text, chosen in lines:
            colour = colours.setdefault(text, figure.series_colour(len(colours)))
            notes = [_point_note(c) for c in chosen]
            figures = map(scale.of, chosen)
            panel.series.append(
                scale.medians(text, map(position, chosen), figures, colour, "line", notes=notes)
            )
            ticks |= {position(c) for c in chosen}
        if axis == "streams" and scale == BYTES:
            panel.series += _ceiling_lines(cells, position)
        drawn = [x for one in panel.series for x in one.x]
        extra = list(reference_lines(reference, operation, axis, cells, drawn, scale)) if reference else []
        overlaid = overlaid or bool(extra)
        panel.series += extra
        if axis in ("streams", "encoders") and operation not in IN_ROWS:
            ticks |= {float(x) for series in extra for x in series.x}
        panels.append(panel)
        words, claim = _finding(axis, cells)
        findings.append(f"{operation}{words}")
        claims += [claim] if claim is not None else []
        if axis in HOSTS:
            _proportion(panel, lines, axis, scale)
        if axis == "rows_per_batch":
            found = _knees(results, operation, panel, lines, scale)
            knees += [f"{name}: {at}" if len(lines) > 1 else at for name, at in found]
            if found:
                findings[-1] += f"; 90 % of the fitted peak at {found[-1][1]}"
    if not panels:
        return None
    caption = [INTERVAL_NOTE]
    above = _drop_high_limits(panels)
    if dashed := [n for n in SOCKETS.values() if any(s.name == n for p in panels for s in p.series)]:
        caption.append(
            f"Dashed: {' and '.join(dashed)} in the same direction over as many connections, measured in the "
            "same run."
        )
    caption += above
    if reduced:
        caption.append(f"Each point is the best over {', '.join(wording.head(n) for n in reduced)}.")
    if overlaid:
        caption.append("Dotted: published figures from the hardware named, nothing scaled.")
    if knees:
        caption.append(
            "Dotted: a batch of n rows takes a + n/b, fitted to the trials; the single point is its knee, "
            f"where 90 % of b is reached ({'; '.join(knees)})."
        )
    caption += [sentence(text) for text in results.two_speeds]
    nouns = nouns_of(results.cells[0])
    return Figure(
        name,
        begun("; ".join(findings)),
        " ".join(caption),
        X_LABELS.get(axis, axis).format(row=nouns.row, stream=nouns.stream),
        label(scales),
        panels,
        x_scale="linear" if axis in ("streams", *HOSTS) else "log",
        x_ticks=figure.ticks(ticks) if axis != SIZE else None,
        claims=tuple(claims),
    )


def _proportion(panel: Panel, lines: Sequence[tuple[str, list[Cell]]], axis: str, scale: Scale) -> None:
    """What as many hosts would do that each do as much as the fewest did."""
    for series, (_, chosen) in zip(list(panel.series), lines, strict=False):
        first, last = (float(c.parameters[axis]) for c in (chosen[0], chosen[-1]))
        each = (scale(scale.of(chosen[0]).value) or 0.0) / first
        ends = [(n, each * n) for n in (first, last)]
        panel.series.append(line("in proportion to the fewest", ends, f"{series.colour}/0.6", "dot"))


def _knees(
    results: Results, operation: str, panel: Panel, lines: Sequence[tuple[str, list[Cell]]], scale: Scale
) -> list[tuple[str, str]]:
    """Adds what a batch costs by the fit to the lines that it was made from; answers each line's name and its
    knee in words."""
    texts = []
    for series, (text, chosen) in zip(list(panel.series), lines, strict=False):
        names = {c.name for c in chosen}
        fitted = [
            one
            for one in results.batch_costs
            if one.operation == operation and one.fit is not None and names == {c.name for c in one.cells}
        ]
        for one in fitted[:1]:
            low, high = one.measured
            knee = one.knee.median
            grid = [low * (high / low) ** (i / 60) for i in range(61)]
            panel.series.append(line("a + n/b", [(x, scale(one.at(x))) for x in grid], series.colour, "dot"))
            where = f"{text}: " if len(lines) > 1 else ""
            if low <= knee <= high:
                note = f"{where}90 % at {count(round(knee))} rows/batch"
                panel.series.append(
                    Series("knee", [knee], [scale(one.at(knee))], "$c4", "points", notes=[note])
                )
                texts.append((text, f"{count(round(knee))} rows/batch"))
            else:
                side = "more than the largest batch" if knee > high else "less than the smallest batch"
                texts.append((text, side))
    return texts


def _drop_high_limits(panels: list[Panel]) -> list[str]:
    """Takes limits out that would press all curves to the ground, and says of each where it lies."""
    highest = max((v for p in panels for s in p.series if s.dash != "dash" for v in _heights(s)), default=0.0)
    found: dict[str, list[float]] = {}
    for panel in panels:
        for series in [s for s in panel.series if s.dash == "dash"]:
            if min(_heights(series), default=0.0) > MOST_OF_LIMIT * highest > 0:
                panel.series.remove(series)
                found.setdefault(series.name, []).extend(_heights(series))
    texts = []
    for name, values in found.items():
        low, high = (f"{round(v):,}" for v in (min(values), max(values)))
        at = low if low == high else f"{low} to {high}"
        texts.append(f"{begun(name)} lies far above, at {at} MB/s.")
    return texts


def _heights(series: Series) -> list[float]:
    return [v for part in (series.y, series.high or []) for v in part if isinstance(v, int | float)]


def _finding(axis: str, cells: Sequence[Cell]) -> tuple[str, Claim | None]:
    """What a curve does, in words and as a value: of the series with the highest point, as the findings of
    the run tell it. The line may hold the best of several settings; nothing is claimed of such a mixture."""
    measured = [c for c in cells if sweeps.figure(c).known]
    free = [name for name in varying(measured) if name != axis]
    top = max(
        sweeps.series(measured, axis, free), key=lambda s: sweeps.figure(s.peak).value or 0.0, default=None
    )
    if top is None:
        return ": other settings differ as well along it, so nothing can be told of it alone", None
    if axis == "rows_per_batch" and not sweeps.followed(top.cells):
        return ": batches came alike, whatever size was asked for", None
    place = top.place
    where = f" ({wording.label(place, free)})" if free else ""
    at = f"{wording.label(place, [axis])}: {sweeps.figure(place).text()}"
    more = {Shape.FLAT_THROUGHOUT: f", from {at}", Shape.UNDECIDED: f"; highest at {at}"}.get(top.shape, "")
    text = f"{where} {figure.shape_text(top.shape, axis, at)}{more}"
    return text, Claim(axis, tuple(c.name for c in top.cells), top.shape, top.claimed_at)


def _point_note(cell: Cell) -> str:
    share = f", {cell.share.number('%')} % {cell.of_limit}" if cell.share.known else ""
    names = [
        n for n in ("place", "data", "streams", "rows_per_batch", "rows_per_stream") if cell.parameters.get(n)
    ]
    return f"{cell.main}{share}, {cell.good} trials; {wording.label(cell, names)}"


def _ceiling_lines(cells: Sequence[Cell], position: Callable[[Cell], float]) -> list[Series]:
    """Raw sockets of these cells, grey as limits are."""
    lines = []
    for name in SOCKETS.values():
        found = {
            position(cell): raw.value
            for cell in cells
            if (raw := cell.ceilings.get(name)) is not None and raw.value is not None
        }
        if found:
            lines.append(line(name, [(x, y / MB) for x, y in sorted(found.items())], "$ceiling", "dash"))
    return lines
