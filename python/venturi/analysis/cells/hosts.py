"""What each loader of a trial on several hosts did, from the records: medians over a cell's good trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.cells.figures import numeric, quotient
from venturi.analysis.cells.summary import Cell
from venturi.common.units import percent

__all__ = ["Host", "counted", "evenness", "hosts", "rates", "several"]


@dataclass(frozen=True)
class Host:
    """One loader."""

    name: str
    address: str | None
    node: str | None
    lead: bool
    first: int
    streams: int
    rows: float
    payload_bytes: float
    rate: float
    """Payload bytes, or of upserts rows, of ingests points, per second of its own interval."""
    share: float
    """Its share of what all loaders moved."""
    late_ns: float
    """How much later than agreed its last stream began, by its own clock."""
    offset_ns: float
    """Its clock minus the driver's."""
    uncertainty_ns: float
    """The largest error of this offset."""
    cores: float | None
    """CPU-seconds a second of its process."""
    busy: float | None
    """Share of its host's CPUs."""


def several(cell: Cell) -> bool:
    """Whether more than one loader ran it."""
    return any(len(record.get("hosts") or []) > 1 for record in cell.records)


def hosts(cell: Cell) -> list[Host]:
    """In their order; empty where one process ran all streams."""
    what = counted(cell)
    found: dict[str, list[tuple[Mapping[str, Any], float]]] = {}
    for record in cell.records:
        listed = record.get("hosts") or []
        total = sum(host[what] for host in listed)
        for host in listed:
            found.setdefault(host["host"], []).append((host, host[what] / total if total else 0.0))
    return [_host(name, trials, what) for name, trials in found.items()]


def rates(cell: Cell) -> list[list[float]]:
    """Of each good trial every loader's rate, of those that took time."""
    what = counted(cell)
    return [
        [host[what] * 1e9 / host["interval_ns"] for host in record.get("hosts") or [] if host["interval_ns"]]
        for record in cell.records
    ]


def counted(cell: Cell) -> str:
    """The count by which its hosts are judged."""
    return "rows" if cell.in_rows else "payload_bytes"


def _host(name: str, trials: Sequence[tuple[Mapping[str, Any], float]], what: str) -> Host:
    listed = [host for host, _ in trials]
    first = listed[-1]
    cores = [
        used
        for host in listed
        if (spent := _spent(host)) is not None
        and (used := quotient(spent, numeric(host, "interval_ns"))) is not None
    ]
    busy = [b for host in listed if (b := numeric(host, "resources", "host", "busy_share")) is not None]
    return Host(
        name,
        first.get("address"),
        first.get("node"),
        bool(first.get("lead")),
        first["streams"][0],
        first["streams"][1],
        median(host["rows"] for host in listed),
        median(host["payload_bytes"] for host in listed),
        median(host[what] * 1e9 / host["interval_ns"] if host["interval_ns"] else 0.0 for host in listed),
        median(share for _, share in trials),
        median(host["start_skew_ns"] for host in listed),
        median(numeric(host, "clock", "offset_ns") or 0.0 for host in listed),
        median(numeric(host, "clock", "uncertainty_ns") or 0.0 for host in listed),
        median(cores) if cores else None,
        median(busy) if busy else None,
    )


def _spent(host: Mapping[str, Any]) -> float | None:
    user, system = numeric(host, "cpu", "user_ns"), numeric(host, "cpu", "system_ns")
    return None if user is None and system is None else (user or 0.0) + (system or 0.0)


def evenness(found: Sequence[Host]) -> str:
    """`the slowest 94 % of the fastest`; empty of one host, or where nothing was moved."""
    speeds = [host.rate for host in found]
    if len(found) < 2 or not max(speeds):
        return ""
    return f"the slowest {percent(min(speeds) / max(speeds))} of the fastest"
