"""Trials by formula: which cells there are, how fast each is, and the lines that a run would have of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from typing import Any

from venturi.common import hdr

RUN = "20261121-084500-scale"
STREAMS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
BATCHES = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072)
ROWS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
COMPRESSION = (None, "zstd")
ROW_BYTES = 32.0
CORES = 8
DATA = "records, 4 columns, random"
SAMPLE_NS = 100_000_000
PHASES = 4
ONE = {"get": 1.5e9, "put": 1.2e9}
ALL = {"get": 4.0e9, "put": 3.2e9}
BATCH_NS = 4000.0
"""What a batch costs whatever its size: the slanted part of the roofline."""
STAGES = {
    "get": (
        {"await_input": 0.12, "receive": 0.55, "decode": 0.05, "verify": 0.20, "await_thread": 0.08},
        {"generate": 0.05, "encode": 0.10, "send": 0.45, "await_output": 0.40},
    ),
    "put": (
        {"generate": 0.04, "encode": 0.08, "send": 0.40, "await_output": 0.40, "await_window": 0.08},
        {"await_input": 0.10, "receive": 0.60, "decode": 0.05, "verify": 0.25},
    ),
}
PERCENTS = sorted(
    {0.0, 95.0, *(100 - 100 / 2 ** (i / 5) for i in range(48)), 90.0, 99.0, 99.9, 99.99, 99.999, 100.0}
)


def matrix(cells: int) -> list[dict[str, Any]]:
    """The parameters of so many cells; a full product, cut off."""
    combinations = itertools.product(("get", "put"), COMPRESSION, ROWS, STREAMS, BATCHES)
    return [_parameters(*c) for c in _spread(list(combinations), cells)]


def _spread(found: list[Any], wanted: int) -> list[Any]:
    """So many of them, evenly taken, so that a small run has something of everything."""
    if wanted >= len(found):
        return found
    return [found[i * len(found) // wanted] for i in range(wanted)]


def _parameters(
    operation: str, compression: str | None, rows: int, streams: int, batch: int
) -> dict[str, Any]:
    return {
        "operation": operation,
        "place": "local",
        "target": "flight://local",
        "data": "records",
        "columns": 4,
        "values": "random",
        "seed": 1,
        "row_bytes": ROW_BYTES,
        "rows_per_batch": batch,
        "rows_per_stream": rows,
        "bytes_per_stream": None,
        "duration_ns": None,
        "streams": streams,
        "threads": streams,
        "rate": None,
        "verify": "checksum",
        "include_setup": False,
        "pin": None,
        "compression": compression,
        "connections": "per-stream",
        "window": None,
        "protocol": "auto",
        "ack": "stream",
    }


def rate(p: Mapping[str, Any]) -> float:
    """Bytes per second without noise."""
    message = p["rows_per_batch"] * ROW_BYTES
    one = message / (message / ONE[p["operation"]] + BATCH_NS / 1e9)
    return min(one * p["streams"], ALL[p["operation"]]) * (0.35 if p["compression"] else 1.0)


def record(p: dict[str, Any], cell: str, repeat: int, order: int, histogram: str) -> dict[str, Any]:
    """A line of trials.jsonl."""
    noise = random.Random(f"{cell}/{repeat}")
    streams, batch = p["streams"], p["rows_per_batch"]
    speed = rate(p) * (1 + 0.015 * noise.gauss(0, 1))
    rows = p["rows_per_stream"] * streams
    payload = int(rows * ROW_BYTES)
    interval = int(payload / speed * 1e9) + 1_500_000
    batches = -(-p["rows_per_stream"] // batch) * streams
    worker = [int(interval * (1 - 0.01 * s / streams)) for s in range(streams)]
    client, server = STAGES[p["operation"]]
    busy = min(0.98, 0.2 + 0.75 * streams / CORES)
    middle = interval / batches * streams
    service = {
        "count": batches,
        "min": int(middle / 3),
        "mean": middle,
        "max": int(middle * 20),
        "stdev": middle / 2,
        "percentiles": [
            [round(q, 6), int(middle * (0.4 + (1 / max(1 - q / 100, 1e-6)) ** 0.25))] for q in PERCENTS
        ],
        "hdr": histogram,
    }
    return {
        "format": 1,
        "kind": "trial",
        "run": RUN,
        "trial": f"{cell}-{repeat}",
        "cell": cell,
        "repeat": repeat,
        "warmup": False,
        "order": order,
        "parameters": p,
        "outcome": "ok",
        "error": None,
        "target": {
            "address": "127.0.0.1:31337",
            "software": "formula",
            "reference": True,
            "protocol": "perf",
            "pid": 1,
        },
        "counts": {
            "rows": rows,
            "batches": batches,
            "payload_bytes": payload,
            "wire_bytes": payload + 220 * batches,
        },
        "times": {
            "started_unix_ns": 1_790_000_000_000_000_000 + order * 10**9,
            "setup_ns": 3_000_000,
            "interval_ns": interval,
            "verify_ns": 200_000,
            "start_skew_ns": 10_000,
            "steady_ns": int(interval * 0.98),
            "steady_rows": int(rows * 0.98),
            "steady_payload_bytes": int(payload * 0.98),
        },
        "verification": {
            "requested": "checksum",
            "achieved": "checksum",
            "expected_rows": rows,
            "rows": rows,
            "expected_checksum": "00112233445566ff",
            "checksum": "00112233445566ff",
            "note": None,
        },
        "cpu": {
            "client": {"user_ns": int(0.3 * sum(worker)), "system_ns": int(0.4 * sum(worker))},
            "server": {"user_ns": int(0.2 * sum(worker)), "system_ns": int(0.45 * sum(worker))},
        },
        "stages": {
            "client": {k: int(v * sum(worker)) for k, v in client.items()},
            "server": {k: int(v * sum(worker)) for k, v in server.items()},
        },
        "workers": {
            "client": {"workers": streams, "time_ns": sum(worker)},
            "server": {"workers": streams, "time_ns": sum(worker)},
        },
        "resources": {
            "same_machine": True,
            "clock": {"offset_ns": 0, "uncertainty_ns": 0},
            "sampler": {
                "samples": interval // SAMPLE_NS * 2,
                "cpu_ns": interval // SAMPLE_NS * 60_000,
                "share": 0.0006,
            },
            "client": _end(streams, interval, busy, speed, "client", p["operation"] == "get"),
            "server": _end(streams, interval, busy, speed, "server", p["operation"] == "put"),
        },
        "streams": [
            {
                "stream": s,
                "thread": s,
                "rows": p["rows_per_stream"],
                "batches": batches // streams,
                "payload_bytes": payload // streams,
                "start_ns": 1000 * s,
                "first_batch_ns": 500_000,
                "end_ns": worker[s],
                "connect_ns": 400_000,
                "stages": {k: int(v * worker[s]) for k, v in client.items()},
            }
            for s in range(streams)
        ],
        "latency": {"service": service, "response": None},
        "schedule": None,
        "pin": None,
        "instrument": {
            "clock_read_ns": 22.0,
            "clock_reads": 6 * batches,
            "share": min(0.009, 132.0 / middle),
        },
    }


def _end(streams: int, interval: int, busy: float, speed: float, end: str, receives: bool) -> dict[str, Any]:
    n = interval * streams
    socket = {
        "count": streams,
        "rtt_ns": 60_000,
        "min_rtt_ns": 20_000,
        "retransmits": 0,
        "delivery_rate": int(speed / streams),
        "cwnd_bytes": 655_360,
        "in_flight_bytes": 0 if receives else 262_144,
        "send_queue_bytes": 0 if receives else 524_288,
        "receive_queue_bytes": 131_072 if receives else 0,
        "send_buffer_bytes": 262_144,
        "receive_buffer_bytes": 6_291_456,
        "busy_share": 0.0 if receives else 0.9,
        "receive_window_limited_share": 0.05,
        "send_buffer_limited_share": 0.1,
    }
    return {
        "by": "self",
        "window_ns": interval // SAMPLE_NS * SAMPLE_NS,
        "process": {
            "user_ns": int(0.3 * n),
            "system_ns": int(0.4 * n),
            "run_delay_ns": int(0.02 * n),
            "voluntary_switches": 1000,
            "involuntary_switches": 200,
            "minor_faults": 500,
            "major_faults": 0,
            "rss_max_bytes": 200 * 2**20,
            "threads": [
                {"name": f"{end}-{s}", "cpu_share": 0.7, "delay_share": 0.02} for s in range(streams)
            ],
        },
        "host": {
            "cores": CORES,
            "busy_share": busy,
            "user_share": 0.4 * busy,
            "system_share": 0.5 * busy,
            "softirq_share": 0.1 * busy,
            "irq_share": 0.0,
            "steal_share": 0.002,
            "iowait_share": 0.0,
            "core_busy_share": [min(1.0, busy * (1.1 - 0.02 * c)) for c in range(CORES)],
            "memory_available_min_bytes": 8 * 2**30,
            "psi_cpu_share": max(0.0, busy - 0.6),
            "psi_memory_share": 0.0,
            "psi_io_share": 0.0,
            "frequency_khz": 2_900_000,
        },
        "cgroup": {"quota_cores": None, "throttled_ns": 0},
        "network": {
            "interface": "lo",
            "loopback": True,
            "rx_bytes": int(speed * interval / 1e9),
            "tx_bytes": int(speed * interval / 1e9),
            "rx_packets": 10_000,
            "tx_packets": 10_000,
            "rx_drops": 0,
            "tx_drops": 0,
            "speed_bits_per_second": None,
        },
        "disk": {"read_bytes": 0, "written_bytes": 4096, "busy_share": 0.0},
        "sockets": socket,
    }


def histogram(seed: int) -> str:
    """An encoded histogram of the length that real trials have: some hundred slots."""
    noise = random.Random(seed)
    counts: dict[int, int] = {}
    for _ in range(900):
        value = max(1, int(80_000 * noise.lognormvariate(0, 0.6)))
        counts[value] = counts.get(value, 0) + noise.randrange(1, 40)
    return hdr.encode(counts)
