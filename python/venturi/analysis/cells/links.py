"""What records tell of the link that was made for a cell, for all that reckon with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from venturi.common.links import WAYS, Link, Way, known_rates

__all__ = ["bits", "control", "cross", "measured", "shared"]


def measured(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was measured of the link before the trial; empty where nothing was, or it is damaged."""
    found = record.get("link")
    return found if isinstance(found, Mapping) else {}


def bits(record: Mapping[str, Any], way: Way) -> float | None:
    """What the link carried, in bits/s with all that Ethernet adds; None where no rate was asked for."""
    found = measured(record).get(f"{way}_bits_per_second")
    return float(found) if isinstance(found, int | float) and found > 0 else None


def control(records: Iterable[Mapping[str, Any]], link: Link, host: str | None = None) -> str | None:
    """The congestion control of TCP over a cell's link, as its trials tell, else as was asked for, else that
    of the host: records of older runs do not tell. None where nobody knows."""
    told = (measured(record).get("control") for record in records)
    return next((one for one in told if isinstance(one, str) and one), link.control or host)


def cross(parameters: Mapping[str, Any]) -> float:
    """The part of the link's rate that others take, 0..1."""
    found = parameters.get("cross")
    return min(max(found / 100, 0.0), 1.0) if isinstance(found, int | float) else 0.0


def shared(parameters: Mapping[str, Any], way: Way, rate: float) -> float | None:
    """What the links of all loaders carry, of which one alone carries this rate, in the same unit as the rate
    of a link (bits/s): they share as much as one has, where no more was asked for. None where what they share
    is not known: a newer Venturi's, or damaged."""
    backplane = parameters.get("backplane")
    if backplane is None:
        return rate
    found = known_rates(backplane)
    if found is None:
        return None
    loaders = parameters.get("loaders")
    return min(rate * (loaders if isinstance(loaders, int) else 1), found[WAYS.index(way)])
