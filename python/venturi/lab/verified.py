"""Whether a path is the link that was asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from venturi.common.links import Link
from venturi.common.suffixes import format_duration
from venturi.common.units import bit_rate

__all__ = ["RATE_OFF", "faults", "recorded"]

RATE_OFF = 0.03
TRIP_OFF, TRIP_OFF_NS = 0.05, 200_000
"""Of the rate; of the round trip: a share and so many ns on top of it."""
CHANCE = 1e-4
"""So seldom chance alone makes a right link look wrong, by its losses each way."""
OF_JITTER = 0.7
"""Of the jitter: so far off lies the median of pings that meet some eight values of it, once in 10,000."""
LEAST_JITTER, MORE_JITTER_NS = 0.5, 500_000
"""The pings lie apart by half of the jitter or more, and by no more than it can make, twice that, and what a
busy host is late by."""
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
    more = OF_JITTER * link.jitter_ns
    if abs(trip - link.round_trip_ns) > TRIP_OFF * link.round_trip_ns + TRIP_OFF_NS + more:
        asked, measured = format_duration(link.round_trip_ns), format_duration(trip)
        yield f"round trip: {asked} was asked for, {measured} found"
    apart = found["round_trip"]["most_ns"] - found["round_trip"]["least_ns"]
    if link.jitter_ns and not LEAST_JITTER <= apart / link.jitter_ns <= 2 + MORE_JITTER_NS / link.jitter_ns:
        asked, measured = format_duration(link.jitter_ns), format_duration(apart)
        yield f"jitter: {asked} was asked for, and round trips lie {measured} apart"
    (down, up) = link.rate or (None, None)
    for name, rate, loss, way in zip(_WAYS, (up, down), reversed(link.loss), found["ways"], strict=True):
        if rate is not None and abs(way["rate"] / rate - 1) > RATE_OFF:
            # A rate that this host cannot send by itself may be there or not.
            slow = f" (this host sent {bit_rate(way['offered'], 4)})" if way["offered"] < rate else ""
            yield f"rate {name}: {bit_rate(rate, 4)} were asked for, {bit_rate(way['rate'], 4)} found{slow}"
        sent, lost = way["sent"], way["lost"]
        if _chance(lost, sent, loss) < CHANCE / 2:
            yield f"loss {name}: {100 * loss:g} % was asked for, {lost} of {sent} packets were lost"


def _chance(lost: int, sent: int, loss: float) -> float:
    """The probability of so many losses, or of some that are further from what is expected, on that side."""
    from scipy.special import bdtr, bdtrc

    fewer = lost < sent * loss
    return float(bdtr(lost, sent, loss) if fewer else bdtrc(lost - 1, sent, loss) if lost else 1.0)
