"""The laws that sweeps are drawn from, written apart from the product, which fits them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def law_rates(name: str, p: dict[str, float], n: Sequence[float]) -> np.ndarray:
    """The rates that a law gives without noise."""
    at = np.asarray(n, dtype=float)
    if name == "constant":
        return np.full_like(at, p["C"])
    if name == "linear":
        return p["l"] * at
    if name == "flat":
        return np.minimum(p["l"] * at, p["C"])
    return p["l"] * at / (1 + p["s"] * (at - 1) + p.get("k", 0.0) * at * (at - 1))
