"""The steady window over all loaders' streams: from when every stream moves until the first one ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Moved", "window"]

_ENOUGH_SAMPLES = 4
"""So many instants inside the window, and a loader's samples tell more than its mean rate."""


@dataclass(frozen=True)
class Moved:
    """What one loader moved; `origin_ns` is its start instant on the common time line."""

    record: Mapping[str, Any]
    origin_ns: int

    def bounds(self) -> tuple[int, int] | None:
        """Where its own streams are steady, on the common time line; None where some stream moved nothing."""
        streams = self.record.get("streams") or []
        if not streams or any(not stream["first_batch_ns"] for stream in streams):
            return None
        first = max(stream["first_batch_ns"] for stream in streams)
        return first + self.origin_ns, min(stream["end_ns"] for stream in streams) + self.origin_ns

    def within(self, start: int, end: int, column: str) -> float:
        """Rows or payload bytes from `start` to `end`, which lie in its own steady window."""
        times = self.record["times"]
        if not times["steady_ns"]:
            return 0.0
        rate = times[f"steady_{column}"] / times["steady_ns"]
        client = ((self.record.get("samples") or {}).get("client")) or {}
        at = np.array(client.get("t_ns") or [], dtype=np.float64) + self.origin_ns
        if ((at > start) & (at < end)).sum() >= _ENOUGH_SAMPLES and client.get(column):
            curve = np.interp([start, end], *self._knots(at, client[column], column))
            return float(curve[1] - curve[0])
        return float(rate * (end - start))

    def _knots(self, at: Any, values: Sequence[int], column: str) -> tuple[Any, Any]:
        total = self.record["counts"][column]
        end = self.origin_ns + self.record["times"]["interval_ns"]
        inside = (at > self.origin_ns) & (at < end)
        return (
            np.concatenate([[self.origin_ns], at[inside], [end]]),
            np.concatenate([[0], np.array(values, dtype=np.float64)[inside], [total]]),
        )


def window(parts: Sequence[Moved]) -> dict[str, int]:
    """`steady_ns`, `steady_rows` and `steady_payload_bytes`: zeros where there is no such window."""
    bounds = [part.bounds() for part in parts]
    known = [found for found in bounds if found is not None]
    nothing = {"steady_ns": 0, "steady_rows": 0, "steady_payload_bytes": 0}
    if not known or len(known) < len(parts):
        return nothing
    start, end = max(low for low, _ in known), min(high for _, high in known)
    if end <= start:
        return nothing
    return {
        "steady_ns": end - start,
        **{
            f"steady_{column}": round(sum(part.within(start, end, column) for part in parts))
            for column in ("rows", "payload_bytes")
        },
    }
