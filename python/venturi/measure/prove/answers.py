"""Known answers: of records that are written down here every figure follows by arithmetic. What sums up a run
must find it: medians and intervals, shares of limits, stages, percentiles, differences, several loaders as
one, units and suffixes."""

from __future__ import annotations

import json
import math
from typing import Any

from venturi.analysis.cells.summary import Cell, summarise
from venturi.analysis.statistics.difference import differences
from venturi.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from venturi.analysis.verdict import evidence
from venturi.cluster.trial.clock import Clock, Stamps
from venturi.cluster.trial.clock import of as clock_of
from venturi.cluster.trial.merge import Part, merge
from venturi.cluster.trial.shares import Share
from venturi.common import hdr, suffixes
from venturi.common.core import load_core
from venturi.common.units import Quantity
from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks, Name, Proof, What
from venturi.measure.prove.printed import read_back

__all__ = ["prove"]

_EXACT = 1e-9
_MS = 1_000_000


def prove(bench: Bench, short: bool = False) -> Proof:
    """Nothing is measured: `bench` is of no account, and the short form has all of it."""
    checks = Checks()
    _cell(checks)
    _intervals(checks)
    _differences(checks)
    _loaders(checks)
    _clocks(checks)
    _spelled(checks)
    _core(checks)
    return Proof(Name.ANSWERS, checks.outcome, checks)


def _near(checks: Checks, part: str, expected: float, found: float | None, unit: str = "") -> None:
    checks.near(What.ANSWER, expected, found, unit, _EXACT, more=_EXACT, part=part)


_PAYLOAD, _WIRE, _ROWS, _BATCHES, _SET_UP = 8_000_000, 10_000_000, 80_000, 800, 5 * _MS
_INTERVALS_MS = (10.0, 8.0, 20.0, 12.5, 16.0)
"""Of five trials as they came: 800, 1,000, 400, 640 and 500 MB/s."""
_RAW_TCP, _MEMORY = 2.0, 10.0
"""How many times as much as the trial a probe of the same round moved."""


def _trial(repeat: int, ms: float, outcome: str = "ok", warmup: bool = False) -> dict[str, Any]:
    """A put by two streams, in an open loop that asked for twice what it got."""
    ns = ms * _MS
    return {
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
        "cpu": {"client": {"user_ns": 0.3 * ns, "system_ns": 0.1 * ns},
                "server": {"user_ns": 0.6 * ns, "system_ns": 0.2 * ns}},
        "stages": {"client": {"send": 1.5 * ns, "await_reply": 0.5 * ns},
                   "server": {"decode": 0.8 * ns, "await_input": 1.2 * ns}},
    }  # fmt: skip


def _probe(repeat: int, ms: float, times: float, **of: Any) -> dict[str, Any]:
    return {"round": repeat, "bytes": times * _PAYLOAD, "interval_ns": ms * _MS, **of}


def _cell(checks: Checks) -> None:
    """Five good trials, between a warm-up and one that failed, both far quicker."""
    good = [_trial(number, ms) for number, ms in enumerate(_INTERVALS_MS)]
    probes = []
    for number, ms in enumerate(_INTERVALS_MS):
        tcp = {"direction": "put", "streams": 2, "threads": 2, "message_bytes": 10_000}
        probes += [
            _probe(number, ms, _RAW_TCP, kind="tcp", **tcp),
            _probe(number, ms, _MEMORY, kind="memory"),
        ]
    [cell] = summarise([_trial(-1, 1.0, warmup=True), *good, _trial(5, 2.0, "failed")], probes)
    checks.same(What.ANSWER, 5, cell.good, part="good")
    checks.same(What.ANSWER, 1, cell.failed, part="failed")
    _speed(checks, cell)
    [even] = summarise(good[:4])
    _near(checks, "median-of-four", 720e6, even.throughput.value, "B/s")
    checks.same(What.ANSWER, "raw TCP", cell.binding or "none", part="binding")
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


