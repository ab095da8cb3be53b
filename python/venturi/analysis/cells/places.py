"""Local against remote: cells that differ in their place only, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.cells.summary import Cell, by_operation, varying
from venturi.common.links import LINK_SETTINGS
from venturi.common.units import Quantity

__all__ = ["LOCAL", "REMOTE", "Pair", "Row", "over", "rows"]

LOCAL, REMOTE = "local", "remote"
_SIZES = ("rows_per_stream", "bytes_per_stream")
_OF_THE_PLACE = frozenset({"place", "target"})


@dataclass(frozen=True)
class Pair:
    """The same cell in both places."""

    local: Cell
    remote: Cell

    @property
    def ratio(self) -> Quantity:
        """Remote over local (fraction), with the interval that both allow at their worst."""
        return over(self.remote.main, self.local.main)

    def cost(self, end: str) -> Quantity:
        """CPU time of what was moved, remote over local (fraction): above 1 the path costs CPU."""
        # per_cpu is what a CPU-second moves, so the quotient is inverted.
        return over(self.local.per_cpu[end], self.remote.per_cpu[end])


@dataclass(frozen=True)
class Row:
    """Both places over sizes, all else equal."""

    operation: str
    where: dict[str, Any]
    pairs: tuple[Pair, ...]
    """One a size, the smallest first."""

    @property
    def largest(self) -> Pair:
        """At the largest size, on which start-up weighs least."""
        return self.pairs[-1]

    @property
    def sizes(self) -> tuple[float, float, float] | None:
        """Ratio over all sizes: median, least, most. None where there is one size."""
        ratios = [r.value for pair in self.pairs if (r := pair.ratio).value is not None]
        return (median(ratios), min(ratios), max(ratios)) if len(ratios) > 1 else None


def rows(cells: Sequence[Cell]) -> list[Row]:
    """In the cells' order; empty unless the run has a place `local` and a place `remote`."""
    found = []
    for operation, members in by_operation(cells).items():
        both = [c for c in members if c.parameters.get("place") in (LOCAL, REMOTE) and c.main.known]
        names = [n for n in varying(both) if n not in _OF_THE_PLACE]
        near = {_values(c, names): c for c in both if c.parameters["place"] == LOCAL}
        far = [c for c in both if c.parameters["place"] == REMOTE]
        # A link may lead to the remote one alone.
        links = [n for n in LINK_SETTINGS if len({c.parameters.get(n) for c in far}) < 2]
        fixed = [n for n in names if n not in (*_SIZES, *links)]
        groups: dict[tuple[str, ...], list[Pair]] = {}
        for cell in far:
            local = near.get(_values(cell, names)) or near.get(_values(cell, names, without=LINK_SETTINGS))
            if local is not None:
                groups.setdefault(_values(cell, fixed), []).append(Pair(local, cell))
        for pairs in groups.values():
            pairs.sort(key=lambda pair: pair.local.payload_bytes or 0.0)
            where = {n: pairs[0].remote.parameters.get(n) for n in fixed}
            found.append(Row(operation, where, tuple(pairs)))
    return found


def _values(cell: Cell, names: Sequence[str], without: Sequence[str] = ()) -> tuple[str, ...]:
    """Of these parameters, as if the cell had none of those."""
    return tuple(repr(None if n in without else cell.parameters.get(n)) for n in names)


def over(numerator: Quantity, denominator: Quantity) -> Quantity:
    """The quotient of two medians (fraction). Its margin divides the ends crosswise, as `ratio_interval`
    does; none where one of them has none."""
    if numerator.value is None or not denominator.value:
        return Quantity(None, unit="fraction")
    low = high = None
    if numerator.low is not None and numerator.high is not None and denominator.low and denominator.high:
        low, high = numerator.low / denominator.high, numerator.high / denominator.low
    return Quantity(numerator.value / denominator.value, low, high, "fraction")
