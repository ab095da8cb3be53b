"""What the system's clocks and counters show of a trial, independent of Venturi's."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path

from venturi.common.environment import cpu_times, read

__all__ = ["ExternalCounters", "ExternalView", "process_cpu_ns"]

NOISY = 0.10
"""If other processes or the host use this share of all cores or more, a deviation in time is excused."""
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ExternalView:
    """A trial by the clocks and counters of the system."""

    began_unix_ns: int
    elapsed_ns: int
    others: float
    """The share of all cores that neither end used, or that the host took."""

    @property
    def noisy(self) -> bool:
        return self.others > NOISY


class ExternalCounters:
    """Reads the system's clocks and counters before a trial and after it."""

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._began_unix_ns = time.time_ns()
        self._before = self._now()

    def _now(self) -> tuple[int, int, dict[str, int]]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        used_ns = int((usage.ru_utime + usage.ru_stime) * 1e9) + process_cpu_ns(self._server)
        return time.monotonic_ns(), used_ns, cpu_times() or {}

    def ended(self) -> ExternalView:
        (t0, used0, cpu0), (t1, used1, cpu1) = self._before, self._now()
        parts = {name: cpu1[name] - cpu0.get(name, 0) for name in cpu1}
        total, stolen = max(sum(parts.values()), 1), parts.get("steal", 0)
        busy = total - parts.get("idle", 0) - parts.get("iowait", 0) - stolen
        others = max(0.0, busy * _TICK_NS - (used1 - used0)) / (total * _TICK_NS) + stolen / total
        # A few ticks are too coarse.
        return ExternalView(self._began_unix_ns, t1 - t0, others if total > 4 else 0.0)


def process_cpu_ns(pid: int | None) -> int:
    """User and system time of a process and of its children: PostgreSQL has one for each connection."""
    text = read(f"/proc/{pid}/stat") if pid is not None else None
    if text is None:
        return 0
    ticks = sum(map(int, text.rpartition(")")[2].split()[11:15]))
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    children = " ".join(read(str(path)) or "" for path in threads).split()
    return ticks * _TICK_NS + sum(process_cpu_ns(int(child)) for child in children)
