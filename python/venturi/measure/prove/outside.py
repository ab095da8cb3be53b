"""What the system's own clocks and counters see of a trial: this process, the server's, the loopback
interface, and who else uses the cores."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from venturi.common.environment import cpu_times, read, usable_cores

__all__ = ["Around", "Outside", "process_cpu_ns"]

NOISY = 0.10
"""Share of all cores that others used, or that was stolen, from which what depends on time is excused."""
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Outside:
    """What was seen of a trial by clocks and counters of the system's, around it."""

    began_unix_ns: int
    elapsed_ns: int
    own_cpu_ns: int
    server_cpu_ns: int | None
    loopback_bytes: int | None
    others: float
    """Share of all cores that was used by neither end, or stolen."""
    cores: int
    """How many this process may use."""

    @property
    def noisy(self) -> bool:
        return self.others > NOISY


class Around:
    """Clocks and counters of the system's, before a trial and after it."""

    def __init__(self, server: int | None, loopback: bool) -> None:
        self._server, self._loopback = server, loopback
        self._began_unix_ns = time.time_ns()
        self._before = self._now()

    def _now(self) -> tuple[int, int, int | None, int | None, dict[str, int]]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        own = int((usage.ru_utime + usage.ru_stime) * 1e9)
        net = loopback_bytes() if self._loopback else None
        return time.monotonic_ns(), own, process_cpu_ns(self._server), net, cpu_times() or {}

    def ended(self, record: Mapping[str, Any]) -> Outside:
        now = self._now()
        (t0, own0, server0, net0, cpu0), (t1, own1, server1, net1, cpu1) = self._before, now
        parts = {name: cpu1[name] - cpu0.get(name, 0) for name in cpu1}
        total = max(sum(parts.values()), 1)
        stolen = parts.get("steal", 0)
        busy = total - parts.get("idle", 0) - parts.get("iowait", 0) - stolen
        server = server1 - server0 if server0 is not None and server1 is not None else None
        told = (record.get("cpu") or {}).get("server") or {}
        theirs = server if server is not None else int(told.get("user_ns", 0)) + int(told.get("system_ns", 0))
        others = max(0.0, busy * _TICK_NS - (own1 - own0) - theirs) / (total * _TICK_NS) + stolen / total
        return Outside(
            self._began_unix_ns,
            t1 - t0,
            own1 - own0,
            server,
            net1 - net0 if net0 is not None and net1 is not None else None,
            # A few ticks are no measure.
            others if total > 4 else 0.0,
            usable_cores(),
        )


def loopback_bytes() -> int | None:
    """What the loopback interface has received."""
    for line in (read("/proc/net/dev") or "").splitlines():
        name, _, rest = line.partition(":")
        if name.strip() == "lo":
            return int(rest.split()[0])
    return None


def process_cpu_ns(pid: int | None) -> int | None:
    """User and system time of a process, and of all that it has started: PostgreSQL has one for each
    connection."""
    ended = None
    for _ in range(5):
        text = read(f"/proc/{pid}/stat") if pid is not None else None
        if text is None:
            return None
        user, system, *waited_for = map(int, text.rpartition(")")[2].split()[11:15])
        if waited_for == ended:
            break
        # Who ended after this reading is in neither part: then all is read again.
        ended = waited_for
        threads = Path(f"/proc/{pid}/task").glob("*/children")
        children = " ".join(read(str(path)) or "" for path in threads).split()
        below = sum(process_cpu_ns(int(child)) or 0 for child in children)
    return (user + system + sum(waited_for)) * _TICK_NS + below
