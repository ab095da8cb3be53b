"""Figures of cells that write: batches that a server answers or refuses, and points of time series.

What is to be known of a cell whose work is batches that a server answers: latency by kind, totals, what
was refused, what nobody knows of, what is stored.

A batch is acknowledged, refused (the server said no: it was not applied) or in doubt (no answer: nobody
knows). Only acknowledged ones are in rows, rates and latencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from venturi.analysis.cells.figures import ENDS, IN_ROWS, cpu_figures, percentile, quotient
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.units import Quantity, percent
from venturi.engine.record import Trial

KINDS = ("service", "response")
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
FIGURES = ("min", "mean", *(f"p{p:g}" for p in PERCENTILES), "max")
"""Latency figures in the order in which they are shown."""
MOST_KINDS = 5
"""Kinds of errors that are told one by one."""


def latency(record: Trial, kind: str, figure: str) -> float | None:
    """One latency figure of a trial (ns): `min`, `mean`, `max` or a percentile, `p99.9`."""
    if not figure.startswith("p"):
        found: float | None = record.latency[kind][figure]
        return found
    return percentile(record, float(figure[1:]), (kind,))


def latencies(cell: Cell, kind: str) -> dict[str, Quantity]:
    """The figures of one kind that are known: medians over the good trials of each trial's figure."""
    found = {name: _quantity((latency(r, kind, name) for r in cell.records), "ns") for name in FIGURES}
    return {name: quantity for name, quantity in found.items() if quantity.measured}


def rows_total(cell: Cell) -> Quantity:
    """Rows acknowledged in a trial."""
    return _quantity((r.counts.rows for r in cell.records), f"{cell.noun}s")


def stored_bytes(cell: Cell) -> Quantity:
    """What the target holds afterwards, where it tells."""
    return _quantity((r.counts.stored_bytes or None for r in cell.records), "B")


def stored_row(cell: Cell) -> Quantity:
    """Stored bytes a row that the target holds: of rows with one key there is one, however often it came."""
    return _quantity(
        (quotient(r.counts.stored_bytes or None, r.verification.rows) for r in cell.records), "B"
    )


def _quantity(values: Iterable[float | None], unit: str) -> Quantity:
    known = [v for v in values if v is not None]
    return median_interval(known).quantity(unit) if known else Quantity(None, unit=unit)


@dataclass(frozen=True)
class ErrorKind:
    """Errors of one kind and code with the words of the first one."""

    kind: str
    code: str | None
    count: int
    message: str

    @property
    def name(self) -> str:
        """`server 1213`, `timeout`."""
        return self.kind if self.code is None else f"{self.kind} {self.code}"


@dataclass
class Troubles:
    """What did not go well, summed over trials."""

    trials: int = 0
    """Trials with any of it."""
    refused: int = 0
    refused_rows: int = 0
    in_doubt: int = 0
    in_doubt_rows: int = 0
    retries: int = 0
    kinds: list[ErrorKind] = field(default_factory=list)
    """The most frequent first."""

    def __bool__(self) -> bool:
        return bool(self.refused or self.in_doubt or self.retries or self.kinds)


def troubles(records: Sequence[Trial]) -> Troubles:
    """Errors of these trials together, each kind with its first message."""
    out = Troubles()
    kinds: dict[tuple[str, str | None], ErrorKind] = {}
    for record in records:
        found = record.errors
        out.trials += found.retries is not None
        out.refused += found.refused.batches or 0
        out.refused_rows += found.refused.rows or 0
        out.in_doubt += found.in_doubt.batches or 0
        out.in_doubt_rows += found.in_doubt.rows or 0
        out.retries += found.retries or 0
        for one in found.kinds:
            key = one.kind or "unknown", one.code
            before = kinds.get(key)
            message = before.message if before else one.message or ""
            kinds[key] = ErrorKind(*key, (before.count if before else 0) + (one.count or 0), message)
    out.kinds = sorted(kinds.values(), key=lambda told: -told.count)
    return out


