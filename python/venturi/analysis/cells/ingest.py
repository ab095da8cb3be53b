"""What is to be known of a cell that sends points of time series: bytes on their way and at rest, what a
point costs each end, and how evenly the streams were served.
"""

from __future__ import annotations

from collections.abc import Iterable

from venturi.analysis.cells.figures import ENDS, Record, cpu_figures, get, numeric, quotient
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.units import Quantity, percent


def wire(cell: Cell) -> Quantity:
    """Bytes a second through the sockets."""
    return _quantity(
        (quotient(_wire(r), numeric(r, "times", "interval_ns"), 1e9) for r in cell.records), "B/s"
    )


def wire_point(cell: Cell) -> Quantity:
    """Bytes of a point on the wire."""
    return _quantity((quotient(_wire(r), numeric(r, "counts", "rows")) for r in cell.records), "B")


def _wire(record: Record) -> float | None:
    return numeric(record, "counts", "wire_bytes") or None


def disk(cell: Cell) -> Quantity:
    """What the server's host wrote to its disks a second while the clock ran; the client's where the server
    was not sampled, but runs on the same machine."""
    return _quantity(map(_written, cell.records), "B/s")


def _written(record: Record) -> float | None:
    same = get(record, "resources", "same_machine")
    for end in ("server", "client") if same else ("server",):
        seen = get(record, "resources", end)
        written = numeric(seen, "disk", "written_bytes")
        if written is not None:
            return quotient(written, numeric(seen, "window_ns"), 1e9)
    return None


def cpu_point(cell: Cell, end: str) -> Quantity:
    """CPU time of an end for a point (ns)."""
    return _quantity(
        cpu_figures(cell.records, end, lambda r, cpu: quotient(cpu, numeric(r, "counts", "rows"))), "ns/point"
    )


def costs(cell: Cell) -> list[tuple[str, Quantity]]:
    """`client CPU a point`, `server CPU a point`."""
    return [(f"{end} CPU a point", cpu_point(cell, end)) for end in ENDS]


def fairness(cell: Cell) -> Quantity:
    """Points a second of the slowest stream over those of the fastest; nothing of a single stream."""
    return _quantity(map(_evenness, cell.records), "fraction")


def fairness_text(cell: Cell) -> str | None:
    """`the slowest of 32 streams got 94 % of the fastest one's points/s`."""
    found, streams = fairness(cell), cell.parameters.get("streams")
    if found.value is None:
        return None
    of = f" of {streams}" if isinstance(streams, int) else ""
    return f"the slowest{of} streams got {percent(found.value)} of the fastest one's points/s"


def _evenness(record: Record) -> float | None:
    rates = []
    for stream in get(record, "streams") or ():
        began, ended = numeric(stream, "start_ns"), numeric(stream, "end_ns")
        spent = None if began is None or ended is None else ended - began
        rate = quotient(numeric(stream, "rows"), spent)
        if rate is None:
            return None
        rates.append(rate)
    return min(rates) / max(rates) if len(rates) > 1 and max(rates) > 0 else None


def _quantity(values: Iterable[float | None], unit: str) -> Quantity:
    known = [v for v in values if v is not None]
    return median_interval(known).quantity(unit) if known else Quantity(None, unit=unit)
