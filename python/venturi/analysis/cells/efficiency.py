"""Efficiency over hosts: what each of N loaders does, over what each of the fewest did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.cells import hosts
from venturi.analysis.cells.places import over
from venturi.analysis.cells.summary import Cell, by_operation, by_setting, varying
from venturi.common.units import Quantity

__all__ = ["Scaled", "Step", "axis_of", "scaled"]


@dataclass(frozen=True)
class Step:
    """The figures of one number of hosts."""

    hosts: int
    cell: Cell
    efficiency: Quantity
    """Of the rate per host, as a fraction of that with the fewest hosts."""
    per_core: Quantity
    """The same of what a CPU-second of the client's hosts moves; unknown where it was not accounted."""
    slowest: float | None
    """The slowest loader's rate over the fastest's, median over the trials."""
    machines: int
    """On how many machines the processes really ran: loaders may share one."""

    @property
    def each(self) -> Quantity:
        """Rate per host."""
        main = self.cell.main
        value, low, high = (None if v is None else v / self.hosts for v in (main.value, main.low, main.high))
        return Quantity(value, low, high, main.unit)


@dataclass(frozen=True)
class Scaled:
    """Cells that differ in the number of hosts only."""

    operation: str
    where: dict[str, Any]
    steps: tuple[Step, ...]
    """The fewest hosts first; two or more."""


def axis_of(cell: Cell) -> str | None:
    """The parameter that counts this cell's hosts; None where one process did it all.

    `hosts` is what imported runs say; of a trial of Venturi's own it is the hosts whose metrics are made up.
    """
    placed = cell.parameters.get("on") is not None or cell.parameters.get("link") is not None
    if placed and _count(cell, "loaders"):
        return "loaders"
    if _count(cell, "hosts") and any(record.get("imported") for record in cell.records):
        return "hosts"
    return None


def _count(cell: Cell, axis: str) -> int:
    found = cell.parameters.get(axis)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def scaled(cells: Sequence[Cell]) -> list[Scaled]:
    """Every setting that was measured with two numbers of hosts or more, in the cells' order."""
    found = []
    for operation, members in by_operation(cells).items():
        known = [c for c in members if c.main.known and axis_of(c) is not None]
        axes = {axis_of(c) for c in known}
        for axis in ("hosts", "loaders"):
            if axis not in axes:
                continue
            own = [c for c in known if axis_of(c) == axis]
            # Streams that grow with the hosts are no further condition: `varying` leaves followers out.
            names = [n for n in varying(own) if n != axis]
            for group in by_setting(own, names):
                group.sort(key=lambda c: _count(c, axis))
                if len({_count(c, axis) for c in group}) > 1:
                    where = {n: group[0].parameters.get(n) for n in names}
                    found.append(Scaled(operation, where, _steps(group, axis)))
    return found


def _steps(cells: Sequence[Cell], axis: str) -> tuple[Step, ...]:
    first = cells[0]
    fewest = _count(first, axis)
    return tuple(
        Step(
            n,
            cell,
            Quantity(1.0, unit="fraction")
            if cell is first
            else _scaled_by(over(cell.main, first.main), fewest / n),
            Quantity(1.0 if cell.per_cpu["client"].known else None, unit="fraction")
            if cell is first
            else over(cell.per_cpu["client"], first.per_cpu["client"]),
            _slowest(cell),
            len({host.node or host.address or host.name for host in hosts.hosts(cell)}) or n,
        )
        for cell in cells
        for n in (_count(cell, axis),)
    )


def _scaled_by(found: Quantity, factor: float) -> Quantity:
    value, low, high = (None if v is None else v * factor for v in (found.value, found.low, found.high))
    return Quantity(value, low, high, found.unit)


def _slowest(cell: Cell) -> float | None:
    found = [share for rates in hosts.rates(cell) if len(rates) > 1 and (share := min(rates) / max(rates))]
    return median(found) if found else None
