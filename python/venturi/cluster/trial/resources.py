"""What several hosts did meanwhile, as one end: `END` and `RESOURCES` of docs/format.md.

Loaders of one process, one machine, one network share counters; what several see is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Seen", "cpu", "merged"]

_MOST_THREADS = 32
_NETWORK = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_drops", "tx_drops")
_SHARES = ("busy", "user", "system", "softirq", "irq", "steal", "iowait", "psi_cpu", "psi_memory", "psi_io")


@dataclass(frozen=True)
class Seen:
    """`resources` of one loader's record; `scope` tells for a column what its counter counts."""

    name: str
    resources: Mapping[str, Any] | None
    cpu: Mapping[str, Any] | None
    scope: Callable[[str], object]

    @property
    def client(self) -> Mapping[str, Any]:
        return (self.resources or {}).get("client") or {}


def merged(parts: Sequence[Seen], lead: Seen, error_ns: int = 0) -> dict[str, Any] | None:
    """`RESOURCES` of the whole trial: all loaders as the client, the server as the lead saw it, whose clock
    may be wrong by `error_ns`."""
    known = [part for part in parts if part.resources]
    if not known:
        return None
    if len(parts) == 1:
        return dict(known[0].resources or {})
    view = lead.resources or {}
    clock = view.get("clock")
    if clock:
        clock = {**clock, "uncertainty_ns": clock["uncertainty_ns"] + error_ns}
    spent = [(part.resources or {}).get("sampler") or {} for part in known]
    cost = sum(int(found.get("cpu_ns") or 0) for found in spent)
    client, server = _end([part for part in known if part.client]), view.get("server")
    used = sum(
        end["process"]["user_ns"] + end["process"]["system_ns"]
        for end in (client, server)
        if end and end.get("process")
    )
    return {
        "same_machine": view.get("same_machine"),
        "clock": clock,
        "sampler": {
            "samples": sum(int(found.get("samples") or 0) for found in spent),
            "cpu_ns": cost,
            "share": cost / used if used else None,
        },
        "client": client,
        "server": server,
        # All loaders are beside the same ones.
        **({"helpers": view["helpers"]} if view.get("helpers") else {}),
    }


def cpu(parts: Sequence[Seen]) -> dict[str, int]:
    """CPU time of all loaders' processes; of loaders in one process, which all see the whole, the most."""
    most: dict[object, dict[str, int]] = {}
    for part in parts:
        found = most.setdefault(part.scope("user_ns"), {"user_ns": 0, "system_ns": 0})
        for kind in found:
            found[kind] = max(found[kind], int((part.cpu or {}).get(kind) or 0))
    return {kind: sum(found[kind] for found in most.values()) for kind in ("user_ns", "system_ns")}


def _end(parts: Sequence[Seen]) -> dict[str, Any] | None:
    if not parts:
        return None
    own = _once(parts, "user_ns", "process")
    hosts = _once(parts, "host_busy_ns", "host")
    return {
        "by": "self",
        "window_ns": max(part.client["window_ns"] for part in parts),
        "process": _process(own),
        "host": _host([found for _, found in hosts]),
        "cgroup": _group([found for _, found in _once(parts, "throttled_ns", "cgroup")]),
        "network": _network([found for _, found in _once(parts, "net_rx_bytes", "network")]),
        "disk": _disk([found for _, found in _once(parts, "disk_read_bytes", "disk")]),
        # A loader's connections are its own, whatever else it shares.
        "sockets": _sockets([found for part in parts if (found := part.client.get("sockets"))]),
    }


def _once(parts: Sequence[Seen], column: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    found: dict[object, tuple[str, Mapping[str, Any]]] = {}
    for part in parts:
        if part.client.get(name):
            found.setdefault(part.scope(column), (part.name, part.client[name]))
    return list(found.values())


def _sum(found: Sequence[Mapping[str, Any]], name: str) -> Any:
    """None where some do not know it: a sum without them would be too small."""
    values = [one.get(name) for one in found]
    return None if not values or any(value is None for value in values) else sum(values)


def _process(found: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any] | None:
    if not found:
        return None
    each = [one for _, one in found]
    threads = [
        {**thread, "name": f"{name}/{thread['name']}"}
        for name, one in found
        for thread in one.get("threads") or []
    ]
    threads.sort(key=lambda thread: thread["cpu_share"] or 0.0, reverse=True)
    names = [
        *("user_ns", "system_ns", "run_delay_ns", "voluntary_switches", "involuntary_switches"),
        *("minor_faults", "major_faults", "rss_max_bytes"),
    ]
    summed = {name: _sum(each, name) for name in names}
    # That of the one that stood still longest: a trial goes on while one of its loaders does not.
    paused = {
        name: max((one[name] for one in each if one.get(name) is not None), default=None)
        for name in ("paused_ns", "longest_pause_ns")
    }
    return {**summed, **paused, "threads": threads[:_MOST_THREADS] or None}


def _host(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    cores = sum(one["cores"] for one in found)

    def weighted(name: str) -> float | None:
        values = [(one.get(name), one["cores"]) for one in found]
        if any(value is None for value, _ in values) or not cores:
            return None
        return float(sum(value * weight for value, weight in values) / cores)

    memory = [one.get("memory_available_min_bytes") for one in found]
    known = [value for value in memory if value is not None]
    return {
        "cores": cores,
        **{f"{name}_share": weighted(f"{name}_share") for name in _SHARES[:7]},
        "core_busy_share": [share for one in found for share in one.get("core_busy_share") or []],
        # The host that comes to its end first is the one to know of.
        "memory_available_min_bytes": min(known) if known else None,
        **{f"{name}_share": weighted(f"{name}_share") for name in _SHARES[7:]},
        "frequency_khz": weighted("frequency_khz"),
    }


def _group(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    return {name: _sum(found, name) for name in ("quota_cores", "throttled_ns")}


def _network(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    return {
        "interface": ", ".join(dict.fromkeys(one["interface"] for one in found)),
        "loopback": all(one["loopback"] for one in found),
        **{name: _sum(found, name) for name in _NETWORK},
        "speed_bits_per_second": _sum(found, "speed_bits_per_second"),
    }


def _disk(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    return {
        "read_bytes": _sum(found, "read_bytes"),
        "written_bytes": _sum(found, "written_bytes"),
        "busy_share": max(one["busy_share"] for one in found),
    }


def _sockets(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    if not found:
        return None
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one):
        if name in ("count", "retransmits"):
            out[name] = _sum(found, name)
        else:
            out[name] = _median([(one.get(name), one.get("count") or 0) for one in found])
    return out


def _median(values: Sequence[tuple[Any, int]]) -> Any:
    """Of all sockets, of which each loader tells its own median: the one in the middle by number."""
    known = sorted((value, weight) for value, weight in values if value is not None)
    half, seen = sum(weight for _, weight in known) / 2, 0
    for value, weight in known:
        seen += weight
        if seen >= half:
            return value
    return None
