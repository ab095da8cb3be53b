"""What TCP does to a link: how far losses hold a connection back, and what its start costs.

- loss, Reno: rate = MSS / RTT x sqrt(3 / 2) / sqrt(p) (Mathis, Semke, Mahdavi, Ott: The Macroscopic Behavior
  of the TCP Congestion Avoidance Algorithm, CCR 27(3), 1997; without delayed ACKs, as Linux counts what they
  acknowledge).
- loss, CUBIC: window = (C (3 + beta) / (4 (1 - beta)))^(1/4) x (RTT / p)^(3/4) packets, C = 0.4, beta = 0.7,
  or Reno's where that is larger (RFC 9438, 5.1 and 4.3).
- start: ten packets in the first round trip (RFC 6928), and twice as many in each that follows (RFC 5681,
  3.1).

BBR keeps to the rate and the round trip that it measures, not to losses, as long as they are some percent.
"""

from __future__ import annotations

import math

__all__ = ["CUBIC", "FIRST_PACKETS", "LOSS_BASED", "RENO", "loss_bound", "started_share", "trips_to_fill"]

LOSS_BASED = ("cubic", "reno")
"""Congestion controls that take a loss for a full link."""
FIRST_PACKETS = 10
RENO = math.sqrt(1.5)
"""Packets in flight on average x sqrt(p)."""
_C, _BETA = 0.4, 0.7
CUBIC = (_C * (3 + _BETA) / (4 * (1 - _BETA))) ** 0.25
"""Packets in flight on average x (p / RTT)^(3/4), where that is more than Reno's."""


def loss_bound(control: str, payload: float, round_trip: float, loss: float) -> float:
    """Bytes/s of one connection whose packets carry `payload` bytes and are lost with probability `loss`, at
    a round trip in seconds."""
    window = RENO / math.sqrt(loss)
    if control == "cubic":
        window = max(window, CUBIC * (round_trip / loss) ** 0.75)
    return payload * window / round_trip


def trips_to_fill(full: float, first: float) -> int:
    """Round trips until as many bytes are in flight as a link holds (`full`), from `first` bytes on."""
    return max(0, math.ceil(math.log2(full / first))) if full > first else 0


def started_share(trips: float, full: float, first: float) -> float:
    """Of what a link carries in so many round trips, the part that connections carry which begin with `first`
    bytes in flight, double them, and wait one round trip for the first answer."""
    doubling = trips_to_fill(full, first)
    grown, carried, left = first, 0.0, max(0.0, trips - 1)
    for _ in range(doubling):
        if left < 1:
            break
        carried, grown, left = carried + grown, 2 * grown, left - 1
    return min(1.0, (carried + left * min(grown, full)) / (trips * full)) if trips > 0 else 0.0
