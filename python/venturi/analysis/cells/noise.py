"""What else the hosts of a trial were doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.cells.figures import get, numeric, quotient

__all__ = ["noise", "noise_of_samples"]


def noise(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Shares of all CPU time of the client's host in a trial that others stole and that other processes used.

    From the summary in the record (`resources`, docs/format.md). The server's CPU is taken off where it is
    known to share the machine. None where the trial has no such summary.
    """
    client = get(record, "resources", "client")
    busy, cores = numeric(client, "host", "busy_share"), numeric(client, "host", "cores")
    own = _process_cores(client)
    if busy is None or not cores or own is None:
        return None
    if get(record, "resources", "same_machine"):
        own += _process_cores(get(record, "resources", "server")) or 0.0
    return numeric(client, "host", "steal_share") or 0.0, max(0.0, busy - own / cores)


def _process_cores(end: Any) -> float | None:
    """Cores that the process of an end kept busy over its window."""
    user, system = numeric(end, "process", "user_ns"), numeric(end, "process", "system_ns")
    spent = None if user is None and system is None else (user or 0.0) + (system or 0.0)
    return quotient(spent, numeric(end, "window_ns"))


def noise_of_samples(
    record: Mapping[str, Any], samples: Mapping[str, list[Any]]
) -> tuple[float, float] | None:
    """The same from the samples of a run that has no summaries (before Venturi wrote `resources`).

    The counters are sums since the start; the difference of last and first is used, so that their zero does
    not matter. The server's CPU is taken off only where it runs on this host. None for fewer than two
    samples.
    """

    def grown(name: str) -> float | None:
        known = [v for v in samples.get(name, []) if v is not None]
        return float(known[-1] - known[0]) if len(known) > 1 else None

    total, busy, own = grown("host_total_ns"), grown("host_busy_ns"), grown("client_cpu_ns")
    if not total or busy is None or own is None:
        return None
    address = str(get(record, "target", "address") or "")
    if address.startswith(("127.", "local", "[::1]", "unix:", "/")):
        own += grown("server_cpu_ns") or 0.0
    return (grown("host_steal_ns") or 0.0) / total, max(0.0, busy - own) / total
