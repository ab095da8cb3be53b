"""A large run by formula, in the format of docs/format.md: what the analysis has to bear.

    python bench/scale/make_run.py DIRECTORY [--cells 2000] [--repeats 5] [--seconds 3]

Nothing in it was measured. Throughput is min(streams x one, all) cut by a cost a batch; noise is seeded, so
that two calls write the same run. Records are as long as real ones (60 percentiles, an HDR histogram,
resources of both ends), because their size is what is being tested. Samples come from a pool of formula
curves, one for each number of streams and a few phases: encoding 10,000 Parquet files of different content
would take minutes and test nothing else.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from venturi import hdr
from venturi.trial import Cell

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


def write(path: Path, cells: int = 2000, repeats: int = 5, seconds: float = 3.0) -> Path:
    """Writes the run and returns its directory, which must not exist."""
    found = matrix(cells)
    (path / "samples").mkdir(parents=True)
    names = [Cell(p).id for p in found]
    histograms = [_histogram(seed) for seed in range(16)]
    pool: dict[tuple[int, int], bytes] = {}
    with (path / "trials.jsonl").open("w", encoding="utf-8") as out:
        order = 0
        for repeat in range(repeats):
            for p, name in zip(found, names, strict=True):
                line = record(p, name, repeat, order, histograms[order % len(histograms)])
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
                key = (p["streams"], order % PHASES)
                if key not in pool:
                    pool[key] = samples_file(samples(key[0], rate(p), seconds, key[1]))
                (path / "samples" / f"{line['trial']}.parquet").write_bytes(pool[key])
                order += 1
    with (path / "ceilings.jsonl").open("w", encoding="utf-8") as out:
        for probe in probes(found):
            out.write(json.dumps(probe, separators=(",", ":")) + "\n")
    (path / "scenario.toml").write_text(
        '# Made by bench/scale/make_run.py\nname = "scale"\n', encoding="utf-8"
    )
    environment = {
        "format": 1,
        "run": RUN,
        "started_unix_ns": 1_790_000_000_000_000_000,
        "command": None,
        "client": {"software": {"venturi": "0.1.0"}, "host": "formula", "cores": {"logical": CORES}},
        "server": None,
    }
    (path / "environment.json").write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
    return path


def _histogram(seed: int) -> str:
    """An encoded histogram of the length that real trials have: some hundred slots."""
    noise = random.Random(seed)
    counts: dict[int, int] = {}
    for _ in range(900):
        value = max(1, int(80_000 * noise.lognormvariate(0, 0.6)))
        counts[value] = counts.get(value, 0) + noise.randrange(1, 40)
    return hdr.encode(counts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a trial's samples")
    given = parser.parse_args()
    if given.directory.exists():
        raise SystemExit(f"error: {given.directory}: is there already")
    print(write(given.directory, given.cells, given.repeats, given.seconds))


if __name__ == "__main__":
    main()
