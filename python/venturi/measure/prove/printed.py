"""What a printed figure means, known here by itself: the table that prints is what is put to the test."""

from __future__ import annotations

import re

__all__ = ["read_back"]

_THOUSANDS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_COUNTED = ("B/s", "rows/s", "points/s", "batches/s", "rows", "points", "B")
_TIMES = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}


def read_back(text: str) -> float | None:
    """The number in base units that `1.5 MB/s` means; None where it is not known here."""
    if (found := re.fullmatch(r"([\d,.]+) (\S+)", text)) is None:
        return None
    number, unit = float(found[1].replace(",", "")), found[2]
    if unit in _TIMES:
        return number * _TIMES[unit]
    counted = next((noun for noun in _COUNTED if unit.endswith(noun)), None)
    factor = None if counted is None else _THOUSANDS.get(unit.removesuffix(counted))
    return None if factor is None else number * factor
