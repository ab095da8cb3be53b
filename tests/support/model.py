"""A deterministic executor: records by a formula, without a clock, a network or a server.

For tests that compare output to the letter, and for report fixtures. On a command line it is
`--executor support.model`; nothing that it prints is a measurement, and the record says so
(`target.software` is "model").

Throughput over streams is linear-then-flat, time over bytes is Hockney's a + n/b,
with seeded noise of about 2 %. The figures themselves are made up.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import sys
import threading
import unittest.mock
from collections.abc import Iterator, Mapping
from typing import Any

from venturi.common import hdr, links
from venturi.common.conditions import Condition
from venturi.engine.executor import Executor, TrialControl
from venturi.engine.spec import failed_record
from venturi.measure import placement
from venturi.plan.workload import POINT_BYTES, USAGE_ROW_BYTES
from venturi.targets.system import scheme_of

# Rates in bytes/s of one stream and of all together, start-up in ns, for get and put.
_RATES = {"get": (1.6e9, 4.2e9, 1.5e6), "put": (1.3e9, 3.4e9, 2.0e6), "upsert": (9.0e6, 28e6, 1.0e6)}
# Of ingests: 16 bytes of payload a point.
_RATES["ingest"] = (5.0e7, 1.3e8, 1.0e6)
_REMOTE_FACTOR = 0.7
_EPOCH_NS = 1_790_000_000_000_000_000
# Limits of a host (bytes/s): memory by threads, disk, cipher and codec by name, the engine's of one thread.
_MEMORY = {1: 9.0e9}
_MEMORY_ALL = 11.0e9
_DISK = {"fsync": 0.9e9, "direct": 1.2e9, "commit": 20e6}
_CIPHER = {"seal": 20e9, "open": 18e9}
_CODEC = {"ipc": (60e9, 90e9), "lz4": (0.7e9, 2.4e9), "zstd": (0.4e9, 1.1e9)}
# How many times smaller, where the values are not drawn at random.
_PACKED = {"lz4": 2.0, "zstd": 4.0}
_ENGINE = 20e9
_CLIENT_STAGES = {
    "get": {"await_input": 0.35, "receive": 0.45, "decode": 0.05, "verify": 0.15},
    "put": {"generate": 0.02, "encode": 0.03, "send": 0.65, "await_output": 0.15, "verify": 0.15},
    "upsert": {"send": 0.08, "await_reply": 0.92},
    "ingest": {"generate": 0.2, "encode": 0.25, "send": 0.1, "await_output": 0.4, "await_reply": 0.05},
}
_SERVER_STAGES = {
    "get": {"await_output": 0.20, "generate": 0.05, "encode": 0.05, "send": 0.70},
    "put": {"await_input": 0.30, "receive": 0.50, "decode": 0.05, "verify": 0.15},
}
_UPSERTED = {
    "mysql": ("MariaDB 11.8 (model)", 24.0),
    "cassandra": ("Cassandra 5.0 (model)", 40.0),
    "postgres": ("PostgreSQL 17 (model)", 30.0),
    "sqlite": ("SQLite 3.50 (model)", 20.0),
    "duckdb": ("DuckDB 1.4 (model)", 12.0),
}
"""Who answers upserts, and bytes that it stores of a row beyond its payload."""
# A statement costs a database as much as this payload, whatever is in it.
_STATEMENT_BYTES = 4000.0


@contextlib.contextmanager
def used(executor: Executor) -> Iterator[None]:
    """In the block it runs the trials of `venturi.run` and its like, unless `on` places them."""
    with unittest.mock.patch.object(placement, "local_executor", lambda *_: contextlib.nullcontext(executor)):
        yield


class ModelControl:
    """Cancels a trial that hangs on purpose; progress is always at its start."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()

    def progress(self) -> object:
        return {"rows": 0, "payload_bytes": 0, "elapsed_ns": 0}


