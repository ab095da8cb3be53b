"""From the bench's lines to its page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import goals
import shared

# Where the client is, while the server is on CPU 0: on CPU 0, on CPU 1.
PLACES = ("on the server's CPU", "on another CPU")
SEED_RATE = 120e6  # bytes/s of one encoder, as published

Rounds = dict[int, shared.Line]
Figure = Callable[[shared.Line], float]


def told(source: Path) -> shared.Told:
    head, *trials = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(trials, "part", "way")
    out = [
        f"# charrow beside other ways to an Arrow table: {head['date'][:10]}",
        "",
        f"{shared.described(head)}; Arrow {head['arrow']}; {head['rounds']} rounds of "
        f"{head['bytes'] / 1e9:g} GB a trial (of ClickHouse's table a third); load before "
        f"{head['load_before']:.2f}, {shared.steal(trials)}.",
        "",
        "Payload of decoded Arrow batches, medians with their 95 % intervals; CPU-seconds per GB "
        "of client and server.",
    ]
    for part, names in head["ways"].items():
        out += ["", f"## {part}", "", *(f"{note}\n" for note in head.get("peers", {}).get(part, ()))]
        out += ["| way | MB/s | client + server, s/GB |", "|---|---|---|"]
        out += [_row(name, found[part, name]) for name in names if (part, name) in found]
    return shared.Told("\n".join(out), _goals(found), shared.failures(trials, "part", "way"))


def _row(name: str, trials: Rounds) -> str:
    cpu = [
        f"{np.median([t[key] / t['bytes'] for t in trials.values()]):.2f}"
        if all(t.get(key) is not None for t in trials.values())
        else "-"
        for key in ("client_cpu_ns", "server_cpu_ns")
    ]
    return f"| {name} | {shared.spread([speed(t) / 1e6 for t in trials.values()], 0)} | {' + '.join(cpu)} |"


def speed(trial: shared.Line) -> float:
    """Payload bytes per second."""
    return float(trial["bytes"]) / float(trial["interval_ns"]) * 1e9


def per_cpu(trial: shared.Line) -> float:
    """Payload bytes per second of CPU time of both ends."""
    return float(trial["bytes"]) / (trial["client_cpu_ns"] + trial["server_cpu_ns"]) * 1e9


def _goals(found: dict[Any, Rounds]) -> list[goals.Judged]:
    def compare(what: str, one: str, other: str, wanted: float) -> list[goals.Judged]:
        ours, theirs = (found.get(("memory", way), {}) for way in (one, other))
        return goals.judge(what, shared.ratios(ours, theirs, speed), wanted)

    def transports(what: str, one: str, other: str, of: Figure, wanted: float) -> list[goals.Judged]:
        ours, theirs = (found.get(("transports", way), {}) for way in (one, other))
        return goals.judge(what, shared.ratios(ours, theirs, of), wanted)

    mine = "charrow 1, decoders 0"  # with one connection, another thread has nothing to share
    out = compare("charrow of raw TCP, 1 partition, 1 MiB", mine, "raw TCP 1", 0.9)
    for where in PLACES:
        out += compare(f"the same, {where}", f"charrow 1, {where}", f"raw TCP 1, {where}", 0.9)
    out += compare("charrow over Arrow C++ Flight, 1 stream", mine, "Arrow C++ Flight 1", 1.5)
    for name in ("charrow", "Flight"):
        for streams in (1, 2):
            what = f"{name}, {streams} by a Unix socket over TCP, bytes a CPU-second"
            ways = (f"{name}, {place} {streams}" for place in ("Unix socket", "TCP"))
            out += transports(what, *ways, per_cpu, 1.3)
    for streams in (1, 2):
        what = f"charrow, {streams} through shared memory, of memory copy by {streams}"
        ours, limit = f"charrow, shared memory {streams}", f"memory copy {streams}"
        out += transports(what, ours, limit, speed, 0.8)
    rates = [speed(trial) / SEED_RATE for trial in found.get(("rows", "charrow, encoders 1"), {}).values()]
    return out + goals.judge("one encoder over the published 120 MB/s", rates, 4)
