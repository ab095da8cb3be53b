"""The roofline of data movement: throughput over payload a batch, under the limits that were measured.

After Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009, with bytes per batch in the place of
operations a byte: what costs the same for every batch makes a slanted roof, what costs the same for every
byte a flat one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.ceilings import ENGINE, SOCKETS
from venturi.analysis.cells.figures import grouped
from venturi.analysis.cells.probes import is_compressed
from venturi.analysis.cells.summary import Cell, best, by_operation, varying
from venturi.analysis.results import Results, evenly
from venturi.common.units import percent
from venturi.report.figures import figure
from venturi.report.figures.figure import BYTES, MB, Figure, Panel, Series, line

KB = 1e3
MOST_POINTS = 300
MOST_MARGINS = 100
"""Beyond so many points their bars only hide each other; the margin is in the note of each."""
MOST_TCP = 4
KINDS = {
    "load-generator": "load generator",
    "stage": "one stage",
    "memory": "memory bandwidth",
    "flow-control": "flow control",
    "schedule": "schedule kept",
}
"""Verdicts in the legend where the kind's own name would not be understood."""


def message_bytes(cell: Cell) -> float | None:
    """Payload of a batch: as asked for, else the mean of what was moved."""
    width, rows = cell.parameters.get("row_bytes"), cell.parameters.get("rows_per_batch")
    if width and rows:
        return float(width * rows)
    if cell.batches.value and cell.throughput.value:
        return cell.throughput.value / cell.batches.value
    return None


def roofline(results: Results) -> Figure | None:
    """The figure; None where no cell has both a throughput and a size of batches."""
    verdicts = results.verdicts
    panels: list[Panel] = []
    shown = total = near = limited = 0
    for operation, every in by_operation(results.cells).items():
        # What a row costs a database does not follow its bytes: `throughput-batch` shows upserts.
        cells = [c for c in every if c.throughput.value and (message_bytes(c) or 0) > 0 and not c.in_rows]
        if not cells:
            continue
        total += len(cells)
        limited += sum(c.share.known for c in cells)
        near += sum((c.share.value or 0.0) >= 0.8 and not c.reference for c in cells)
        ranked = sorted(cells, key=lambda c: (message_bytes(c) or 0.0, c.throughput.value))
        points = evenly(ranked, MOST_POINTS)
        shown += len(points)
        sizes = [message_bytes(c) or 1.0 for c in cells]
        span = (min(sizes) / 1.8, max(sizes) * 1.8)
        panel = Panel(operation, _roofs(cells, span))
        names = varying(every)
        kinds = grouped(points, lambda cell: v.kind if (v := verdicts.get(cell.name)) else "unknown")
        for kind in [k for k in figure.VERDICTS if k in kinds] + sorted(set(kinds) - set(figure.VERDICTS)):
            panel.series.append(_points(kind, kinds[kind], names, len(points) <= MOST_MARGINS))
        panels.append(panel)
    if not panels:
        return None
    caption = ["Each point is a cell, coloured by its verdict."]
    lines = [s for p in panels for s in p.series if s.mark == "line"]
    if not lines:
        caption.append("No limit was measured: run without --ceilings none.")
    elif any(s.name.startswith(ENGINE) for s in lines):
        caption.append(
            "Lines are limits measured in the same run: the slanted one is what the engine does for each "
            "batch however small, against a target that does nothing; the others are what a byte costs."
        )
    else:
        caption.append("Lines are limits measured in the same run: what a byte costs.")
        if any(ENGINE in c.ceilings for c in results.cells):
            caption.append("What the engine does against a target that does nothing lies above the picture.")
    if shown < total:
        caption.append(f"{shown} of {total} cells are drawn, evenly taken.")
    return Figure(
        "roofline",
        _title(results, near, limited),
        " ".join(caption),
        "payload per batch, kB",
        "throughput (payload), MB/s",
        panels,
        x_scale="log",
        y_scale="log",
        y_from_zero=False,
    )


def _title(results: Results, near: int, limited: int) -> str:
    top = best([c for c in results.cells if c.throughput.known and not c.in_rows])
    if top is None or not top.share.known:
        return "Throughput over the size of batches; no limit was measured to set it against"
    # One cell says it all by its share.
    rest = f"; {near} of {limited} cells come within a fifth of their lowest limit" if limited > 1 else ""
    return f"The fastest cell ({top.operation}) moves {percent(top.share.value)} {top.of_limit}{rest}"


