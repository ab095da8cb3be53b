"""The link that was made for a cell, the way that its data take: what was asked for and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.summary import Cell, Record, get, numeric, quotient
from venturi.common.links import TCP_HEADERS, Link, parse

__all__ = ["OverLink", "facts", "of"]


@dataclass(frozen=True)
class OverLink:
    """Rates are B/s of TCP's payload in full packets, of the way that the data take."""

    link: Link
    rate: float | None
    """What the link carries, as measured; None where no rate was asked for."""
    round_trip: float
    """ns, as measured."""
    loss: float
    """The part of packets that is lost, as asked for: what was measured of it has the error of a few."""
    cross: float
    """The part of the rate that others take."""
    moved: float | None
    """What the cell moved, with all that its protocol adds; its payload where no more was counted."""
    share: float | None
    """Of what others leave of the rate."""
    control: str | None
    """TCP's congestion control; None where nobody knows."""

    @property
    def free(self) -> float | None:
        """What others leave of the rate."""
        return None if self.rate is None else self.rate * (1 - self.cross)

    @property
    def packet(self) -> int:
        """Payload bytes of a full packet."""
        return self.link.mtu - TCP_HEADERS

    @property
    def holds(self) -> float | None:
        """Bytes in flight that keep it full: rate x round trip, the bandwidth-delay product."""
        return None if self.free is None else self.free * self.round_trip / 1e9


def _way(parameters: Mapping[str, Any]) -> str:
    """`down`, from the server, or `up`: where the data go."""
    return "down" if parameters.get("operation") == "get" else "up"


def facts(record: Record, put: Callable[[str, float | None], None]) -> None:
    """What a trial's record tells of its link, under flat names."""
    measured = record.get("link")
    if not isinstance(measured, Mapping):
        return
    direction = _way(get(record, "parameters") or {})
    put("link.bits_per_second", numeric(measured, f"{direction}_bits_per_second"))
    put("link.round_trip", numeric(measured, "round_trip_ns"))
    put(
        "link.loss",
        quotient(numeric(measured, f"{direction}_lost"), numeric(measured, f"{direction}_packets")),
    )


def of(cell: Cell, found: Mapping[str, float], control: str | None) -> OverLink | None:
    """The link of a cell; None where none was made. `control`: that of the host."""
    text = cell.parameters.get("link")
    if not isinstance(text, str) or "link.round_trip" not in found:
        return None
    try:
        link = parse(text)
    except ValueError:
        # Of a newer Venturi.
        return None
    down = _way(cell.parameters) == "down"
    bits, cross = found.get("link.bits_per_second"), (cell.parameters.get("cross") or 0) / 100
    rate = bits / 8 * link.payload_part if bits and link.rate is not None else None
    moved = found.get("wire_rate", found.get("rate"))
    return OverLink(
        link=link,
        rate=rate,
        round_trip=found["link.round_trip"],
        loss=link.loss[0 if down else 1],
        cross=cross,
        moved=moved,
        share=quotient(moved, None if rate is None else rate * (1 - cross)),
        control=link.control or control,
    )
