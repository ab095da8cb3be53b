"""Latency histograms of several loaders as one: `LATENCY` of docs/format.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from venturi.common import hdr

__all__ = ["merged"]

_LADDER = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0)
_A_HALVING = 5
"""Points each time the distance to 100 % halves, as the engine has them."""


def merged(parts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """One distribution of all batches; None where no part has one. Percentiles are of the whole, never means
    of percentiles."""
    known = [part for part in parts if part is not None]
    some = [part for part in known if part.get("count")]
    if len(some) <= 1:
        return dict((some or known)[0]) if known else None
    counts: dict[int, int] = {}
    for part in some:
        for value, count in hdr.decode(part["hdr"]).items():
            counts[value] = counts.get(value, 0) + count
    total = sum(int(part["count"]) for part in some)
    mean = sum(part["count"] * part["mean"] for part in some) / total
    spread = sum(part["count"] * (part["stdev"] ** 2 + (part["mean"] - mean) ** 2) for part in some)
    return {
        "count": total,
        "min": min(part["min"] for part in some),
        "mean": mean,
        "max": max(part["max"] for part in some),
        "stdev": math.sqrt(spread / total),
        "percentiles": _percentiles(counts),
        "hdr": hdr.encode(counts),
    }


def _percentiles(counts: Mapping[int, int]) -> list[list[float | int]]:
    values = np.array(sorted(counts), dtype=np.int64)
    seen = np.cumsum([counts[int(value)] for value in values])
    percents = sorted({*_LADDER, *(round(percent, 6) for percent in _halvings(int(seen[-1])))})
    wanted = np.maximum(1, np.ceil(seen[-1] * np.array(percents) / 100 - 1e-9))
    at = np.minimum(np.searchsorted(seen, wanted), len(values) - 1)
    return [[percent, int(values[index])] for percent, index in zip(percents, at, strict=True)]


def _halvings(total: int) -> list[float]:
    """Percents that come closer to 100 as long as a recording lies between two of them."""
    found, share = [], 0.0
    while (1.0 - share) * total >= 1.0:
        found.append(share * 100)
        share += 1.0 / (_A_HALVING * 2 ** (math.floor(math.log2(1.0 / (1.0 - share))) + 1))
    return found
