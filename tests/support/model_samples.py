"""What the model's machines did meanwhile: samples of both ends and their sums (see `support.model`).

Every stream keeps a thread at each end busy for a fixed part of the time; the rest follows from that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Cores that one stream keeps busy at each end, and what the system adds for interrupts.
CPU: dict[str, dict[str, float]] = {
    "client": {"user_ns": 0.35, "system_ns": 0.45},
    "server": {"user_ns": 0.25, "system_ns": 0.50},
}
_SOFTIRQ = 0.02
_PACKET = 48_000
_MEMORY = 12 << 30
_RTT_NS = {False: 40_000, True: 250_000}


def _host(streams: int, end: str, remote: bool) -> tuple[int, float, float]:
    """Cores of a host, and how many of them are busy, by user programs and in all."""
    ends = (end,) if remote else tuple(CPU)
    user = streams * sum(CPU[end]["user_ns"] for end in ends)
    busy = streams * sum(sum(CPU[end].values()) for end in ends)
    return max(8, 2 * streams), user, busy + _SOFTIRQ * streams


def _moved(spec: Mapping[str, Any], end: str, remote: bool, payload: int) -> dict[str, int]:
    """What the interface carried; the loopback sends and receives the same."""
    incoming = remote and (spec["operation"] == "get") == (end == "client")
    wire, acknowledged = payload + payload // 500, payload // 400
    rx, tx = (wire, acknowledged) if incoming else (acknowledged, wire)
    if not remote:
        rx = tx = wire + acknowledged
    packets = (wire // _PACKET + 1) * 2
    counts = {"rx_bytes": rx, "tx_bytes": tx, "rx_packets": packets, "tx_packets": packets}
    return {**counts, "rx_drops": 0, "tx_drops": 0}


def resources(spec: Mapping[str, Any], interval: int, payload: int, remote: bool) -> dict[str, Any] | None:
    """`RESOURCES` of docs/format.md; None where the spec wants no samples."""
    if not spec["sample_interval_ns"]:
        return None
    rows = 2 * (interval // spec["sample_interval_ns"] + 2)
    spent = interval * spec["streams"] * sum(sum(cores.values()) for cores in CPU.values())
    return {
        "same_machine": not remote,
        "clock": {"offset_ns": 0, "uncertainty_ns": _RTT_NS[remote] // 2 if remote else 0},
        "sampler": {"samples": rows, "cpu_ns": rows * 150_000, "share": rows * 150_000 / spent},
        **{end: _end(spec, end, interval, payload, remote) for end in CPU},
    }


def _end(spec: Mapping[str, Any], end: str, interval: int, payload: int, remote: bool) -> dict[str, Any]:
    streams = spec["streams"]
    cores, user, busy = _host(streams, end, remote)
    share = sum(CPU[end].values())
    return {
        "by": "self",
        "window_ns": interval,
        "process": {
            **{kind: int(part * interval * streams) for kind, part in CPU[end].items()},
            "run_delay_ns": int(0.01 * interval * streams),
            "voluntary_switches": interval * streams // 200_000,
            "involuntary_switches": interval * streams // 5_000_000,
            "minor_faults": 100,
            "major_faults": 0,
            "rss_max_bytes": 60_000_000 + 4_000_000 * streams,
            "paused_ns": 0,
            "longest_pause_ns": 0,
            "threads": [
                {"name": f"{end}-{number}", "cpu_share": share, "delay_share": 0.01}
                for number in range(min(streams, 32))
            ],
        },
        "host": {
            "cores": cores,
            "busy_share": busy / cores,
            "user_share": user / cores,
            "system_share": (busy - user - _SOFTIRQ * streams) / cores,
            "softirq_share": _SOFTIRQ * streams / cores,
            "irq_share": 0.0,
            "steal_share": 0.0,
            "iowait_share": 0.0,
            "core_busy_share": [busy / cores] * cores,
            "memory_available_min_bytes": _MEMORY,
            "psi_cpu_share": 0.0,
            "psi_memory_share": 0.0,
            "psi_io_share": 0.0,
            "frequency_khz": 2_600_000.0,
        },
        "cgroup": {"quota_cores": None, "throttled_ns": 0},
        "network": {
            "interface": "eth0" if remote else "lo",
            "loopback": not remote,
            **_moved(spec, end, remote, payload),
            "speed_bits_per_second": 100_000_000_000 if remote else None,
        },
        "disk": {"read_bytes": 0, "written_bytes": 0, "busy_share": 0.0},
        "sockets": {
            "count": streams,
            "rtt_ns": _RTT_NS[remote],
            "min_rtt_ns": _RTT_NS[remote] * 3 // 4,
            "retransmits": 0,
            "delivery_rate": int(payload / streams / interval * 1e9),
            "cwnd_bytes": 1_500_000,
            "in_flight_bytes": 400_000,
            "send_queue_bytes": 100_000,
            "receive_queue_bytes": 50_000,
            "send_buffer_bytes": 2_626_560,
            "receive_buffer_bytes": 6_291_456,
            "busy_share": 0.9,
            "receive_window_limited_share": 0.0,
            "send_buffer_limited_share": 0.02,
        },
    }


def samples(
    spec: Mapping[str, Any], interval: int, ends: list[int], payload: int, rows: int, remote: bool
) -> dict[str, Any] | None:
    """`SAMPLES` of both ends; None where the spec wants none."""
    step = spec["sample_interval_ns"]
    if not step:
        return None
    times = [0, *range(step, interval, step), interval]
    streams = [[payload * min(t, end) // end for t in times] for end in ends]
    done = [sum(stream[i] for stream in streams) for i in range(len(times))]
    client = {
        "streams": streams,
        "rows": [rows * len(ends) * moved // max(done[-1], 1) for moved in done],
        "payload_bytes": done,
    }
    both = {end: {"t_ns": times, **_columns(spec, end, times, done, remote)} for end in CPU}
    both["client"] |= client
    return both


def _columns(
    spec: Mapping[str, Any], end: str, times: list[int], done: list[int], remote: bool
) -> dict[str, Any]:
    streams = spec["streams"]
    cores, user, busy = _host(streams, end, remote)
    share = sum(CPU[end].values())

    def grows(by: float) -> list[int]:
        return [int(by * t) for t in times]

    moved = [_moved(spec, end, remote, payload) for payload in done]
    return {
        **{kind: grows(part * streams) for kind, part in CPU[end].items()},
        "run_delay_ns": grows(0.01 * streams),
        "voluntary_switches": grows(5e-6 * streams),
        "involuntary_switches": grows(2e-7 * streams),
        "rss_bytes": [60_000_000 + 4_000_000 * streams for _ in times],
        "paused_ns": grows(0),
        "thread_names": [f"{end}-{number}" for number in range(streams)],
        "thread_cpu_ns": [grows(share) for _ in range(streams)],
        "thread_delay_ns": [grows(0.01) for _ in range(streams)],
        "host_busy_ns": grows(busy),
        "host_user_ns": grows(user),
        "host_system_ns": grows(busy - user - _SOFTIRQ * streams),
        "host_irq_ns": grows(0),
        "host_softirq_ns": grows(_SOFTIRQ * streams),
        "host_steal_ns": grows(0),
        "host_iowait_ns": grows(0),
        "host_total_ns": grows(cores),
        "core_busy_ns": [grows(busy / cores) for _ in range(cores)],
        "core_softirq_ns": [grows(_SOFTIRQ * streams / cores) for _ in range(cores)],
        "core_steal_ns": [grows(0) for _ in range(cores)],
        "core_total_ns": [grows(1) for _ in range(cores)],
        "memory_available_bytes": [_MEMORY for _ in times],
        **{f"net_{name}": [count[name] for count in moved] for name in moved[0]},
        "socket_rtt_ns": [[_RTT_NS[remote] for _ in times] for _ in range(streams)],
        "socket_retransmits": [grows(0) for _ in range(streams)],
    }
