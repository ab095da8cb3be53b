"""Published figures laid over a run's own curves: dotted, named with their hardware, nothing scaled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from venturi.analysis import wording
from venturi.analysis.cells.figures import IN_ROWS
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.units import count
from venturi.report.figures.figure import MB, Mark, Scale, Series
from venturi.store import reference as published

Points = list[tuple[float, float]]


def rows_only(reference: str | None) -> bool:
    """Whether these published figures are of upserts or ingests, which know no sizes in bytes."""
    return reference is not None and all(one.operation in IN_ROWS for one in published.sets(reference))


def nearest(values: set[int], wanted: float) -> int:
    return min(values, key=lambda v: abs(math.log(v / wanted)))


def lines(
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
                y: list[float | None] = [median_interval([v for x, v in points if x == a]).median for a in at]
                yield Series(text, list(at), y, f"$reference/{shade:.2f}", dash="dot", markers=False)
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
