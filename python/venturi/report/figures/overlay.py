"""Published figures laid over a run's own curves: dotted, named with their hardware, nothing scaled."""

from __future__ import annotations

import math
from collections.abc import Sequence

from venturi.analysis.cells.figures import IN_ROWS
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import median_interval
from venturi.analysis.words import labels
from venturi.common.units import count
from venturi.report.figures.figure import MB, Mark, Scale, Series
from venturi.store import reference as published


def rows_only(reference: str | None) -> bool:
    """Whether these published figures are of upserts or ingests, which know no sizes in bytes."""
    return reference is not None and all(one.operation in IN_ROWS for one in published.sets(reference))


def nearest(values: set[int], wanted: float) -> int:
    return min(values, key=lambda v: abs(math.log(v / wanted)))


def published_upserts(
    one: published.ReferenceSet, operation: str, axis: str, xs: Sequence[float], scale: Scale
) -> list[Series]:
    """Published upserts: over hosts as they are; over another axis the one host's, which was measured with
    one number of workers and one size of batches only.
    """
    if operation != one.operation or scale.measure != "rows" or not xs:
        return []
    rows = sorted(one.rows(), key=lambda row: row["hosts"])
    if axis == "hosts":
        name, x, y = one.label, [float(r["hosts"]) for r in rows], [r["rows_per_second"] for r in rows]
    else:
        first = rows[0]
        name = f"{one.label}, {first['hosts']} host, {count(first['rows_per_batch'])} rows/batch"
        of_size = axis == "rows_per_batch"
        x = [float(first["rows_per_batch"])] if of_size else [min(xs), max(xs)]
        y = [first["rows_per_second"]] * len(x)
    colour = "$reference" if one.name == "memsql" else "$reference/0.6"
    mark: Mark = "points" if len(x) == 1 else "line"
    return [Series(name, list(x), [scale(v) for v in y], colour, mark, dash="dot", markers=axis == "hosts")]


def published_ingests(
    one: published.ReferenceSet, operation: str, axis: str, xs: Sequence[float], scale: Scale
) -> list[Series]:
    """A published ingest, which has one number of connections: a point over streams, else a level line."""
    if operation != one.operation or scale.measure != "rows" or not xs:
        return []
    # Of one load alone the number of connections is known.
    (row,) = (row for row in one.rows() if "streams" in row)
    name = f"{one.label}, {row['streams']} streams"
    inside = axis == "streams" and min(xs) <= row["streams"] <= max(xs)
    x = [float(row["streams"])] if inside else [min(xs), max(xs)]
    mark: Mark = "points" if inside else "line"
    y = [scale(row["rows_per_second"])] * len(x)
    return [Series(name, x, y, "$reference", mark, dash="dot", markers=False)]


def published_pools(
    one: published.ReferenceSet, operation: str, axis: str, cells: Sequence[Cell]
) -> list[Series]:
    """The published partitions x encoders x decoders along one of these axes, the others as most of them
    were: over encoders with 4 partitions, over partitions for each number of encoders, always 4 decoders.
    """
    if operation != one.operation or axis not in ("streams", "encoders"):
        return []
    rows = [row for row in one.rows() if row["decoders"] == 4]
    lines: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        partitions, encoders = int(row["partitions"]), int(row["encoders"])
        at, rate = float(encoders if axis == "encoders" else partitions), float(row["bytes_per_second"]) / MB
        if axis == "encoders" and partitions == 4:
            lines.setdefault(f"{one.label}, 4 partitions", []).append((at, rate))
        elif axis == "streams" and any(c.parameters.get("encoders") == encoders for c in cells):
            lines.setdefault(f"{one.label}, encoders {encoders}", []).append((at, rate))
    out = []
    for i, (text, found) in enumerate(lines.items()):
        xs = sorted({x for x, _ in found})
        if len(xs) < 2:
            continue
        ys: list[float | None] = [median_interval([y for at, y in found if at == x]).median for x in xs]
        colour = "$reference" if i == 0 else f"$reference/{max(0.4, 1 - 0.2 * i):.1f}"
        out.append(Series(text, list(xs), ys, colour, dash="dot", markers=False))
    return out


def reference_lines(
    one: published.ReferenceSet, operation: str, axis: str, cells: Sequence[Cell], colour: str
) -> list[Series]:
    """A published set on the same axes, at its size (or its streams) nearest to the run's own."""
    if one.operation != operation or one.place is None:
        return []
    rows = one.rows()
    if axis == "streams":
        own = sorted(float(c.parameters.get("rows_per_stream") or 0) for c in cells)
        middle = own[len(own) // 2] if own and own[len(own) // 2] > 0 else 1e7
        size = nearest({r["rows_per_stream"] for r in rows}, middle)
        groups = {
            f"{one.label}, {count(size)} rows/stream": [r for r in rows if r["rows_per_stream"] == size]
        }
    else:
        wanted = {c.parameters.get("streams") for c in cells}
        chosen = sorted({r["streams"] for r in rows} & wanted)[:3]
        groups = {
            f"{one.label}, {labels.phrase('streams', n)}": [r for r in rows if r["streams"] == n]
            for n in chosen
        }
    out = []
    for i, (text, members) in enumerate(groups.items()):
        points: dict[float, list[float]] = {}
        for row in members:
            x = row["streams"] if axis == "streams" else row["payload_bytes"] / row["streams"] / MB
            points.setdefault(x, []).append(row["bytes_per_second"] / MB)
        xs = sorted(points)
        out.append(
            Series(
                text,
                list(xs),
                [median_interval(points[x]).median for x in xs],
                colour if i == 0 else f"$reference/{max(0.4, 1 - 0.3 * i):.1f}",
                dash="dot",
                markers=False,
            )
        )
    return out
