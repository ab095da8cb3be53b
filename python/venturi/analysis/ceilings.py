"""Which measured physical limit a result is set against."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.statistics import Interval, median_interval

NEAR = math.log(2.0)
"""A probe counts for messages up to twice as large or small as its own: raw TCP differs little within that,
and a last short batch or a string column moves a trial's mean message size a little off the probe's."""


@dataclass(frozen=True)
class Ceiling:
    """A limit measured in the same run: bytes per second, over the probe's repeats."""

    rate: Interval
    streams: int
    message_bytes: float


def ceiling_for(
    probes: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any], message_bytes: float | None
) -> Ceiling | None:
    """Raw TCP in the same direction, over as many connections, with the nearest message size within a
    factor 2.

    `message_bytes` is the trial's payload bytes per batch. Where either side names a place, it must be the
    same one: a loopback probe is no ceiling of a remote target. None where no probe qualifies; a share of a
    limit that was measured under other conditions would mislead.
    """
    if message_bytes is None or message_bytes <= 0:
        return None
    fitting: dict[float, list[float]] = {}
    for probe in probes:
        if probe.get("kind", "tcp") != "tcp" or probe.get("outcome", "ok") != "ok":
            continue
        if probe.get("direction") != parameters.get("operation") or probe.get("streams") != parameters.get(
            "streams"
        ):
            continue
        place, own = probe.get("place"), parameters.get("place")
        if place is not None and own is not None and place != own:
            continue
        size, moved, took = probe.get("message_bytes"), probe.get("bytes"), probe.get("interval_ns")
        if size and moved and took and abs(math.log(size / message_bytes)) <= NEAR + 1e-9:
            fitting.setdefault(float(size), []).append(moved * 1e9 / took)
    if not fitting:
        return None
    nearest = min(fitting, key=lambda size: abs(math.log(size / message_bytes)))
    return Ceiling(median_interval(fitting[nearest]), int(parameters["streams"]), nearest)
