"""What several hosts counted, as one: resources, samples on one time line, and the steady window.

Loaders of one process, one machine, one network share counters; what several see is counted once. Counters
are absolute and only their differences mean something: between two samples of a host they grow evenly, and
after its last one they stay.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from venturi.cluster.trial.loaders import Part

_BUSIEST_THREADS = 32
_NETWORK = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_drops", "tx_drops")
_SHARES = ("busy", "user", "system", "softirq", "irq", "steal", "iowait", "psi_cpu", "psi_memory", "psi_io")


def _resources(part: Part) -> Mapping[str, Any]:
    return part.record["resources"] or {}


def _client(part: Part) -> Mapping[str, Any]:
    return _resources(part).get("client") or {}


def _columns(part: Part) -> Mapping[str, Any]:
    """Its samples."""
    return (part.record["samples"] or {}).get("client") or {}


def merged_resources(parts: Sequence[Part], lead: Part, error_ns: int = 0) -> dict[str, Any] | None:
    """`RESOURCES` of the whole trial: all loaders as the client, the server as the lead saw it, whose clock
    may be wrong by `error_ns`."""
    present = [part for part in parts if _resources(part)]
    if not present:
        return None
    if len(parts) == 1:
        return dict(_resources(present[0]))
    view = _resources(lead)
    clock = view.get("clock")
    if clock:
        clock = {**clock, "uncertainty_ns": clock["uncertainty_ns"] + error_ns}
    spent = [_resources(part).get("sampler") or {} for part in present]
    cost = sum(int(found.get("cpu_ns") or 0) for found in spent)
    client, server = _end([part for part in present if _client(part)]), view.get("server")
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


def cpu(parts: Sequence[Part]) -> dict[str, int]:
    """CPU time of all loaders' processes; of loaders in one process, which all see the whole, the most."""
    most: dict[object, dict[str, int]] = {}
    for part in parts:
        found = most.setdefault(part.scope("user_ns"), {"user_ns": 0, "system_ns": 0})
        for kind in found:
            found[kind] = max(
                found[kind], int(((part.record["cpu"] or {}).get("client") or {}).get(kind) or 0)
            )
    return {kind: sum(found[kind] for found in most.values()) for kind in ("user_ns", "system_ns")}


def _end(parts: Sequence[Part]) -> dict[str, Any] | None:
    if not parts:
        return None

    def merged(column: str, name: str, merge: Callable[[Sequence[Any]], dict[str, Any]]) -> Any:
        found = [one for _, one in _once(parts, column, name)]
        return merge(found) if found else None

    process = _once(parts, "user_ns", "process")
    # A loader's connections are its own, whatever else it shares.
    sockets = [found for part in parts if (found := _client(part).get("sockets"))]
    return {
        "by": "self",
        "window_ns": max(_client(part)["window_ns"] for part in parts),
        "process": _process(process) if process else None,
        "host": merged("host_busy_ns", "host", _host),
        "cgroup": merged("throttled_ns", "cgroup", _group),
        "network": merged("net_rx_bytes", "network", _network),
        "disk": merged("disk_read_bytes", "disk", _disk),
        "sockets": _sockets(sockets) if sockets else None,
    }


