"""Whose work the CPUs of a trial's hosts did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.figures import get, numeric, quotient

__all__ = ["Balance", "balance", "noise", "noise_of_samples"]


@dataclass(frozen=True)
class Balance:
    """CPU time of the client's host in a trial, in cores."""

    cores: float
    busy: float
    parts: Mapping[str, float]
    """Of the run's own processes, by role: `client`, `server` where it is known to share the host, and
    Venturi's helpers, as `relay`."""

    @property
    def others(self) -> float:
        """What is left for processes that are not the run's. Below 0 where the parts are more than the whole,
        by what the kernel's ticks round, if the record is right."""
        return self.busy - sum(self.parts.values())


def balance(record: Mapping[str, Any]) -> Balance | None:
    """From the summary in the record (`resources`, docs/format.md); None where it lacks the host's busy time,
    or that of the client's process."""
    resources = record.get("resources")
    client = get(resources, "client")
    busy, cores = numeric(client, "host", "busy_share"), numeric(client, "host", "cores")
    own = _process_cores(client)
    if busy is None or not cores or own is None:
        return None
    parts = {"client": own}
    if get(resources, "same_machine") and (served := _process_cores(get(resources, "server"))) is not None:
        parts["server"] = served
    helpers = get(resources, "helpers") or {}
    parts |= {role: used for role in helpers if (used := _process_cores(helpers[role])) is not None}
    return Balance(cores, busy * cores, parts)


def noise(record: Mapping[str, Any]) -> tuple[float, float] | None:
    """Shares of all CPU time of the client's host in a trial that others stole and that other processes used.

    None where the trial has no such summary.
    """
    found = balance(record)
    if found is None:
        return None
    steal = numeric(record, "resources", "client", "host", "steal_share") or 0.0
    return steal, max(0.0, found.others / found.cores)


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
