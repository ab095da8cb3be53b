"""Whose CPU time it is: the driver's own, that of its loaders, and that of Ray's processes between them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import shared

WHOSE = ("driver", "loaders", "ray")
_ALL_SECONDS = 0.5
"""So often all processes are looked at; it takes some milliseconds of a hundred."""
_LOADERS = ("ray::RayLoader", "ray::Ends")


class Used:
    """CPU seconds of a driver's tree of processes, over time."""

    def __init__(self, driver: int) -> None:
        self._driver = driver
        self._at: dict[str, list[tuple[int, float]]] = {whose: [] for whose in WHOSE}
        self._next = 0.0

    def look(self) -> None:
        """Notes what has been used until now."""
        own = shared.cpu_seconds(self._driver)
        self._at["driver"].append((time.time_ns(), own))
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _ALL_SECONDS
        sums = dict.fromkeys(WHOSE[1:], 0.0)
        now = time.time_ns()
        for pid in below(self._driver):
            sums["loaders" if is_loader(pid) else "ray"] += shared.cpu_seconds(pid)
        for whose, used in sums.items():
            self._at[whose].append((now, used))

    def between(self, start_ns: int, end_ns: int) -> dict[str, float]:
        """CPU seconds from one unix time to another, as `driver_cpu_s` and so on."""
        found = {}
        for whose, points in self._at.items():
            times, used = zip(*points, strict=True)
            low, high = np.interp([start_ns, end_ns], times, used)
            found[f"{whose}_cpu_s"] = float(high - low)
        return found


def is_loader(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().startswith(_LOADERS)
    except OSError:
        return False


def below(pid: int) -> Iterator[int]:
    """All that a process has started, and what these have."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(name)):
            children.setdefault(parent, []).append(int(name))
    waiting = list(children.get(pid, ()))
    while waiting:
        one = waiting.pop()
        yield one
        waiting += children.get(one, ())


def _parent(pid: str) -> int:
    """0 where it has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0