class ModelExecutor(Executor):
    """See the module. `fail` and `hang` are conditions over the fields of the spec.

    A failing trial's error is of kind `kind`; a hanging one waits until it is cancelled. Without
    `probes` the target answers as a foreign server does, which knows no raw TCP probe.
    """

    needs_server = False
    measures = False

    def __init__(
        self, fail: str | None = None, kind: str = "lost", hang: str | None = None, probes: bool = True
    ) -> None:
        self._fail = Condition(fail) if fail else None
        self._kind = kind
        self._hang = Condition(hang) if hang else None
        self._probes = probes

    def control(self) -> TrialControl:
        return ModelControl()

    def run_trial(self, spec: str, control: TrialControl) -> str:
        fields = json.loads(spec)
        if fields["trial"] == "engine":
            # A probe of the engine itself: conditions are about trials.
            return json.dumps(_record(fields))
        names = {**fields, **fields["options"]}
        hung = self._hang is not None and self._hang(names)
        if hung:
            assert isinstance(control, ModelControl)
            # Tells a test when to interrupt.
            print("info: the model hangs, as it was told to", file=sys.stderr, flush=True)
            control.cancelled.wait()
        record = _record(fields)
        if hung:
            record |= {
                "outcome": "interrupted",
                "error": {"kind": "cancelled", "message": "cancelled while it ran", "stream": None},
            }
        elif self._fail is not None and self._fail(names):
            record = _failed(fields, self._kind)
        return json.dumps(record)

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        fields = json.loads(spec)
        if not self._probes:
            error = "it is not a reference server"
            return json.dumps({"bytes": 0, "interval_ns": 0, "outcome": "failed", "error": error})
        noise = random.Random(f"{fields['streams']}/{fields['direction']}")
        rate = min(3.2e9 * fields["streams"], 5.6e9) * (1 + 0.02 * noise.uniform(-1, 1))
        return json.dumps(_moved(rate, fields["duration_ns"]))

    def probe(self, spec: str, control: TrialControl) -> str:
        fields = json.loads(spec)
        kind, name = fields["kind"], str(fields.get("name"))
        if kind == "memory":
            rate = _MEMORY.get(fields["threads"], _MEMORY_ALL)
        elif kind == "disk":
            rate = _DISK[name]
        elif kind == "pipe":
            rate = min(2.4e9 * fields["streams"], 4.2e9)
        elif kind == "cipher":
            rate = _CIPHER[name]
        else:
            codec, _, verb = name.rpartition("-")
            rate = _CODEC[codec.partition(":")[0]][verb == "decode"]
        noise = random.Random(f"{kind}/{name}/{fields.get('threads')}")
        rate *= 1 + 0.02 * noise.uniform(-1, 1)
        moved = _moved(rate, fields["duration_ns"])
        if kind == "codec":
            random_values = fields["data"].get("values") == "random"
            ratio = 1.0 if random_values else _PACKED.get(name.partition("-")[0].partition(":")[0], 1.0)
            moved["encoded_bytes"] = int(moved["bytes"] / ratio)
        return json.dumps(moved)


def executor(text: str) -> ModelExecutor:
    """Of a command line: "", "fail[=KIND]:CONDITION" or "hang:CONDITION"."""
    verb, _, condition = text.partition(":")
    verb, _, kind = verb.partition("=")
    if verb == "hang":
        return ModelExecutor(hang=condition)
    return ModelExecutor(fail=condition, kind=kind or "lost") if verb == "fail" else ModelExecutor()


def _moved(rate: float, interval: int) -> dict[str, Any]:
    """The answer of a probe that went well."""
    return {
        "bytes": int(rate * interval / 1e9),
        "interval_ns": interval,
        "outcome": "ok",
        "error": None,
        "measured_unix_ns": _EPOCH_NS,
    }


def _failed(spec: Mapping[str, Any], kind: str) -> dict[str, Any]:
    messages = {
        "lost": "stream 0: the server went away: connection reset by peer",
        "unreachable": f"{spec['target']}: connection refused",
        "verification": "rows differ: expected 1000, got 999",
    }
    record = failed_record(kind, messages.get(kind, f"made to fail: {kind}"))
    if kind in ("lost", "verification"):
        # These break in mid-trial, so what had been moved is in the record.
        record |= {key: value for key, value in _record(spec).items() if key not in ("outcome", "error")}
        record["error"]["stream"] = 0
        if kind == "lost" and spec["operation"] == "upsert":
            record["errors"] = _lost(spec, str(record["error"]["message"]))
    elif kind == "auth":
        record["error"]["stream"] = 0
    return record