def _once(parts: Sequence[Part], column: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    found: dict[object, tuple[str, Mapping[str, Any]]] = {}
    for part in parts:
        if _client(part).get(name):
            found.setdefault(part.scope(column), (part.host, _client(part)[name]))
    return list(found.values())


def _sum(found: Sequence[Mapping[str, Any]], name: str) -> Any:
    """None if some do not know it: a sum without them would be too small."""
    values = [one.get(name) for one in found]
    return None if not values or any(value is None for value in values) else sum(values)


def _process(found: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, Any]:
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
    return {**summed, **paused, "threads": threads[:_BUSIEST_THREADS] or None}


def _host(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    cores = sum(one["cores"] for one in found)

    def weighted(name: str) -> float | None:
        values = [(one.get(name), one["cores"]) for one in found]
        if any(value is None for value, _ in values) or not cores:
            return None
        return float(sum(value * weight for value, weight in values) / cores)

    memory = [one.get("memory_available_min_bytes") for one in found]
    present = [value for value in memory if value is not None]
    return {
        "cores": cores,
        **{f"{name}_share": weighted(f"{name}_share") for name in _SHARES[:7]},
        "core_busy_share": [share for one in found for share in one.get("core_busy_share") or []],
        # The host that comes to its end first is the one to know of.
        "memory_available_min_bytes": min(present) if present else None,
        **{f"{name}_share": weighted(f"{name}_share") for name in _SHARES[7:]},
        "frequency_khz": weighted("frequency_khz"),
    }


def _group(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: _sum(found, name) for name in ("quota_cores", "throttled_ns")}


def _network(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "interface": ", ".join(dict.fromkeys(one["interface"] for one in found)),
        "loopback": all(one["loopback"] for one in found),
        **{name: _sum(found, name) for name in _NETWORK},
        "speed_bits_per_second": _sum(found, "speed_bits_per_second"),
    }


def _disk(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {
        "read_bytes": _sum(found, "read_bytes"),
        "written_bytes": _sum(found, "written_bytes"),
        "busy_share": max(one["busy_share"] for one in found),
    }


def _sockets(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one):
        if name in ("count", "retransmits"):
            out[name] = _sum(found, name)
        else:
            out[name] = _median([(one.get(name), one.get("count") or 0) for one in found])
    return out


def _median(values: Sequence[tuple[Any, int]]) -> Any:
    """Of all sockets, of which each loader tells its own median: the one in the middle by number."""
    present = sorted((value, weight) for value, weight in values if value is not None)
    half, seen = sum(weight for _, weight in present) / 2, 0
    for value, weight in present:
        seen += weight
        if seen >= half:
            return value
    return None


_MOST_ROWS = 36_000
_MOST_VALUES = 4_000_000
_MOST_THREADS = 256
_MOST_SOCKETS = 4096
_NO_COUNTERS = ("t_ns", "thread_names")


def merged_samples(parts: Sequence[Part]) -> dict[str, dict[str, Any]]:
    """By end: `client` with all of them added up, and where there are several `client:NAME` with each."""
    parts = [part for part in parts if _columns(part).get("t_ns")]
    if not parts:
        return {}
    if len(parts) == 1:
        return {"client": _shifted(parts[0], 1)}
    stride = _stride(sum(_values(_columns(part)) for part in parts), max(_length(p) for p in parts))
    own = {f"client:{part.host}": _shifted(part, stride) for part in parts}
    return {"client": _sum_samples(parts), **own}


def _length(part: Part) -> int:
    return len(_columns(part)["t_ns"])


def _values(columns: Mapping[str, Any]) -> int:
    return sum(
        sum(map(len, values)) if values and isinstance(values[0], list) else len(values)
        for name, values in columns.items()
        if name != "thread_names" and values
    )


def _stride(values: int, rows: int) -> int:
    return max(1, -(-values // _MOST_VALUES), -(-rows // _MOST_ROWS))


def _shifted(part: Part, stride: int) -> dict[str, Any]:
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
        name: values if name == "thread_names" else thin(values) for name, values in _columns(part).items()
    }
    found["t_ns"] = [at + part.origin_ns for at in found["t_ns"]]
    return found


def _sum_samples(parts: Sequence[Part]) -> dict[str, Any]:
    times = [np.array(_columns(part)["t_ns"], dtype=np.float64) + part.origin_ns for part in parts]
    grid = _grid(times, sum(_values(_columns(part)) for part in parts))
    out: dict[str, Any] = {"t_ns": _rounded(grid)}
    names = dict.fromkeys(name for part in parts for name in _columns(part) if name not in _NO_COUNTERS)
    for name in names:
        chosen = _distinct(parts, name)
        columns: list[Any] = [_columns(parts[at]).get(name) for at in chosen]
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
        f"{parts[at].host}/{thread}"
        for at in _distinct(parts, "thread_cpu_ns")
        for thread in _columns(parts[at]).get("thread_names") or []
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


def _distinct(parts: Sequence[Part], name: str) -> list[int]:
    """One part of each scope: what several count alike is counted once."""
    seen: dict[object, int] = {}
    for at, part in enumerate(parts):
        seen.setdefault(part.scope(name), at)
    return list(seen.values())


def _curve(at: Any, values: Sequence[int | None], grid: Any) -> Any:
    numbers = np.array(values, dtype=np.float64)  # what is not known becomes NaN
    present = ~np.isnan(numbers)
    return np.interp(grid, at[present], numbers[present]) if present.any() else None


def _rounded(curve: Any) -> list[int]:
    integers: list[int] = np.rint(curve).astype(np.int64).tolist()
    return integers


def _items(name: str, columns: Sequence[tuple[Any, Any]], grid: Any) -> list[list[int]]:
    """Lists an item (stream, thread, CPU, connection): one host's after the other's."""
    most = {"thread": _MOST_THREADS, "socket": _MOST_SOCKETS}.get(name.partition("_")[0])
    out: list[list[int]] = []
    for at, item in itertools.islice(((at, item) for at, items in columns for item in items), most):
        curve = _curve(at, item, grid)
        out.append([0] * len(grid) if curve is None else _rounded(curve))
    return out


_ENOUGH_SAMPLES = 4
"""So many instants inside the steady_window, and a loader's samples tell more than its mean rate."""


def _bounds(part: Part) -> tuple[int, int] | None:
    """Where its own streams are steady, on the common time line; None if some stream moved nothing."""
    streams = part.record.get("streams") or []
    if not streams or any(not stream["first_batch_ns"] for stream in streams):
        return None
    first = max(stream["first_batch_ns"] for stream in streams)
    return first + part.origin_ns, min(stream["end_ns"] for stream in streams) + part.origin_ns


def _within(part: Part, start: int, end: int, column: str) -> float:
    """Rows or payload bytes from `start` to `end`, which lie in its own steady window."""
    times = part.record["times"]
    if not times["steady_ns"]:
        return 0.0
    rate = times[f"steady_{column}"] / times["steady_ns"]
    client = _columns(part)
    at = np.array(client.get("t_ns") or [], dtype=np.float64) + part.origin_ns
    if ((at > start) & (at < end)).sum() >= _ENOUGH_SAMPLES and client.get(column):
        curve = np.interp([start, end], *_knots(part, at, client[column], column))
        return float(curve[1] - curve[0])
    return float(rate * (end - start))


def _knots(part: Part, at: Any, values: Sequence[int], column: str) -> tuple[Any, Any]:
    total = part.record["counts"][column]
    end = part.origin_ns + part.record["times"]["interval_ns"]
    inside = (at > part.origin_ns) & (at < end)
    return (
        np.concatenate([[part.origin_ns], at[inside], [end]]),
        np.concatenate([[0], np.array(values, dtype=np.float64)[inside], [total]]),
    )


def steady_window(parts: Sequence[Part]) -> dict[str, int]:
    """`steady_ns`, `steady_rows` and `steady_payload_bytes`: zeros if there is no such window."""
    bounds = [_bounds(part) for part in parts]
    present = [found for found in bounds if found is not None]
    nothing = {"steady_ns": 0, "steady_rows": 0, "steady_payload_bytes": 0}
    if not present or len(present) < len(parts):
        return nothing
    start, end = max(low for low, _ in present), min(high for _, high in present)
    if end <= start:
        return nothing
    return {
        "steady_ns": end - start,
        **{
            f"steady_{column}": round(sum(_within(part, start, end, column) for part in parts))
            for column in ("rows", "payload_bytes")
        },
    }
