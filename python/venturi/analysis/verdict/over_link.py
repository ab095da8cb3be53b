"""The link that was made for a cell, the way that its data take: what was asked for and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from venturi.analysis.cells.figures import Record, get, numeric, quotient
from venturi.analysis.cells.links import control, cross, measured, shared
from venturi.analysis.cells.summary import Cell
from venturi.common import links
from venturi.common.links import WAYS, Link

__all__ = ["OverLink", "facts", "of"]


@dataclass(frozen=True)
class OverLink:
    """Rates are B/s of TCP's payload in full packets, of the way that the data take. Of several loaders they
    are of all their links together."""

    link: Link
    loaders: int
    """Links that share a backplane; 1 where there is one link, or all loaders share it."""
    bits: float | None
    """What the link carries in bits/s, as measured, with all that Ethernet adds; None where no rate was asked
    for."""
    round_trip: float
    """ns, as measured."""
    loss: float
    """The part of packets that is lost, as asked for: what was measured of it has the error of a few."""
    cross: float
    """The part of the rate that others take."""
    moved: float | None
    """What the cell moved, with all that its protocol adds; its payload where no more was counted."""
    control: str | None
    """TCP's congestion control; None where nobody knows."""

    @property
    def rate(self) -> float | None:
        """What the link carries."""
        return None if self.bits is None else self.bits / 8 * self.link.payload_part

    @property
    def free(self) -> float | None:
        """What others leave of the rate."""
        return None if self.rate is None else self.rate * (1 - self.cross)

    @property
    def share(self) -> float | None:
        """Of what others leave of the rate, what was moved."""
        return quotient(self.moved, self.free)

    @property
    def holds(self) -> float | None:
        """Bytes in flight that keep it full: rate x round trip, the bandwidth-delay product."""
        return None if self.free is None else self.free * self.round_trip / 1e9


def facts(record: Record, put: Callable[[str, float | None], None]) -> None:
    """What a trial's record tells of its link, under flat names."""
    found, way = measured(record), links.way(get(record, "parameters", "operation"))
    put("link.bits_per_second", numeric(found, f"{way}_bits_per_second"))
    put("link.round_trip", numeric(found, "round_trip_ns"))
    put("link.loss", quotient(numeric(found, f"{way}_lost"), numeric(found, f"{way}_packets")))


def of(cell: Cell, found: Mapping[str, float], host: str | None) -> OverLink | None:
    """The link of a cell; None where none was made, or nothing is known of it. `host`: the congestion control
    of the client's host."""
    p, trip = cell.parameters, found.get("link.round_trip")
    link = links.known(p.get("link"))
    if link is None or trip is None or trip <= 0:
        return None
    way = links.way(p.get("operation"))
    one = found.get("link.bits_per_second")
    bits = shared(p, way, one) if one and one > 0 and link.rate is not None else None
    return OverLink(
        link=link,
        loaders=int(numeric(p, "loaders") or 1) if p.get("backplane") is not None else 1,
        bits=bits,
        round_trip=trip,
        loss=link.loss[WAYS.index(way)],
        cross=cross(p),
        moved=found.get("wire_rate", found.get("rate")),
        control=control(cell.records, link, host),
    )