def _points(kind: str, cells: Sequence[Cell], names: Sequence[str], margins: bool) -> Series:
    shares = [f", {percent(c.share.value)} {c.of_limit}" if c.share.known else "" for c in cells]
    notes = [f"{c.throughput}{s}; {wording.label(c, names)}" for c, s in zip(cells, shares, strict=True)]
    found = BYTES.medians(
        KINDS.get(kind, kind),
        [(message_bytes(c) or 0.0) / KB for c in cells],
        [c.throughput for c in cells],
        figure.verdict_colour(kind),
        notes=notes,
        links=[c.name for c in cells],
    )
    return found if margins else replace(found, low=None, high=None)


Sized = dict[float, float]
"""A limit (B/s) by the size of a batch (B)."""


def _roofs(cells: Sequence[Cell], span: tuple[float, float]) -> list[Series]:
    """The limits of these cells as lines over the whole width, from what each cell was set against."""
    top = max(c.throughput.value or 0.0 for c in cells)
    found: dict[str, dict[int, Sized]] = {}
    plain = [c for c in cells if not is_compressed(c.parameters)] or list(cells)
    for name in dict.fromkeys(n for c in cells for n in c.ceilings):
        # Sockets carry compressed bytes: they in payload would be a line for each ratio.
        for cell in plain if name in (*SOCKETS.values(), ENGINE) else cells:
            value, size = cell.ceilings[name].value if name in cell.ceilings else None, message_bytes(cell)
            if value and size:
                sizes = found.setdefault(name, {}).setdefault(int(cell.parameters.get("streams") or 0), {})
                sizes[size] = value
                top = max(top, value) if name != ENGINE else top
    out: list[Series] = []
    for name, by_streams in found.items():
        lines = _apart(by_streams)
        alone = len(lines) == 1
        if name == ENGINE:
            lines = lines[:: max(1, len(lines) - 1)]
        elif name not in SOCKETS.values():
            # A codec's lines are multiples of one core's; the highest is the one to come near.
            lines = lines[-1:]
        for index, (streams, sizes) in enumerate(lines):
            text = f"{name}, {streams}" if streams and not alone else name
            if name == ENGINE:
                out += _slanted(text, sizes, span, top * 2.0)
            else:
                fade = max(0.45, 1 - 0.18 * (len(lines) - 1 - index))
                role, dash = ("ceiling", "dash") if name in SOCKETS.values() else ("reference", "dot")
                out.append(_flat(text, sizes, span, dash, f"${role}/{fade:.2f}"))
    return out


def _apart(by_streams: dict[int, Sized]) -> list[tuple[str, Sized]]:
    """Lines that can be told apart, with the numbers of streams that each stands for, at most `MOST_TCP`.

    From some number of streams on a limit is level; those within 15 % of the next are one line.
    """
    groups: list[tuple[list[int], Sized]] = []
    for streams in sorted(by_streams):
        sizes = by_streams[streams]
        if groups and max(sizes.values()) <= 1.15 * max(groups[-1][1].values()):
            groups[-1][0].append(streams)
            groups[-1][1].update(sizes)
        else:
            groups.append(([streams], dict(sizes)))

    def text(streams: list[int]) -> str:
        if streams == [0]:
            return ""
        first, last = streams[0], streams[-1]
        return wording.phrase("streams", last) if first == last else f"{first}..{last} streams"

    return [(text(streams), sizes) for streams, sizes in evenly(groups, MOST_TCP)]


def _flat(name: str, points: Sized, span: tuple[float, float], dash: str, colour: str) -> Series:
    """A limit as it was measured over sizes, level beyond the outermost."""
    xs = sorted(points)
    level = [(span[0], points[xs[0]]), *((x, points[x]) for x in xs), (span[1], points[xs[-1]])]
    return _line(name, level, colour, dash, "begin" if dash == "dash" else "end")


def _slanted(name: str, points: Sized, span: tuple[float, float], top: float) -> list[Series]:
    """So many batches a second: proportional to the size beyond the outermost, cut off above `top` (B/s)."""
    xs = sorted(points)
    slope = [
        (x, points[near] * x / near)
        for x, near in ((span[0], xs[0]), *zip(xs, xs, strict=True), (span[1], xs[-1]))
    ]
    below = [p for p in slope if p[1] <= top]
    if not below:
        return []
    if len(below) < len(slope):
        # Where it leaves the picture: straight on in the logarithms means in proportion.
        x, y = below[-1]
        below.append((min(x * top / y, span[1]), min(top, y * span[1] / x)))
    return [_line(name, below, "$ceiling", "solid", "after" if below[-1][0] < span[1] / 4 else "before")]


def _line(name: str, points: Sequence[tuple[float, float]], colour: str, dash: Any, named: Any) -> Series:
    return line(name, [(x / KB, y / MB) for x, y in points], colour, dash, named_at=named)
