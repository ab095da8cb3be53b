"""How cells and their settings are named in a report; the columns of their table; the fastest in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells import writes
from venturi.analysis.cells.figures import ENDS
from venturi.analysis.cells.machines import unproven
from venturi.analysis.cells.summary import Cell, basis, best, speed, varying
from venturi.analysis.results import Results
from venturi.analysis.statistics.intervals import RANGE_BELOW, range_coverage
from venturi.analysis.wording import nouns_of
from venturi.common.units import MISSING, Quantity, pick_unit
from venturi.report.document import Column, Style, filled_columns, intervals, numbers, settings


def name_of(results: Results, cell: Cell) -> str:
    """A cell by what distinguishes it in its table: `get, 4 streams`."""
    names = results.telling.get(cell.operation, [])
    return ", ".join(dict.fromkeys([cell.operation, wording.label(cell, names)]))


def setting(where: dict[str, Any]) -> str:
    """`2 streams, uncompressed`; empty if nothing varies."""
    return ", ".join(wording.phrase(name, value) for name, value in where.items())


def marked(environment: Mapping[str, Any]) -> str:
    """` (unproven)` for a run whose self-test failed; empty for all others."""
    return " (unproven)" if unproven(environment) else ""


def columns(
    cells: Sequence[Cell], every: bool = False, verdicts: Sequence[str] | None = None, doubtful: bool = False
) -> list[Column]:
    """The columns for cells of one operation. `every` adds the figures that only a wide page has room for;
    `verdicts` is the short title of each cell's, "" where there is none; `doubtful` marks every row."""
    nouns = [nouns_of(cells[0])] if cells else []
    out = settings([c.parameters for c in cells], varying(cells), *nouns)
    # Bytes a second, or of results of other tools what they counted instead: rows, requests.
    measure = basis(cells)
    speeds: list[Quantity] = [getattr(c, measure) for c in cells]
    unit = pick_unit(speeds[0].unit if speeds else "B/s", [q.value for q in speeds])
    median, margins = intervals("median", speeds, coverage(cells), unit, 0)
    out += [replace(median, styles=["strong"] * len(cells)), replace(margins, yields=2)]
    if doubtful:
        out.append(Column("proven", "", ["no"] * len(cells), 0, text=True))
    out.append(_of_limit(cells))
    if verdicts is not None and any(verdicts):
        out.append(Column("verdict", "", [v or MISSING for v in verdicts], 1, text=True))
    in_rows = all(c.in_rows for c in cells)
    if every and cells:
        out.append(numbers("steady", [c.steady for c in cells], 6))
    if measure != "rows":
        rows = numbers("rows", [c.rows for c in cells], 5)
        # `Mrows/s` under the head "rows" says it twice: `M/s`.
        out.append(replace(rows, unit=rows.unit.replace("rows", "")))
    latencies = {p: [c.latency.get(p, Quantity(None, unit="ns")) for c in cells] for p in (50.0, 99.0, 100.0)}
    # One unit for the median and the tail, so that they compare at a glance.
    telling = latencies[50.0] if any(q.measured for q in latencies[50.0]) else latencies[100.0]
    unit = pick_unit("ns", [q.value for q in telling])
    out.append(numbers("p50", latencies[50.0], 4, unit))
    out.append(numbers("p99", latencies[99.0], 3, unit))
    answered = all(c.answered for c in cells)
    if every or answered:
        out.append(numbers("max", latencies[100.0], 7, unit))
    if every and answered:
        out += _latencies(cells, unit)
    both = any(c.cpu["server"].measured for c in cells)
    head = "client+server" if both else "CPU client"
    out.append(Column(head, "cores", [cores(c, both) for c in cells], 4))
    for end in ENDS if every else ():
        head, per_second = f"per {end} CPU\N{NON-BREAKING HYPHEN}s", [c.per_cpu[end] for c in cells]
        out.append(numbers(head, per_second, 7, None if in_rows else "MB/s"))
    if len({c.verification for c in cells if c.verified}) > 1:
        out.append(Column("verified", "", [c.verification for c in cells], 3, text=True))
    if in_rows and cells:
        out += _batches(cells, every) if answered else _points(cells, every)
    out.append(Column("ok", "", [f"{c.good}/{c.trials}" for c in cells], 0, yields=2))
    # If none failed, "ok" says so too.
    last = None if any(c.failed for c in cells) else 9
    marks: list[Style] = ["bad" if c.failed else "" for c in cells]
    out.append(Column("fail", "", [str(c.failed) for c in cells], yields=last, styles=marks))
    # A figure that no trial has, such as the CPU of a foreign server, would be a column of dashes.
    return filled_columns(out)


