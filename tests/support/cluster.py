"""Records of loaders whose truth is known, and loaders without an engine."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from venturi.cluster.trial.clock import Clock
from venturi.cluster.trial.loaders import Part, Share
from venturi.common import hdr
from venturi.engine.loader import PHASES
from venturi.engine.spec import failed_record

AGREED = 1_790_000_000_000_000_000
"""The start instant by the driver's clock."""
MS = 1_000_000
ROW_BYTES = 8


def stream(
    number: int, thread: int, rows: int, end_ms: int, start_ms: int = 0, batch_ms: int = 1
) -> dict[str, Any]:
    """A stream that moves evenly from its start to its end."""
    return {
        **{"stream": number, "thread": thread, "rows": rows, "batches": rows // 10},
        **{"payload_bytes": rows * ROW_BYTES, "start_ns": start_ms * MS},
        **{"first_batch_ns": (start_ms + batch_ms) * MS, "end_ns": end_ms * MS},
        **{"connect_ns": 5, "stages": {"receive": (end_ms - start_ms) * MS}},
    }


def moved(found: dict[str, Any], at_ns: float) -> float:
    """Rows of such a stream at a moment."""
    start, end = found["start_ns"], found["end_ns"]
    return float(found["rows"] * min(1.0, max(0.0, (at_ns - start) / (end - start))))


def record(
    streams: list[dict[str, Any]], latencies: dict[int, int], samples_ms: int | None = 10
) -> dict[str, Any]:
    """What a loader with these streams would answer; its clock is the driver's, and it began on time."""
    interval = max(s["end_ns"] for s in streams)
    low, high = max(s["first_batch_ns"] for s in streams), min(s["end_ns"] for s in streams)
    window = max(0, high - low)
    rows = sum(s["rows"] for s in streams)
    steady = sum(moved(s, high) - moved(s, low) for s in streams) if window else 0
    samples = None
    if samples_ms is not None:
        instants = range(-samples_ms * MS, interval + 2 * samples_ms * MS, samples_ms * MS)
        each = [[round(moved(s, t)) * ROW_BYTES for t in instants] for s in streams]
        samples = {
            "client": {
                "t_ns": list(instants),
                "rows": [round(sum(moved(s, t) for s in streams)) for t in instants],
                "payload_bytes": [sum(at) for at in zip(*each, strict=True)],
                "streams": each,
                "user_ns": [1000 + t // 100 for t in instants],
                "host_busy_ns": [t // 10 for t in instants],
                "thread_cpu_ns": [[t // 200 for t in instants]],
                "thread_names": ["client-0"],
            },
            "server": None,
        }
    return failed_record("internal", "") | {
        "outcome": "ok",
        "error": None,
        "target": {
            **{"address": "10.77.0.1:31337", "software": "venturi", "reference": True, "protocol": "perf"},
        },
        "counts": {
            **{"rows": rows, "batches": sum(s["batches"] for s in streams)},
            **{"payload_bytes": rows * ROW_BYTES, "wire_bytes": rows * 9, "stored_bytes": None},
        },
        "times": {
            **{"started_unix_ns": AGREED, "setup_ns": 7, "interval_ns": interval, "verify_ns": 0},
            **{"start_skew_ns": max(s["start_ns"] for s in streams), "steady_ns": window},
            **{"steady_rows": round(steady), "steady_payload_bytes": round(steady) * ROW_BYTES},
        },
        "verification": {
            **{"requested": "checksum", "achieved": "none", "expected_rows": None, "rows": rows},
            **{"expected_checksum": None, "checksum": None, "sums": None, "note": "verified by the lead"},
        },
        "cpu": {"client": {"user_ns": 100, "system_ns": 20}, "server": None},
        "stages": {"client": {"receive": sum(s["stages"]["receive"] for s in streams)}, "server": None},
        "workers": {"client": {"workers": len(streams), "time_ns": interval * len(streams)}, "server": None},
        "streams": streams,
        "latency": {"service": hdr.summary(latencies), "response": None},
        "schedule": {"rate": 100.0, "intended": rows // 10, "late": 1, "max_lag_ns": interval // 100},
        "instrument": {"clock_read_ns": 20.0, "clock_reads": 10, "share": 0.001},
        "samples": samples,
    }


def part(
    number: int,
    found: dict[str, Any],
    first: int,
    lead: bool = False,
    clock: Clock | None = None,
    late_ns: int = 0,
) -> Part:
    """Loader `number`, whose clock is so wrong and who began so late."""
    clock = clock or Clock()
    times = {**found["times"], "started_unix_ns": clock.to_host(AGREED + late_ns)}
    return Part(
        host=f"loader-{number}",
        share=Share(first, len(found["streams"])),
        record={**found, "times": times},
        lead=lead,
        address=f"10.77.0.{number + 1}",
        clock=clock,
        identity={"boot_id": f"machine-{number}", "network": "net", "pid": 1, "hostname": f"node{number}"},
    )


class FakeControl:
    """`_core.Control` of a trial that is only waited for."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.at, self.cancelled, self.given = 0, False, None
        self.told: str | None = None
        self.rows = 0

    def enter(self, phase: str) -> None:
        with self.changed:
            self.at = max(self.at, PHASES.index(phase))
            self.changed.notify_all()

    def wait(self, phase: str, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.at >= PHASES.index(phase), seconds)

    def until(self, what: Callable[[], bool]) -> bool:
        with self.changed:
            self.changed.wait_for(lambda: self.cancelled or what())
            return not self.cancelled and bool(what())

    def cancel(self) -> None:
        with self.changed:
            self.cancelled = True
            self.changed.notify_all()

    def start_at(self, unix_ns: int) -> None:
        with self.changed:
            self.given = unix_ns
            self.changed.notify_all()

    def conclude(self, tallies: str) -> None:
        with self.changed:
            self.told = tallies
            self.changed.notify_all()

    def tallies(self) -> str:
        return json.dumps([{"stream": self.first, "rows": self.rows}])

    def progress(self) -> dict[str, Any]:
        return {
            "phase": PHASES[self.at],
            "rows": self.rows,
            "payload_bytes": 8 * self.rows,
            "elapsed_ns": 5 * MS,
        }

    first = 0


class FakeCore:
    """`venturi._core` with trials that move nothing, and that begin `late_ns` after the start instant.

    `fails` says at which phase the trial of this loader breaks off; `hangs` at which it stays until it is
    cancelled; `stuck` is set as soon as it does.
    """

    def __init__(
        self,
        fails: str | None = None,
        hangs: str | None = None,
        log: list[Any] | None = None,
        late_ns: int = 0,
    ) -> None:
        self.fails, self.hangs, self.log = fails, hangs, log if log is not None else []
        self.late_ns, self.stuck = late_ns, threading.Event()

    def Control(self) -> FakeControl:
        return FakeControl()

    def run_trial(self, text: str, control: FakeControl) -> str:
        share = json.loads(text)["share"]
        control.first, name = share["first"], f"{share['first']}+{share['count']}"
        for phase in ("planned", "ready"):
            if not self._enter(phase, control, name):
                return self._broken(control, phase)
        if not control.until(lambda: control.given is not None):
            return self._broken(control, "ready")
        if not self._enter("running", control, name):
            return self._broken(control, "running")
        control.rows = 100 * share["count"]
        if not self._enter("counted", control, name):
            return self._broken(control, "counted")
        if share["lead"] and not control.until(lambda: control.told is not None):
            return self._broken(control, "counted")
        streams = [stream(share["first"] + n, n, 100, 20) for n in range(share["count"])]
        found = record(streams, {1000: 10}, None)
        found["times"]["started_unix_ns"] = control.given + self.late_ns
        if share["lead"]:
            told = json.loads(control.told or "[]")
            rows = found["counts"]["rows"] + sum(t["rows"] for t in told)
            found["verification"] |= {"achieved": "count", "rows": rows, "expected_rows": rows}
        control.enter("done")
        return json.dumps(found)

    def _enter(self, phase: str, control: FakeControl, name: str) -> bool:
        if self.fails == phase:
            return False
        if self.hangs == phase:
            self.stuck.set()
            control.until(lambda: False)
        if control.cancelled:
            return False
        self.log.append((name, phase))
        control.enter(phase)
        return True

    def _broken(self, control: FakeControl, phase: str) -> str:
        if control.cancelled:
            found = failed_record("cancelled", "cancelled", "interrupted")
        else:
            found = failed_record("server", f"no {phase}")
        control.enter("done")
        return json.dumps(found)
