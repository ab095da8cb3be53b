"""Known answers: every figure of the records in this file follows by arithmetic, and what sums up a run must
find it: medians, shares of limits, stages, percentiles."""

from __future__ import annotations

import json
from typing import Any

from venturi.analysis.cells.summary import Cell, summarise
from venturi.analysis.verdict import evidence
from venturi.common import hdr
from venturi.common.runtime import load_core
from venturi.engine.record import Trial, trial_of
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import CheckKind, Checks, Proof, ProofName

_EXACT = 1e-9
_MS = 1_000_000


def prove(bench: Bench, short: bool = False) -> Proof:
    """Nothing is measured, and the short form is the whole."""
    checks = Checks()
    _cell(checks)
    _core(checks)
    return Proof(ProofName.ANSWERS, checks.outcome, checks)


def _near(checks: Checks, part: str, expected: float, found: float | None, unit: str = "") -> None:
    checks.near(CheckKind.ANSWER, expected, found, unit, _EXACT, more=_EXACT, part=part)


_PAYLOAD, _WIRE, _ROWS, _BATCHES, _SET_UP = 8_000_000, 10_000_000, 80_000, 800, 5 * _MS
_INTERVALS_MS = (10.0, 8.0, 20.0, 12.5, 16.0)
"""Five trials in the order of time: 800, 1,000, 400, 640 and 500 MB/s."""
_RAW_TCP, _MEMORY = 2.0, 10.0
"""A probe of the same round moved this many times as much as the trial."""


def _trial(repeat: int, ms: float, outcome: str = "ok", warmup: bool = False) -> Trial:
    """A put by two streams, in an open loop that asked for twice the rate."""
    ns = round(ms * _MS)
    return trial_of({
        "kind": "trial",
        "cell": "known",
        "repeat": repeat,
        "warmup": warmup,
        "outcome": outcome,
        "parameters": {"operation": "put", "streams": 2, "threads": 2, "target": "flight://127.0.0.1:1",
                       "row_bytes": 100, "rows_per_batch": 100},
        "counts": {"payload_bytes": _PAYLOAD, "wire_bytes": _WIRE, "rows": _ROWS, "batches": _BATCHES},
        "times": {"interval_ns": ns, "setup_ns": _SET_UP},
        "schedule": {"rate": 2 * _BATCHES / ns * 1e9, "intended": _BATCHES, "late": _BATCHES // 4},
        "latency": {"service": {"count": _BATCHES, "percentiles": [[50.0, 1000], [99.0, 2000]]},
                    "response": {"count": _BATCHES, "percentiles": [[50.0, 3000], [99.0, 9000]]}},
        "cpu": {"client": {"user_ns": ns * 3 // 10, "system_ns": ns // 10},
                "server": {"user_ns": ns * 6 // 10, "system_ns": ns // 5}},
        "stages": {"client": {"send": ns * 3 // 2, "await_reply": ns // 2},
                   "server": {"decode": ns * 4 // 5, "await_input": ns * 6 // 5}},
    })  # fmt: skip


def _probe(repeat: int, ms: float, times: float, **of: Any) -> dict[str, Any]:
    return {"round": repeat, "bytes": times * _PAYLOAD, "interval_ns": ms * _MS, **of}


def _cell(checks: Checks) -> None:
    """Five good trials between a warm-up and a failed one, which are both much faster."""
    good = [_trial(number, ms) for number, ms in enumerate(_INTERVALS_MS)]
    probes = []
    for number, ms in enumerate(_INTERVALS_MS):
        tcp = {"direction": "put", "streams": 2, "threads": 2, "message_bytes": 10_000}
        probes += [
            _probe(number, ms, _RAW_TCP, kind="tcp", **tcp),
            _probe(number, ms, _MEMORY, kind="memory"),
        ]
    [cell] = summarise([_trial(0, 1.0, warmup=True), *good, _trial(5, 2.0, "failed")], probes)
    checks.same(CheckKind.ANSWER, 5, cell.good, part="good")
    checks.same(CheckKind.ANSWER, 1, cell.failed, part="failed")
    _speed(checks, cell)
    [even] = summarise(good[:4])
    _near(checks, "median-of-four", 720e6, even.throughput.value, "B/s")
    checks.same(CheckKind.ANSWER, "raw TCP", cell.binding or "none", part="binding")
    for name, share in (("raw TCP", 1 / _RAW_TCP), ("memory copy", 1 / _MEMORY)):
        found = cell.shares.get(name)
        _near(checks, f"share-of-{name.replace(' ', '-')}", share, found.value if found else None)
    seen = evidence.seen(cell, evidence.medians([evidence.facts(r, {}) for r in cell.records]), cell.good)
    for part, expected, got in (
        ("kept", 0.5, seen.kept),
        ("late", 0.25, seen.late),
        ("rate", 640e6, seen.rate),
        ("send", 0.75, seen.client.stages.get("send")),
        ("decode", 0.4, seen.server.stages.get("decode")),
        ("client-cpu", 0.4, seen.client.cpu),
        ("server-cpu", 0.8, seen.server.cpu),
    ):
        _near(checks, f"verdict-{part}", expected, got)


def _speed(checks: Checks, cell: Cell) -> None:
    speed = cell.throughput
    for part, expected, found, unit in (
        ("median", 640e6, speed.value, "B/s"),
        ("lowest", 400e6, speed.low, "B/s"),
        ("highest", 1000e6, speed.high, "B/s"),
        ("rows", 6.4e6, cell.rows.value, "rows/s"),
        ("batches", 64e3, cell.batches.value, "batches/s"),
        ("interval", 12.5 * _MS, cell.interval.value, "ns"),
        ("set-up", _SET_UP, cell.setup.value, "ns"),
        ("client-cores", 0.4, cell.cpu["client"].value, "cores"),
        ("server-cores", 0.8, cell.cpu["server"].value, "cores"),
        ("client-per-cpu", 1600e6, cell.per_cpu["client"].value, "B/s"),
        ("server-per-cpu", 800e6, cell.per_cpu["server"].value, "B/s"),
        ("client-send", 0.75, cell.stages["client"].get("send"), ""),
        ("client-await_reply", 0.25, cell.stages["client"].get("await_reply"), ""),
        ("server-decode", 0.4, cell.stages["server"].get("decode"), ""),
        ("server-await_input", 0.6, cell.stages["server"].get("await_input"), ""),
        # In an open loop, the response time.
        ("p50", 3000, cell.latency[50.0].value if 50.0 in cell.latency else None, "ns"),
        ("p99", 9000, cell.latency[99.0].value if 99.0 in cell.latency else None, "ns"),
    ):
        _near(checks, part, expected, found, unit)


def _core(checks: Checks) -> None:
    """The core's own: `crates/core/src/self_test.rs`."""
    _near(checks, "middle-of-a-histogram", 2000, hdr.percentile({1000: 1, 2000: 1, 3000: 1}, 50.0), "ns")
    for answer in json.loads(load_core().self_test()):
        _near(checks, f"core-{answer['part']}", answer["expected"], answer["found"], answer["unit"])
