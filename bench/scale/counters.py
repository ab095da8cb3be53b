"""Counters and ceilings by formula: samples of both ends, the file of a trial, the probes of a run."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from formula import CORES, DATA, ROW_BYTES, SAMPLE_NS


def samples(streams: int, speed: float, seconds: float, phase: int) -> dict[str, dict[str, Any]]:
    """Both ends' counters as the record has them (`SAMPLES` of docs/format.md)."""
    times = [800_000, *range(SAMPLE_NS, int(seconds * 1e9), SAMPLE_NS), int(seconds * 1e9)]
    wave = [1 + 0.08 * math.sin(t / 3e8 + phase) for t in times]

    def grown(per_second: float, uneven: bool = True) -> list[int]:
        out, total, before = [], 0.0, 0
        for t, w in zip(times, wave, strict=True):
            total += per_second * (w if uneven else 1.0) * (t - before) / 1e9
            before = t
            out.append(int(total))
        return out

    payload = grown(speed)
    busy = min(0.98, 0.2 + 0.75 * streams / CORES)
    host = 1e9 * CORES
    per_stream = [[p * (s + 1) // streams - p * s // streams for p in payload] for s in range(streams)]
    out: dict[str, dict[str, Any]] = {}
    for end in ("client", "server"):
        sender = end == "server"
        own: dict[str, Any] = {"t_ns": times}
        if end == "client":
            own |= {
                "rows": [int(p / ROW_BYTES) for p in payload],
                "payload_bytes": payload,
                "streams": per_stream,
            }
        own |= {
            "user_ns": grown(0.3e9 * streams),
            "system_ns": grown(0.4e9 * streams),
            "run_delay_ns": grown(0.02e9 * streams),
            "voluntary_switches": grown(3000.0),
            "involuntary_switches": grown(300.0),
            "minor_faults": grown(100.0),
            "major_faults": grown(0.0),
            "rss_bytes": [200 * 2**20 + i * 4096 for i in range(len(times))],
            "thread_cpu_ns": [grown(0.7e9) for _ in range(streams)],
            "thread_delay_ns": [grown(0.02e9) for _ in range(streams)],
            "host_busy_ns": grown(busy * host),
            "host_user_ns": grown(0.4 * busy * host),
            "host_system_ns": grown(0.5 * busy * host),
            "host_irq_ns": grown(0.0),
            "host_softirq_ns": grown(0.1 * busy * host),
            "host_steal_ns": grown(0.002 * host),
            "host_iowait_ns": grown(0.0),
            "host_total_ns": grown(host, uneven=False),
            "core_busy_ns": [grown(min(0.99, busy * (1.1 - 0.02 * c)) * 1e9) for c in range(CORES)],
            "core_softirq_ns": [grown(0.1 * busy * 1e9) for _ in range(CORES)],
            "core_steal_ns": [grown(0.002e9) for _ in range(CORES)],
            "core_total_ns": [grown(1e9, uneven=False) for _ in range(CORES)],
            "memory_available_bytes": [8 * 2**30 - i * 2**20 for i in range(len(times))],
            "psi_cpu_us": grown(max(0.0, busy - 0.6) * 1e6),
            "psi_memory_us": grown(0.0),
            "psi_io_us": grown(0.0),
            "throttled_ns": grown(0.0),
            "net_rx_bytes": grown(speed),
            "net_tx_bytes": grown(speed),
            "net_rx_packets": grown(speed / 65536),
            "net_tx_packets": grown(speed / 65536),
            "net_rx_drops": grown(0.0),
            "net_tx_drops": grown(0.0),
            "disk_read_bytes": grown(0.0),
            "disk_written_bytes": grown(1e4),
            "disk_busy_ns": grown(1e6),
            "socket_rtt_ns": [[int(60_000 * w) for w in wave] for _ in range(streams)],
            "socket_retransmits": [
                [i // 10 if sender and s == 0 else 0 for i in range(len(times))] for s in range(streams)
            ],
            "socket_delivery_rate": [[int(speed / streams * w) for w in wave] for _ in range(streams)],
            "socket_cwnd_bytes": [[655_360] * len(times) for _ in range(streams)],
            "socket_in_flight_bytes": [[262_144 if sender else 0] * len(times) for _ in range(streams)],
            "socket_send_queue_bytes": [[524_288 if sender else 0] * len(times) for _ in range(streams)],
            "socket_receive_queue_bytes": [[0 if sender else 131_072] * len(times) for _ in range(streams)],
            "socket_busy_ns": [grown(0.9e9) for _ in range(streams)],
            "socket_receive_window_limited_ns": [grown(0.05e9) for _ in range(streams)],
            "socket_send_buffer_limited_ns": [grown(0.1e9) for _ in range(streams)],
        }
        out[end] = own
    return out


PER_STREAM = ("streams", "thread_", "core_", "socket_", "frequency_khz")


def samples_file(found: Mapping[str, Mapping[str, Any]]) -> bytes:
    """As `samples/TRIAL.parquet`: one row an instant of an end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = list(dict.fromkeys(name for columns in found.values() for name in columns))
    columns: dict[str, list[Any]] = {"end": []} | {name: [] for name in names}
    for end, own in found.items():
        n = len(own["t_ns"])
        columns["end"] += [end] * n
        for name in names:
            values = own.get(name)
            if values is None:
                columns[name] += [None] * n
            elif name.startswith(PER_STREAM):
                columns[name] += [[one[i] for one in values] for i in range(n)]
            else:
                columns[name] += values
    kinds = {name: pa.list_(pa.int64()) if name.startswith(PER_STREAM) else pa.int64() for name in names}
    table = pa.table({n: pa.array(v, pa.string() if n == "end" else kinds[n]) for n, v in columns.items()})
    threads = len((found["client"].get("thread_cpu_ns")) or [])
    meta = {"thread_names": json.dumps({e: [f"{e}-{s}" for s in range(threads)] for e in found})}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(meta), sink, compression="zstd")
    return sink.getvalue()


def probes(cells: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Lines of ceilings.jsonl: every kind, three repeats each."""
    base = {
        "format": 1,
        "place": "local",
        "end": None,
        "name": None,
        "threads": None,
        "direction": None,
        "streams": None,
        "message_bytes": None,
        "outcome": "ok",
        "error": None,
        "measured_unix_ns": 1_790_000_000_000_000_000,
        "cached": False,
    }

    def three(speed: float, kind: str, **fields: Any) -> Iterator[dict[str, Any]]:
        for repeat in range(3):
            moved = int(speed * 0.3 * (1 + 0.01 * (repeat - 1)))
            yield base | {"kind": kind, "repeat": repeat, "bytes": moved, "interval_ns": 300_000_000} | fields

    keys = sorted({(c["operation"], c["streams"], c["rows_per_batch"]) for c in cells})
    for operation, streams, batch in keys:
        message = int(batch * ROW_BYTES)
        yield from three(
            min(2.6e9 * streams, 5.6e9), "tcp", direction=operation, streams=streams, message_bytes=message
        )
    for streams, batch in sorted({(s, b) for _, s, b in keys}):
        message = int(batch * ROW_BYTES)
        speed = min(streams, CORES) * message / 1.2e-6
        for line in three(
            speed,
            "engine",
            place=None,
            name="checksum",
            data=DATA,
            streams=streams,
            threads=streams,
            message_bytes=message,
        ):
            yield line | {"batches": line["bytes"] // message}
    for end in ("client", "server"):
        for threads, speed in ((1, 9e9), (CORES, 2.2e10)):
            yield from three(speed, "memory", end=end, name="copy", threads=threads)
    for batch in sorted({b for *_, b in keys}):
        message = int(batch * ROW_BYTES)
        for name, speed in (
            ("ipc-encode", 3e10),
            ("ipc-decode", 2.5e10),
            ("zstd-encode", 0.45e9),
            ("zstd-decode", 1.1e9),
        ):
            yield from three(
                speed, "codec", end="client", data=DATA, name=name, threads=1, message_bytes=message
            )