def _latencies(cells: Sequence[Cell], unit: str) -> list[Column]:
    """The other latency figures of an upsert's batch; of an open loop the service times beside the response
    times of the columns before."""
    nothing = Quantity(None, unit="ns")
    times = [writes.latencies(c, "response" if c.parameters.get("rate") else "service") for c in cells]
    service = [writes.latencies(c, "service") for c in cells]
    columns = [("", name, times) for name in ("min", "mean", "p95", "p99.9")]
    if any(c.parameters.get("rate") for c in cells):
        columns += [("service ", name, service) for name in ("p50", "p99")]
    return [numbers(head + name, [t.get(name, nothing) for t in of], 7, unit) for head, name, of in columns]


def _batches(cells: Sequence[Cell], every: bool) -> list[Column]:
    """What was stored, and what went wrong in trials that were good all the same; none where nothing did."""
    out = []
    if every:
        out.append(numbers("rows in total", list(map(writes.rows_total, cells)), 7))
        out.append(numbers("stored", list(map(writes.stored_bytes, cells)), 7))
        out.append(numbers("a row", list(map(writes.stored_row, cells)), 7))
    wrong = [writes.troubles(c.records) for c in cells]
    for head, name in (("refused", "refused"), ("in doubt", "in_doubt"), ("retried", "retries")):
        counted = [getattr(w, name) for w in wrong]
        if any(counted):
            out.append(Column(head, "batches", [f"{n:,}" for n in counted], 1))
    return out


def _points(cells: Sequence[Cell], every: bool) -> list[Column]:
    """What points cost: bytes on their way and at rest, CPU time of both ends; how even the streams were."""
    out = [
        numbers("stored", [_plain(writes.stored_row(c)) for c in cells], 2, ""),
        numbers("server", [writes.cpu_point(c, "server") for c in cells], 3, "ns/point"),
    ]
    if every:
        out.append(numbers("client", [writes.cpu_point(c, "client") for c in cells], 7, "ns/point"))
        out.append(numbers("points in total", list(map(writes.rows_total, cells)), 7))
        out.append(numbers("wire", list(map(writes.wire, cells)), 7))
        out.append(numbers("wire", [_plain(writes.wire_point(c)) for c in cells], 7, ""))
        out.append(numbers("stored", list(map(writes.stored_bytes, cells)), 7))
        out.append(numbers("disk, written", list(map(writes.disk, cells)), 7))
        out.append(numbers("fairness", list(map(writes.fairness, cells)), 7))
    return [replace(c, unit="B/point") if c.unit == "" else c for c in out]


def _plain(quantity: Quantity) -> Quantity:
    return replace(quantity, unit="")


def _of_limit(cells: Sequence[Cell]) -> Column:
    """The share of the lowest limit; named in the head where it is the same one for all cells."""
    binding = {_named(c) for c in cells if c.share.measured}
    if len(binding) <= 1:
        return Column(next(iter(binding), "limit"), "%", [percent_of(c.share) for c in cells], 2)
    texts = [f"{percent_of(c.share)} % {_named(c)}" if c.share.measured else MISSING for c in cells]
    return Column("limit", "", texts, 2)


def _named(cell: Cell) -> str:
    return f"{cell.binding} (reference)" if cell.reference else str(cell.binding)


def coverage(cells: Sequence[Cell]) -> str:
    """How surely the margins hold the median: `95 % CI`, or what the range of few repeats covers."""
    counts = {cell.good for cell in cells if cell.good > 1}
    least = min(counts, default=RANGE_BELOW)
    if least >= RANGE_BELOW:
        return "95 % CI"
    sure = f"{range_coverage(least) * 100:.4g} % CI"
    return sure if len(counts) == 1 else f"from {sure}"


def percent_of(share: Quantity) -> str:
    if share.value is None:
        return MISSING
    # A database comes nowhere near some limits: "0" would say that nothing was moved.
    return "<1" if 0 < share.value < 0.01 else f"{share.value * 100:.0f}"


def cores(cell: Cell, both: bool) -> str:
    """Cores of client and server, `1.2+1.1`."""
    quantities = [cell.cpu[end] for end in (ENDS if both else ("client",))]
    parts = [f"{q.value:.1f}" if q.value is not None else MISSING for q in quantities]
    return "+".join(parts) if set(parts) != {MISSING} else MISSING


def fastest(cells: Sequence[Cell]) -> str:
    """`best 2,431 MB/s [2,390..2,470] with 2 streams, 78 % of raw TCP`."""
    top = best(cells)
    if top is None:
        return "no trial succeeded"
    names = varying(cells) or (["streams"] if top.parameters.get("streams") else [])
    text = f"{'best ' if len(cells) > 1 else ''}{speed(top, cells)}"
    text += f" with {wording.label(top, names)}" if names else ""
    # That a database does a thousandth of what memory could copy is no headline.
    if top.share.measured and not (top.in_rows and (top.share.value or 0.0) < 0.01):
        text += f", {percent_of(top.share)} % {top.of_limit}"
    return text
