"""Where compression on the wire pays: what a codec's cores put through, against what a link carries plain.

One thread of an end works on a batch and then hands it to its socket, so their times add up; the link works
beside it. In payload bytes per second, with n streams of a thread each,

    sender = 1 / encode + 1 / (ratio * socket),  receiver = 1 / decode + 1 / (ratio * socket)
    X(link) = min(ratio * link, n / sender, n / receiver, cores / (sender + receiver))

where the last term holds for ends that share the cores of one machine. Plain moves min(link, n * socket), so
the codec is faster on every link that carries less than its cores put through.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from venturi.analysis.cells.limits import Limit

__all__ = ["LEAST", "Packing", "packings"]

LEAST = 1.05
"""Data that a codec makes less than 5 % smaller cannot gain more than that by it."""


@dataclass(frozen=True)
class Packing:
    """A codec on some data, as its probes measured it. Rates are payload bytes/s of one core."""

    codec: str
    data: str
    encode: float
    decode: float
    ratio: float
    """Payload bytes to a byte of Arrow's messages."""

    def through_cores(self, streams: int = 1, socket: float = math.inf, cores: int | None = None) -> float:
        """Payload bytes/s where the link is no limit. `socket`: what one core moves through plain sockets;
        `cores`: of one machine that both ends share, None where each stream has a core at either end."""
        ends = self._ends(socket)
        alone = streams / max(ends)
        return alone if cores is None else min(alone, cores / sum(ends))

    def _ends(self, socket: float) -> tuple[float, float]:
        """A core's seconds for a byte of payload, of the sender and the receiver."""
        wire = 1 / (self.ratio * socket)
        return 1 / self.encode + wire, 1 / self.decode + wire

    def rate(
        self, link: float, streams: int = 1, socket: float = math.inf, cores: int | None = None
    ) -> float:
        """Payload bytes/s over a link that carries so many bytes/s."""
        return min(self.ratio * link, self.through_cores(streams, socket, cores))

    def pays_below(self, streams: int = 1, socket: float = math.inf, cores: int | None = None) -> float:
        """The link's bytes/s below which this is faster than plain: 0 where it never is, for the data do not
        get smaller; infinite where it is faster even than what plain sockets do without a link."""
        if self.ratio <= 1:
            return 0.0
        plain = streams * socket if cores is None else min(streams, cores / 2) * socket
        found = self.through_cores(streams, socket, cores)
        return found if found < plain else math.inf


def packings(found: Sequence[Limit]) -> list[Packing]:
    """Each codec of which both ways were probed on the same data."""
    rates: dict[tuple[str, str], dict[str, float]] = {}
    ratios: dict[tuple[str, str], float] = {}
    for limit in found:
        codec, _, verb = str(limit.fields["name"] or "").rpartition("-")
        if limit.fields["kind"] == "codec" and codec != "ipc" and limit.rate is not None and limit.ratio:
            key = (codec, str(limit.fields["data"]))
            rates.setdefault(key, {})[verb] = limit.rate.median
            ratios[key] = limit.ratio
    return [
        Packing(*key, ways["encode"], ways["decode"], ratios[key])
        for key, ways in rates.items()
        if {"encode", "decode"} <= ways.keys()
    ]