def acknowledged(record: Trial) -> str:
    """What an upsert that did not end well had done: `1,234,500 rows in 2,469 batches were acknowledged; 4
    batches (2,000 rows) are in doubt`, with the kinds of errors. Empty for other operations and for a trial
    that never began."""
    rows, number = record.counts.rows or 0, record.counts.batches or 0
    found = troubles([record])
    operation = record.parameters.get("operation")
    if operation not in IN_ROWS or not (rows or number or found):
        return ""
    if operation == "ingest":
        # Nobody acknowledges a batch of points by itself.
        return "; ".join(
            [f"{rows:,} points were sent until then", *trouble_phrases(found), *error_lines(found)]
        )
    parts = [f"{rows:,} rows{f' in {count_batches(number)}' if number else ''} were acknowledged"]
    return "; ".join([*parts, *trouble_phrases(found), *error_lines(found)])


def count_batches(batches: int) -> str:
    """`1 batch`, `2,469 batches`."""
    return f"{batches:,} batch{'' if batches == 1 else 'es'}"


def trouble_phrases(found: Troubles) -> list[str]:
    """Refused, in doubt and retried, each where there was any."""
    out = []
    if found.refused:
        verb = "was" if found.refused == 1 else "were"
        out.append(f"{count_batches(found.refused)} ({found.refused_rows:,} rows) {verb} refused")
    if found.in_doubt:
        verb = "is" if found.in_doubt == 1 else "are"
        out.append(f"{count_batches(found.in_doubt)} ({found.in_doubt_rows:,} rows) {verb} in doubt")
    if found.retries:
        verb = " was" if found.retries == 1 else "es were"
        out.append(f"{found.retries:,} batch{verb} tried again")
    return out


def error_lines(found: Troubles) -> list[str]:
    """`3 x server 1213: Deadlock found ...`, a line a kind."""
    out = [
        f"{one.count:,} x {one.name}" + (f": {one.message}" if one.message else "")
        for one in found.kinds[:MOST_KINDS]
    ]
    if len(found.kinds) > MOST_KINDS:
        out.append(f"{len(found.kinds) - MOST_KINDS} more kinds")
    return out


def wire(cell: Cell) -> Quantity:
    """Bytes a second through the sockets."""
    return _quantity((quotient(_wire(r), r.times.interval_ns, 1e9) for r in cell.records), "B/s")


def wire_point(cell: Cell) -> Quantity:
    """Bytes of a point on the wire."""
    return _quantity((quotient(_wire(r), r.counts.rows) for r in cell.records), "B")


def _wire(record: Trial) -> float | None:
    return record.counts.wire_bytes or None


def disk(cell: Cell) -> Quantity:
    """What the server's host wrote to its disks a second while the clock ran; the client's where the server
    was not sampled, but runs on the same machine."""
    return _quantity(map(_written, cell.records), "B/s")


def _written(record: Trial) -> float | None:
    same = record.resources.same_machine
    for end in ("server", "client") if same else ("server",):
        seen = record.resources[end]
        written = seen.disk.written_bytes
        if written is not None:
            return quotient(written, seen.window_ns, 1e9)
    return None


def cpu_point(cell: Cell, end: str) -> Quantity:
    """CPU time of an end for a point (ns)."""
    return _quantity(cpu_figures(cell.records, end, lambda r, cpu: quotient(cpu, r.counts.rows)), "ns/point")


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


def _evenness(record: Trial) -> float | None:
    rates = []
    for stream in record.streams:
        began, ended = stream.start_ns, stream.end_ns
        spent = None if began is None or ended is None else ended - began
        rate = quotient(stream.rows, spent)
        if rate is None:
            return None
        rates.append(rate)
    return min(rates) / max(rates) if len(rates) > 1 and max(rates) > 0 else None