def _intervals(checks: Checks) -> None:
    # Thompson (1936): 6 repeats, 1 - 2/64 = 97 % from the least to the most; of 9, 1 - 2 x 10/512 = 96 %
    # from the second on.
    for repeats, rank, coverage in ((5, 0, 0.9375), (6, 0, 0.96875), (9, 1, 0.9609375)):
        values = [float((7 * k) % repeats) for k in range(repeats)]
        found = median_interval(values)
        _near(checks, f"middle-of-{repeats}", (repeats - 1) / 2, found.median)
        checks.between(What.ANSWER, rank, found.low, "", rank, rank, part=f"low-of-{repeats}")
        high = repeats - 1 - rank
        checks.between(What.ANSWER, high, found.high, "", high, high, part=f"high-of-{repeats}")
        _near(checks, f"coverage-of-{repeats}", coverage, found.coverage)
    ratio = ratio_interval(Interval(100.0, 90.0, 120.0, 5, 0.9), Interval(50.0, 40.0, 60.0, 5, 0.9))
    for part, expected, got in (("ratio", 2.0, ratio.median), ("ratio-low", 1.5, ratio.low),
                                ("ratio-high", 3.0, ratio.high)):  # fmt: skip
        _near(checks, part, expected, got)


def _differences(checks: Checks) -> None:
    """Twice as much, where the logarithms of three repeats have the variance 1."""
    base = [math.exp(k) for k in (-1.0, 0.0, 1.0)]
    found = differences([(base, [2 * value for value in base])])[0]
    error = math.sqrt(1 / 3 + 1 / 3)
    _near(checks, "twice", 2.0, found.ratio)
    _near(checks, "error-of-twice", error, found.error)
    # Student's t with four degrees of freedom has its distribution in closed form.
    t = math.log(2.0) / error
    half = 1 + t * t / 4
    within = 2 * 3 / 8 * t / math.sqrt(half) * (1 - t * t / half / 12)
    _near(checks, "p-of-twice", 1 - within, found.p)


_START = 1_700_000_000_000_000_000
_AHEAD, _LATER = 7 * _MS, 2 * _MS
"""How far the second loader's clock is ahead, and how much later it begins."""


def _loader(number: int, started: int, end: int, steady: int, a_ms: int, rate: float, user: int,
            service: dict[int, int]) -> dict[str, Any]:  # fmt: skip
    """One stream, whose first batch has come after 1 ms; `a_ms` rows a millisecond in its steady window."""
    rows, counted = a_ms * end, sum(service.values())
    mean = sum(value * count for value, count in service.items()) / counted
    return {
        "outcome": "ok",
        "error": None,
        "counts": {"rows": rows, "batches": counted, "payload_bytes": 8 * rows, "wire_bytes": 9 * rows},
        "times": {"started_unix_ns": started, "setup_ns": _MS, "interval_ns": end * _MS, "verify_ns": 0,
                  "start_skew_ns": 0, "steady_ns": steady * _MS, "steady_rows": a_ms * steady,
                  "steady_payload_bytes": 8 * a_ms * steady},
        "cpu": {"client": {"user_ns": user * _MS, "system_ns": _MS}, "server": None},
        "streams": [{"stream": number, "thread": 0, "start_ns": 1, "first_batch_ns": _MS,
                     "end_ns": end * _MS, "rows": rows, "batches": counted, "payload_bytes": 8 * rows}],
        "latency": {"service": {"count": counted, "min": min(service), "max": max(service), "mean": mean,
                                "stdev": 0.0, "percentiles": [], "hdr": hdr.encode(service)},
                    "response": None},
        "schedule": {"rate": rate, "intended": counted, "late": 0, "max_lag_ns": 0},
    }  # fmt: skip


