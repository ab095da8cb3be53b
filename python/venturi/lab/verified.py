"""Whether a path is the link that was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from venturi.common.links import Link
from venturi.common.suffixes import format_duration

__all__ = ["bits", "faults", "recorded"]

RATE_OFF = 0.03
TRIP_OFF, TRIP_OFF_NS = 0.05, 200_000
"""Of the rate; of the round trip: a share and so many ns on top of it."""
SURELY = 3.9
"""Standard deviations that chance passes once in 10,000 looks."""
_WAYS = ("up", "down")


def recorded(link: Link, found: Mapping[str, Any]) -> dict[str, Any]:
    """What was measured of the path, as a trial's record has it."""
    trip, ways = found["round_trip"], dict(zip(_WAYS, found["ways"], strict=True))
    return {
        "round_trip_ns": _trip(link, trip),
        **{f"{name}_bits_per_second": way["rate"] for name, way in ways.items()},
        **{f"{name}_packets": way["sent"] for name, way in ways.items()},
        **{f"{name}_lost": way["lost"] for name, way in ways.items()},
    }


def _trip(link: Link, trip: Mapping[str, int]) -> int:
    """The least of some is the path's: this host was late with what is more. Not so where it jitters."""
    return trip["median_ns"] if link.jitter_ns else trip["least_ns"]


def faults(link: Link, found: Mapping[str, Any]) -> Iterator[str]:
    """What of the path is not as asked, with both numbers."""
    trip = _trip(link, found["round_trip"])
    # Half of a jitter each way: the mean of a few differs from what is asked by chance.
    more = link.jitter_ns / 2
    if abs(trip - link.round_trip_ns) > TRIP_OFF * link.round_trip_ns + TRIP_OFF_NS + more:
        asked, measured = format_duration(link.round_trip_ns), format_duration(trip)
        yield f"round trip: {asked} was asked for, {measured} found"
    (down, up) = link.rate or (None, None)
    for name, rate, loss, way in zip(_WAYS, (up, down), reversed(link.loss), found["ways"], strict=True):
        if rate is not None and abs(way["rate"] / rate - 1) > RATE_OFF:
            # A rate that this host cannot send by itself may be there or not.
            slow = f" (this host sent {bits(way['offered'])})" if way["offered"] < rate else ""
            yield f"rate {name}: {bits(rate)} were asked for, {bits(way['rate'])} found{slow}"
        sent, lost = way["sent"], way["lost"]
        spread = SURELY * math.sqrt(sent * loss * (1 - loss)) + (1 if loss else 0)
        if abs(lost - sent * loss) > spread:
            yield f"loss {name}: {100 * loss:g} % was asked for, {lost} of {sent} packets were lost"


def bits(rate: float) -> str:
    """A rate with its unit."""
    for unit, bits in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate >= bits:
            return f"{rate / bits:.4g} {unit}"
    return f"{rate:.4g} bit/s"
