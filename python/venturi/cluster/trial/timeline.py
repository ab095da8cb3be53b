"""Samples of several hosts on one time line: `SAMPLES` of docs/format.md, a list a column.

All counters are absolute and only their differences mean something, so sums of several hosts are sums at
common instants: what a host had between two of its samples is taken as even, and after its last one it stays.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Rows", "merged"]

_MOST_ROWS = 36_000
_MOST_VALUES = 4_000_000
_MOST_THREADS = 256
_MOST_SOCKETS = 4096
_NO_COUNTERS = ("t_ns", "thread_names")


@dataclass(frozen=True)
class Rows:
    """The samples of one loader. The scopes say what its counters count: two of one scope count the same."""

    name: str
    columns: Mapping[str, Any]
    # Its start instant on the common time line.
    origin_ns: int
    scope: Callable[[str], object]


def merged(parts: Sequence[Rows]) -> dict[str, dict[str, Any]]:
    """By end: `client` with all of them added up, and where there are several `client:NAME` with each."""
    parts = [part for part in parts if part.columns.get("t_ns")]
    if not parts:
        return {}
    if len(parts) == 1:
        return {"client": _shifted(parts[0], 1)}
    stride = _stride(sum(_values(part.columns) for part in parts), max(_length(p) for p in parts))
    own = {f"client:{part.name}": _shifted(part, stride) for part in parts}
    return {"client": _sum(parts), **own}


def _length(part: Rows) -> int:
    return len(part.columns["t_ns"])


def _values(columns: Mapping[str, Any]) -> int:
    return sum(
        sum(map(len, values)) if values and isinstance(values[0], list) else len(values)
        for name, values in columns.items()
        if name != "thread_names" and values
    )


def _stride(values: int, rows: int) -> int:
    return max(1, -(-values // _MOST_VALUES), -(-rows // _MOST_ROWS))


def _shifted(part: Rows, stride: int) -> dict[str, Any]:
    """A host's own rows with times on the common line, every `stride`-th of them and the last one."""
    rows = _length(part)
    kept = sorted({*range(0, rows, stride), rows - 1})

    def thin(values: Any) -> Any:
        if not values:
            return values
        if isinstance(values[0], list):
            return [[item[at] for at in kept] for item in values]
        return [values[at] for at in kept]

    found = {
        name: values if name == "thread_names" else thin(values) for name, values in part.columns.items()
    }
    found["t_ns"] = [at + part.origin_ns for at in found["t_ns"]]
    return found


def _sum(parts: Sequence[Rows]) -> dict[str, Any]:
    times = [np.array(part.columns["t_ns"], dtype=np.float64) + part.origin_ns for part in parts]
    grid = _grid(times, sum(_values(part.columns) for part in parts))
    out: dict[str, Any] = {"t_ns": _rounded(grid)}
    names = dict.fromkeys(name for part in parts for name in part.columns if name not in _NO_COUNTERS)
    for name in names:
        chosen = _distinct(parts, name)
        columns: list[Any] = [parts[at].columns.get(name) for at in chosen]
        if any(not values for values in columns):
            # The sum of what is known would be no sum.
            continue
        if isinstance(columns[0][0], list):
            out[name] = _items(
                name, [(times[at], values) for at, values in zip(chosen, columns, strict=True)], grid
            )
            continue
        curves = [_curve(times[at], values, grid) for at, values in zip(chosen, columns, strict=True)]
        if all(curve is not None for curve in curves):
            added = np.min(curves, axis=0) if name == "memory_available_bytes" else np.sum(curves, axis=0)
            out[name] = _rounded(added)
    names_of = [
        f"{parts[at].name}/{thread}"
        for at in _distinct(parts, "thread_cpu_ns")
        for thread in parts[at].columns.get("thread_names") or []
    ]
    if names_of:
        out["thread_names"] = names_of[:_MOST_THREADS]
    return out


def _grid(times: Sequence[Any], values: int) -> Any:
    """Common instants: as far apart as the hosts' own, with the start among them."""
    steps = np.concatenate([np.diff(at) for at in times if len(at) > 1] or [np.array([1e8])])
    step = max(1.0, float(np.median(steps)))
    low, high = min(float(at[0]) for at in times), max(float(at[-1]) for at in times)
    rows = (high - low) / step + 2
    step *= _stride(values, int(rows))
    grid = np.arange(np.ceil(low / step) * step, high, step)
    return np.unique(np.concatenate([[low], grid, [high]]))


def _distinct(parts: Sequence[Rows], name: str) -> list[int]:
    """One part of each scope: what several count alike is counted once."""
    seen: dict[object, int] = {}
    for at, part in enumerate(parts):
        seen.setdefault(part.scope(name), at)
    return list(seen.values())


def _curve(at: Any, values: Sequence[int | None], grid: Any) -> Any:
    numbers = np.array(values, dtype=np.float64)  # what is not known becomes NaN
    known = ~np.isnan(numbers)
    return np.interp(grid, at[known], numbers[known]) if known.any() else None


def _rounded(curve: Any) -> list[int]:
    whole: list[int] = np.rint(curve).astype(np.int64).tolist()
    return whole


def _items(name: str, columns: Sequence[tuple[Any, Any]], grid: Any) -> list[list[int]]:
    """Lists an item (stream, thread, CPU, connection): one host's after the other's."""
    most = {"thread": _MOST_THREADS, "socket": _MOST_SOCKETS}.get(name.partition("_")[0])
    out: list[list[int]] = []
    for at, item in itertools.islice(((at, item) for at, items in columns for item in items), most):
        curve = _curve(at, item, grid)
        out.append([0] * len(grid) if curve is None else _rounded(curve))
    return out