def _loaders(checks: Checks) -> None:
    """Two of them, the second on a host whose clock is ahead."""
    first = _loader(0, _START, 10, 9, 30, 100.0, 5, {1000: 3})
    second = _loader(1, _START + _LATER + _AHEAD, 9, 8, 100, 300.0, 7, {1000: 1, 5000: 1})
    for process, user in (("one", 7), ("another", 12)):
        parts = [
            Part("loader-1", Share(first=0, count=1), first, lead=True,
                 identity={"boot_id": "here", "pid": "one"}),
            Part("loader-2", Share(first=1, count=1), second, clock=Clock(offset_ns=_AHEAD),
                 identity={"boot_id": "here", "pid": process}),
        ]  # fmt: skip
        whole = merge(parts, _START)
        # Both see the CPU time of the process that they share.
        _near(checks, f"cpu-of-{process}-process", user * _MS, whole["cpu"]["client"]["user_ns"], "ns")
    counts, times = whole["counts"], whole["times"]
    late = whole["streams"][1]
    percents = dict(map(tuple, whole["latency"]["service"]["percentiles"]))
    for part, expected, got, unit in (
        ("rows", 30 * 10 + 100 * 9, counts["rows"], "rows"),
        ("payload", 8 * (30 * 10 + 100 * 9), counts["payload_bytes"], "B"),
        ("interval", 11 * _MS, times["interval_ns"], "ns"),
        # From 1 ms after the later start until the first has ended.
        ("steady", 7 * _MS, times["steady_ns"], "ns"),
        ("steady-rows", 7 * (30 + 100), times["steady_rows"], "rows"),
        ("rate", 400.0, whole["schedule"]["rate"], "batches/s"),
        ("first-batch", _LATER + _MS, late["first_batch_ns"], "ns"),
        ("end", _LATER + 9 * _MS, late["end_ns"], "ns"),
    ):
        _near(checks, f"loaders-{part}", expected, got, unit)
    # A slot of a histogram is a thousandth wide. Of five batches four took 1 µs.
    for percent, expected in ((75.0, 1000), (90.0, 5000)):
        checks.near(
            What.ANSWER, expected, percents.get(percent), "ns", 0.001, more=1, part=f"loaders-p{percent:g}"
        )
    _near(checks, "middle-of-a-histogram", 2000, hdr.percentile({1000: 1, 2000: 1, 3000: 1}, 50.0), "ns")


def _clocks(checks: Checks) -> None:
    """The quickest exchange tells: 3 ms there and back, of which the other host took 1."""
    slow = Stamps(0, 50 * _MS, 50 * _MS, 60 * _MS)
    quick = Stamps(0, _AHEAD + _MS, _AHEAD + 2 * _MS, 3 * _MS)
    found = clock_of([slow, quick])
    _near(checks, "clock-ahead", _AHEAD, found.offset_ns, "ns")
    checks.between(What.ANSWER, _MS, found.uncertainty_ns, "ns", _MS, _MS + 1, part="clock-unsure")
    _near(checks, "clock-here", _START, found.here(found.there(_START)), "ns")
    _near(checks, "clock-there", _START + _AHEAD, found.there(_START), "ns")


def _core(checks: Checks) -> None:
    """Those that the core knows of itself: `crates/core/src/known.rs`."""
    for answer in json.loads(load_core().known_answers()):
        _near(checks, f"core-{answer['part']}", answer["expected"], answer["found"], answer["unit"])


_SIZES = {"7": 7, "7k": 7e3, "7K": 7e3, "7M": 7e6, "7G": 7e9, "7T": 7e12, "7MB": 7e6,
          "7Ki": 7 * 1024, "7Mi": 7 * 1024**2, "7Gi": 7 * 1024**3, "7Ti": 7 * 1024**4,
          "1.5GiB": 1.5 * 1024**3}  # fmt: skip
_DURATIONS = {"7ns": 7, "7us": 7e3, "7ms": 7e6, "7s": 7e9, "7min": 420e9, "7h": 25_200e9}


def _spelled(checks: Checks) -> None:
    """What is asked for in words, and what is printed."""
    for text, expected in _SIZES.items():
        _near(checks, f"spelled-{text}", expected, suffixes.parse_count(text))
    for text, expected in _DURATIONS.items():
        _near(checks, f"spelled-{text}", expected, suffixes.parse_duration(text), "ns")
    for unit in ("B/s", "B", "rows/s", "points/s", "batches/s", "rows", "points", "ns"):
        for power in (1, 4, 7, 10):
            value = 2.5 * 10.0**power
            printed = read_back(str(Quantity(value, unit=unit)))
            checks.near(What.ANSWER, value, printed, unit, 0.005, part=f"printed-{unit}-{power}")
