"""What is to be known of a cell whose work is batches that a server answers: latency by kind, totals, what
was refused, what nobody knows of, what is stored.

A batch is acknowledged, refused (the server said no: it was not applied) or in doubt (no answer: nobody
knows). Only acknowledged ones are in rows, rates and latencies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.analysis.cells.figures import IN_ROWS, Record, get, numeric, percentile, quotient
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.units import Quantity

KINDS = ("service", "response")
PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
FIGURES = ("min", "mean", *(f"p{p:g}" for p in PERCENTILES), "max")
"""Latency figures in the order in which they are shown."""
MOST_KINDS = 5
"""Kinds of errors that are told one by one."""


def latency(record: Record, kind: str, figure: str) -> float | None:
    """One latency figure of a trial (ns): `min`, `mean`, `max` or a percentile, `p99.9`."""
    if not figure.startswith("p"):
        return numeric(record, "latency", kind, figure)
    return percentile(record, float(figure[1:]), (kind,))


def latencies(cell: Cell, kind: str) -> dict[str, Quantity]:
    """The figures of one kind that are known: medians over the good trials of each trial's figure."""
    found = {name: _quantity((latency(r, kind, name) for r in cell.records), "ns") for name in FIGURES}
    return {name: quantity for name, quantity in found.items() if quantity.known}


def rows_total(cell: Cell) -> Quantity:
    """Rows acknowledged in a trial."""
    return _quantity((numeric(r, "counts", "rows") for r in cell.records), f"{cell.noun}s")


def stored_bytes(cell: Cell) -> Quantity:
    """What the target holds afterwards, where it tells."""
    return _quantity((numeric(r, "counts", "stored_bytes") or None for r in cell.records), "B")


def stored_row(cell: Cell) -> Quantity:
    """Stored bytes a row that the target holds: of rows with one key there is one, however often it came."""
    return _quantity(
        (
            quotient(numeric(r, "counts", "stored_bytes") or None, numeric(r, "verification", "rows"))
            for r in cell.records
        ),
        "B",
    )


def _quantity(values: Iterable[float | None], unit: str) -> Quantity:
    known = [v for v in values if v is not None]
    return median_interval(known).quantity(unit) if known else Quantity(None, unit=unit)


@dataclass(frozen=True)
class Told:
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
    kinds: list[Told] = field(default_factory=list)
    """The most frequent first."""

    def __bool__(self) -> bool:
        return bool(self.refused or self.in_doubt or self.retries or self.kinds)


def troubles(records: Sequence[Mapping[str, Any]]) -> Troubles:
    """Errors of these trials together, each kind with its first message."""
    out = Troubles()
    kinds: dict[tuple[str, str | None], Told] = {}
    for record in records:
        found = record.get("errors")
        if not isinstance(found, Mapping):
            continue
        out.trials += 1
        out.refused += _whole(found, "refused", "batches")
        out.refused_rows += _whole(found, "refused", "rows")
        out.in_doubt += _whole(found, "in_doubt", "batches")
        out.in_doubt_rows += _whole(found, "in_doubt", "rows")
        out.retries += _whole(found, "retries")
        for one in get(found, "kinds") or ():
            code = get(one, "code")
            key = str(get(one, "kind") or "unknown"), None if code is None else str(code)
            before = kinds.get(key)
            message = before.message if before else str(get(one, "message") or "")
            kinds[key] = Told(*key, (before.count if before else 0) + _whole(one, "count"), message)
    out.kinds = sorted(kinds.values(), key=lambda told: -told.count)
    return out


def _whole(record: Any, *path: str) -> int:
    return int(numeric(record, *path) or 0)


def acknowledged(record: Mapping[str, Any]) -> str:
    """What an upsert that did not end well had done: `1,234,500 rows in 2,469 batches were acknowledged; 4
    batches (2,000 rows) are in doubt`, with the kinds of errors. Empty for other operations and for a trial
    that never began."""
    counted = [_whole(record, "counts", n) for n in ("rows", "batches")]
    found = troubles([record])
    operation = get(record, "parameters", "operation")
    if operation not in IN_ROWS or not (any(counted) or found):
        return ""
    rows, number = counted
    if operation == "ingest":
        # Nobody acknowledges a batch of points by itself.
        return "; ".join([f"{rows:,} points were sent until then", *words(found), *told(found)])
    parts = [f"{rows:,} rows{f' in {several(number)}' if number else ''} were acknowledged"]
    return "; ".join([*parts, *words(found), *told(found)])


def several(batches: int) -> str:
    """`1 batch`, `2,469 batches`."""
    return f"{batches:,} batch{'' if batches == 1 else 'es'}"


def words(found: Troubles) -> list[str]:
    """Refused, in doubt and retried, each where there was any."""
    out = []
    if found.refused:
        verb = "was" if found.refused == 1 else "were"
        out.append(f"{several(found.refused)} ({found.refused_rows:,} rows) {verb} refused")
    if found.in_doubt:
        verb = "is" if found.in_doubt == 1 else "are"
        out.append(f"{several(found.in_doubt)} ({found.in_doubt_rows:,} rows) {verb} in doubt")
    if found.retries:
        verb = " was" if found.retries == 1 else "es were"
        out.append(f"{found.retries:,} batch{verb} tried again")
    return out


def told(found: Troubles) -> list[str]:
    """`3 x server 1213: Deadlock found ...`, a line a kind."""
    out = [
        f"{one.count:,} x {one.name}" + (f": {one.message}" if one.message else "")
        for one in found.kinds[:MOST_KINDS]
    ]
    if len(found.kinds) > MOST_KINDS:
        out.append(f"{len(found.kinds) - MOST_KINDS} more kinds")
    return out