def _lost(spec: Mapping[str, Any], message: str) -> dict[str, Any]:
    """`errors` of a trial whose server went away with a batch in flight on every stream."""
    lost = {"kind": "lost", "code": None, "count": spec["streams"], "message": message}
    doubt = {"batches": spec["streams"], "rows": spec["streams"] * spec["rows_per_batch"]}
    return {
        "refused": {"batches": 0, "rows": 0},
        "in_doubt": doubt,
        "retries": 0,
        "kinds": [lost | {"stream": 0, "first_ns": 1_000_000}],
    }


def _row_bytes(data: Mapping[str, Any]) -> float:
    if data["source"] == "usage":
        return USAGE_ROW_BYTES
    if data["source"] in ("metrics", "archive"):
        return POINT_BYTES
    return 8.0 * data["columns"] if data["source"] == "records" else 100.0


def _record(spec: Mapping[str, Any]) -> dict[str, Any]:
    noise = random.Random(spec["trial"].partition(".")[0])
    operation, streams, batch = spec["operation"], spec["streams"], spec["rows_per_batch"]
    row_bytes = POINT_BYTES if spec["operation"] == "ingest" else _row_bytes(spec["data"])
    upsert = operation == "upsert"
    one, most, startup = _RATES[operation]
    remote = "local" not in spec["target"] and "127.0.0.1" not in spec["target"]
    rate = min(one * streams, most) * (_REMOTE_FACTOR if remote else 1.0)
    if spec["target"].startswith("empty:"):
        rate = _ENGINE * min(streams, spec["threads"])
    # Small batches pay for their headers: half the rate at 256 rows of 32 bytes.
    rate *= batch * row_bytes / (batch * row_bytes + (_STATEMENT_BYTES if upsert else 8192))
    if spec.get("link"):
        link = links.parse(spec["link"])
        carried = link.rate[0 if operation == "get" else 1] if link.rate is not None else math.inf
        rate = min(rate, carried / 8 * link.payload_part)
    rate *= 1 + 0.02 * noise.gauss(0, 1)
    if spec["duration_ns"] is not None:
        interval = int(spec["duration_ns"])
        rows = max(batch, int(rate / streams / row_bytes * interval / 1e9) // batch * batch)
    else:
        rows = int(spec["rows_per_stream"] or 100_000)
        interval = int(startup * (1 + 0.1 * noise.random()) + rows * row_bytes * streams / rate * 1e9)
    batches = -(-rows // batch)
    payload = int(rows * row_bytes)
    ends = [int(interval * (1 - 0.02 * (streams - 1 - s) / max(streams, 1))) for s in range(streams)]
    latency = _latency(noise, interval / batches, batches * streams)
    client = {name: int(share * sum(ends)) for name, share in _CLIENT_STAGES[operation].items()}
    server = {name: int(share * sum(ends)) for name, share in _SERVER_STAGES.get(operation, {}).items()}
    checksum = f"{random.Random(json.dumps([spec['data'], rows, streams])).getrandbits(64):016x}"
    first = int(startup / 4)
    steady = max(ends[0] - first, 1)
    achieved = spec["verify"]
    record = {
        "outcome": "ok",
        "error": None,
        "target": {
            "address": spec["target"].split("://")[-1].split("/")[0],
            "software": "model",
            "reference": True,
            "protocol": "perf" if spec["data"]["source"] == "records" else "path",
            "pid": None,
        },
        "counts": {
            "rows": rows * streams,
            "batches": batches * streams,
            "payload_bytes": payload * streams,
            "wire_bytes": payload * streams + 220 * batches * streams,
            "stored_bytes": None,
        },
        "times": {
            **{"started_unix_ns": _EPOCH_NS + noise.randrange(10**9)},
            **{"setup_ns": 3_000_000 + 500_000 * streams, "interval_ns": interval, "verify_ns": 200_000},
            **{"start_skew_ns": 10_000, "steady_ns": steady},
            **{"steady_rows": int(rows * streams * steady / interval)},
            **{"steady_payload_bytes": int(payload * streams * steady / interval)},
        },
        "verification": {
            **{"requested": spec["verify"], "achieved": achieved, "expected_rows": rows * streams},
            **{"rows": rows * streams, "expected_checksum": checksum if achieved == "checksum" else None},
            **{"checksum": checksum if achieved == "checksum" else None, "sums": None, "note": None},
        },
        "errors": None,
        "cpu": {
            end: {kind: int(cores * sum(ends)) for kind, cores in spent.items()} for end, spent in CPU.items()
        },
        "stages": {"client": client, "server": server},
        "workers": {end: {"workers": streams, "time_ns": sum(ends)} for end in ("client", "server")},
        "resources": resources(spec, interval, payload * streams, remote),
        "streams": [
            {
                **{"stream": s, "thread": s % spec["threads"], "rows": rows, "batches": batches},
                **{"payload_bytes": payload, "start_ns": 10_000 * s, "first_batch_ns": first + 10_000 * s},
                **{"end_ns": ends[s], "connect_ns": 400_000},
                "stages": {name: int(share * ends[s]) for name, share in _CLIENT_STAGES[operation].items()},
            }
            for s in range(streams)
        ],
        "latency": {"service": latency, "response": latency if spec["rate"] else None},
        "schedule": _schedule(spec, batches * streams),
        "pin": spec["pin"],
        "instrument": {
            "clock_read_ns": 22.0,
            "clock_reads": 6 * batches * streams,
            "share": round(min(1.0, 22.0 * 6 * batches * streams / sum(ends)), 6),
        },
        "samples": samples(spec, interval, ends, payload, rows, remote),
    }
    if operation == "ingest":
        return _ingested(spec, record)
    return _upserted(spec, record, row_bytes) if upsert else record


def _upserted(spec: Mapping[str, Any], record: dict[str, Any], row_bytes: float) -> dict[str, Any]:
    """The record of a database: no server stages, and sums are compared."""
    software, more = _UPSERTED.get(scheme_of(spec["target"]), ("model", 0.0))
    rows = record["counts"]["rows"]
    keys = min(rows, spec["data"].get("working_set", rows))
    hits = str(498 * rows)
    record["target"] |= {"software": software, "reference": False, "protocol": scheme_of(spec["target"])}
    record["counts"] |= {"stored_bytes": int(keys * (row_bytes + more))}
    record["stages"]["server"] = record["workers"]["server"] = None
    record["workers"]["client"]["workers"] *= spec["in_flight"]
    checked = spec["verify"] == "checksum"
    record["verification"] |= {
        "achieved": "sums" if checked else spec["verify"],
        "expected_rows": keys,
        "rows": keys,
        "expected_checksum": None,
        "checksum": None,
        "sums": [{"column": "hits", "expected": hits, "in_doubt": "0", "found": hits}] if checked else None,
    }
    return record


def _ingested(spec: Mapping[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """The record of our time-series store, which reports what it holds but no stages."""
    points = record["counts"]["rows"]
    record["target"] |= {"software": "venturi store (model)", "protocol": scheme_of(spec["target"])}
    record["counts"] |= {"stored_bytes": int(points * 2.93), "wire_bytes": int(points * 35.5)}
    record["stages"]["server"] = record["workers"]["server"] = None
    return record


def _schedule(spec: Mapping[str, Any], batches: int) -> dict[str, Any] | None:
    if not spec["rate"]:
        return None
    return {"rate": spec["rate"], "intended": batches, "late": 0, "max_lag_ns": 0}


def _latency(noise: random.Random, mean: float, count: int) -> dict[str, object]:
    """A log-normal round the mean; at most 200 points carry the whole count."""
    points = min(count, 200)
    counts: dict[int, int] = {}
    for point in range(points):
        value = max(1, int(mean * noise.lognormvariate(-0.125, 0.5)))
        share = count // points + (point < count % points)
        counts[value] = counts.get(value, 0) + share
    return hdr.summary(counts)


# ---- what the model's machines did meanwhile: samples of both ends and their sums


# Cores that one stream keeps busy at each end, and what the system adds for interrupts.
CPU: dict[str, dict[str, float]] = {
    "client": {"user_ns": 0.35, "system_ns": 0.45},
    "server": {"user_ns": 0.25, "system_ns": 0.50},
}
_SOFTIRQ = 0.02
_PACKET = 48_000
_HOST_MEMORY = 12 << 30
_RTT_NS = {False: 40_000, True: 250_000}


def _host(streams: int, end: str, remote: bool) -> tuple[int, float, float]:
    """Cores of a host, and how many of them are busy, by user programs and in all."""
    ends = (end,) if remote else tuple(CPU)
    user = streams * sum(CPU[end]["user_ns"] for end in ends)
    busy = streams * sum(sum(CPU[end].values()) for end in ends)
    return max(8, 2 * streams), user, busy + _SOFTIRQ * streams


def _moved_by(spec: Mapping[str, Any], end: str, remote: bool, payload: int) -> dict[str, int]:
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
            **{"run_delay_ns": int(0.01 * interval * streams)},
            **{"voluntary_switches": interval * streams // 200_000},
            **{"involuntary_switches": interval * streams // 5_000_000, "minor_faults": 100},
            **{"major_faults": 0, "rss_max_bytes": 60_000_000 + 4_000_000 * streams, "paused_ns": 0},
            **{"longest_pause_ns": 0},
            "threads": [
                {"name": f"{end}-{number}", "cpu_share": share, "delay_share": 0.01}
                for number in range(min(streams, 32))
            ],
        },
        "host": {
            **{"cores": cores, "busy_share": busy / cores, "user_share": user / cores},
            **{"system_share": (busy - user - _SOFTIRQ * streams) / cores},
            **{"softirq_share": _SOFTIRQ * streams / cores, "irq_share": 0.0, "steal_share": 0.0},
            **{"iowait_share": 0.0, "core_busy_share": [busy / cores] * cores},
            **{"memory_available_min_bytes": _HOST_MEMORY, "psi_cpu_share": 0.0, "psi_memory_share": 0.0},
            **{"psi_io_share": 0.0, "frequency_khz": 2_600_000.0},
        },
        "cgroup": {"quota_cores": None, "throttled_ns": 0},
        "network": {
            "interface": "eth0" if remote else "lo",
            "loopback": not remote,
            **_moved_by(spec, end, remote, payload),
            "speed_bits_per_second": 100_000_000_000 if remote else None,
        },
        "disk": {"read_bytes": 0, "written_bytes": 0, "busy_share": 0.0},
        "sockets": {
            **{"count": streams, "rtt_ns": _RTT_NS[remote], "min_rtt_ns": _RTT_NS[remote] * 3 // 4},
            **{"retransmits": 0, "delivery_rate": int(payload / streams / interval * 1e9)},
            **{"cwnd_bytes": 1_500_000, "in_flight_bytes": 400_000, "send_queue_bytes": 100_000},
            **{"receive_queue_bytes": 50_000, "send_buffer_bytes": 2_626_560},
            **{"receive_buffer_bytes": 6_291_456, "busy_share": 0.9, "receive_window_limited_share": 0.0},
            **{"send_buffer_limited_share": 0.02},
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

    moved = [_moved_by(spec, end, remote, payload) for payload in done]
    return {
        **{kind: grows(part * streams) for kind, part in CPU[end].items()},
        **{"run_delay_ns": grows(0.01 * streams), "voluntary_switches": grows(5e-6 * streams)},
        **{"involuntary_switches": grows(2e-7 * streams)},
        **{"rss_bytes": [60_000_000 + 4_000_000 * streams for _ in times], "paused_ns": grows(0)},
        **{"thread_names": [f"{end}-{number}" for number in range(streams)]},
        **{"thread_cpu_ns": [grows(share) for _ in range(streams)]},
        **{"thread_delay_ns": [grows(0.01) for _ in range(streams)], "host_busy_ns": grows(busy)},
        **{"host_user_ns": grows(user), "host_system_ns": grows(busy - user - _SOFTIRQ * streams)},
        **{"host_irq_ns": grows(0), "host_softirq_ns": grows(_SOFTIRQ * streams)},
        **{"host_steal_ns": grows(0), "host_iowait_ns": grows(0), "host_total_ns": grows(cores)},
        **{"core_busy_ns": [grows(busy / cores) for _ in range(cores)]},
        **{"core_softirq_ns": [grows(_SOFTIRQ * streams / cores) for _ in range(cores)]},
        **{"core_steal_ns": [grows(0) for _ in range(cores)]},
        **{"core_total_ns": [grows(1) for _ in range(cores)]},
        **{"memory_available_bytes": [_HOST_MEMORY for _ in times]},
        **{f"net_{name}": [count[name] for count in moved] for name in moved[0]},
        "socket_rtt_ns": [[_RTT_NS[remote] for _ in times] for _ in range(streams)],
        "socket_retransmits": [grows(0) for _ in range(streams)],
    }
