"""What each loader of a trial on several hosts did, from the records: medians over a cell's good trials."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.cells import Cell
from venturi.units import Quantity, percent

__all__ = ["Host", "figures", "hosts"]

_SHOWN = 12


@dataclass(frozen=True)
class Host:
    """One loader."""

    name: str
    address: str | None
    streams: int
    rate: float
    """Payload bytes, or of upserts rows, of ingests points, per second of its own interval."""
    share: float
    """Of what all loaders moved."""
    late_ns: float
    """How much later than agreed its last stream began, with the error of its clock."""
    busy: float | None
    """Share of its host's CPUs."""


def hosts(cell: Cell) -> list[Host]:
    """In their order; empty where one process ran all streams."""
    what = "rows" if cell.in_rows else "payload_bytes"
    found: dict[str, list[tuple[Mapping[str, Any], float]]] = {}
    for record in cell.records:
        listed = record.get("hosts") or []
        total = sum(host[what] for host in listed)
        for host in listed:
            found.setdefault(host["host"], []).append((host, host[what] / total if total else 0.0))
    return [_host(name, trials, what) for name, trials in found.items()]


def _host(name: str, trials: list[tuple[Mapping[str, Any], float]], what: str) -> Host:
    first = trials[-1][0]
    busy = [
        share
        for host, _ in trials
        if (share := ((host.get("resources") or {}).get("host") or {}).get("busy_share")) is not None
    ]
    return Host(
        name,
        first.get("address"),
        first["streams"][1],
        median(host[what] * 1e9 / host["interval_ns"] if host["interval_ns"] else 0.0 for host, _ in trials),
        median(share for _, share in trials),
        median(host["start_skew_ns"] + host["clock"]["uncertainty_ns"] for host, _ in trials),
        median(busy) if busy else None,
    )


def figures(cell: Cell) -> list[tuple[str, str]]:
    """A line a loader, for people; of many the slowest and the fastest ones."""
    found = hosts(cell)
    if not found:
        return []
    shown = found
    if len(found) > _SHOWN:
        ranked = sorted(found, key=lambda host: host.rate)
        shown = [*ranked[: _SHOWN // 2], *ranked[-_SHOWN // 2 :]]
    rates = [host.rate for host in found]
    out = [(host.name, _line(host, cell)) for host in shown]
    if len(found) > 1 and max(rates):
        told = f"the slowest {percent(min(rates) / max(rates))} of the fastest"
        more = f", {len(found) - len(shown)} more between" if len(shown) < len(found) else ""
        out.append((f"{len(found)} loaders", told + more))
    return out


def _line(host: Host, cell: Cell) -> str:
    unit = {"row": "rows/s", "point": "points/s"}.get(cell.noun, "B/s") if cell.in_rows else "B/s"
    where = f"on {host.address}: " if host.address else ""
    streams = f"{host.streams} stream{'s' if host.streams > 1 else ''}"
    parts = [
        f"{where}{Quantity(host.rate, unit=unit)} by {streams}",
        f"{percent(host.share)} of all",
        f"began {Quantity(host.late_ns, unit='ns')} late at most",
    ]
    return ", ".join([*parts, *([f"its CPUs {percent(host.busy)} busy"] if host.busy is not None else [])])
