"""What it costs to measure through Ray: beside measuring in this process, and with up to 100 loaders.

Three parts, all on this machine: trials in this process and by one loader of `--on local`, in pairs; the time
until a run's first trial begins, with and without; runs of 10, 30 and 100 loaders whose streams are paced and
go nowhere, so that what is left is the driver's work. See bench/README.md.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import goals, shared
from bench.page import Page
from bench.trial import RECORDS
from venturi.cluster.ray_executor import RayExecutor
from venturi.common.errors import VenturiError
from venturi.engine.executor import CoreExecutor, run_with_progress
from venturi.plan.settings import Hosts
from venturi.servers.reference import ReferenceServer

PARTS = ("pairs", "set-up", "loaders")
WAYS = ("in this process", "by one loader")
PATIENCE_SECONDS = 500
# Of all loaders together: the machine must have time left, as the driver's host has with real hosts.
BATCHES_PER_SECOND = 1000
_RATIO, _SET_UP_SECONDS, _BEYOND_SECONDS, _MEGABYTES = 0.99, 5.0, 1.0, 500.0
Keep = Callable[[shared.Line], None]


class Failed(Exception):
    """A command of the bench did not end well."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "cluster", 20, "pairs of trials of 2 s")
    add = parser.add_argument
    add("--starts", type=int, default=5, help="pairs of starts (default 5)")
    add("--repeats", type=int, default=5, help="trials of 3 s with each number of loaders (default 5)")
    add("--loaders", default="10,30,100", help="how many (default 10,30,100)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    return parser.parse_args()


def _alternate(rounds: int, kind: str, keep: Keep, once: Callable[[str], shared.Line], seed: int) -> None:
    """Both ways in each round, right after one another, in shuffled order."""
    draw = random.Random(seed)
    for number in range(rounds):
        for way in draw.sample(WAYS, len(WAYS)):
            line = {"kind": kind, "round": number, "way": way}
            keep(shared.attempted(line, functools.partial(once, way), (Failed, VenturiError)))


def pairs(options: argparse.Namespace, keep: Keep) -> None:
    """The same trial in this process and by a loader."""
    executor = RayExecutor.connect("local", Hosts(), 1, lambda level, text: print(text, file=sys.stderr))
    try:
        with ReferenceServer(kind="flight") as server:
            ways: dict[str, tuple[Any, dict[str, int]]] = {
                WAYS[0]: (CoreExecutor(), {}),
                WAYS[1]: (executor, {"loaders": 1}),
            }

            def trial(way: str) -> shared.Line:
                engine, more = ways[way]
                spec = {
                    "trial": f"bench-{time.monotonic_ns()}", "target": f"flight://{server.address}",
                    "options": {}, "operation": "get", "data": RECORDS, "rows_per_batch": 32_768,
                    "duration_ns": 2_000_000_000, "timeout_ns": 30_000_000_000, "streams": 2, "threads": 2,
                    **more,
                }  # fmt: skip
                record = run_with_progress(engine.run_trial, spec, engine.control())
                if record["outcome"] != "ok":
                    raise Failed(str(record["error"]))
                cpu = record["cpu"]["client"]
                return {
                    "bytes": record["counts"]["payload_bytes"],
                    "interval_ns": record["times"]["interval_ns"],
                    "cpu_ns": cpu["user_ns"] + cpu["system_ns"],
                }

            for way in WAYS:  # one warm-up of each, not kept
                trial(way)
            _alternate(options.rounds, "pair", keep, trial, options.seed)
    finally:
        executor.close()


def starts(options: argparse.Namespace, keep: Keep) -> None:
    """From the command to its first trial's start, and to its end."""
    words = {WAYS[0]: [], WAYS[1]: ["--on", "local", "--loaders", "1"]}

    def start(way: str) -> shared.Line:
        with tempfile.TemporaryDirectory() as folder:
            began = time.time_ns()
            flags = ("--streams", 1, "--duration", "100ms", "--repeats", 1, "--warmup", 0)
            venturi(Path(folder) / "run", *flags, *words[way])
            ended = time.time_ns()
            (record,) = trials_of(Path(folder) / "run")
        begun = record["times"]["started_unix_ns"]
        return {"begun_s": (begun - began) / 1e9, "whole_s": (ended - began) / 1e9}

    _alternate(options.starts, "start", keep, start, options.seed)


def loaders(options: argparse.Namespace, keep: Keep) -> None:
    """A run for each number of loaders, all with the same number of streams."""
    counts = [int(one) for one in options.loaders.split(",")]
    for count in counts:
        line = {"kind": "run", "loaders": count}
        driven = functools.partial(_driven, options, keep, count, max(counts))
        keep(shared.attempted(line, driven, (Failed,)))


def _driven(options: argparse.Namespace, keep: Keep, count: int, streams: int) -> shared.Line:
    """What a trial takes of the driver: from its start to the next one's, less its interval."""
    looks: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.time_ns()
        flags = ("--loaders", count, "--streams", streams, "--duration", "3s", "--rate", BATCHES_PER_SECOND)
        more = ("--on", "local", "--repeats", options.repeats, "--warmup", 1)
        peak = venturi(Path(folder) / "run", *flags, *more, looks=looks)
        ended = time.time_ns()
        found = list(trials_of(Path(folder) / "run"))
    for record in found:
        if record["outcome"] != "ok":
            raise Failed(str(record["error"]))
    times, used = zip(*looks, strict=True)
    begun = [record["times"]["started_unix_ns"] for record in found]
    for record, start, after in zip(found, begun, begun[1:], strict=False):
        if not record["warmup"]:
            low, high = np.interp([start, after], times, used)
            line = {"kind": "trial", "loaders": count, "driver_cpu_s": float(high - low)}
            line["beyond_s"] = (after - start - record["times"]["interval_ns"]) / 1e9
            keep({**line, "skew_ms": record["times"]["start_skew_ns"] / 1e6})
    last = begun[-1] + found[-1]["times"]["interval_ns"]
    return {"peak_bytes": peak, "begun_s": (begun[0] - began) / 1e9, "end_s": (ended - last) / 1e9}


def venturi(out: Path, *words: object, looks: list[tuple[int, float]] | None = None) -> int:
    """Runs a command to its end; returns its largest resident memory, without its children's. `looks` gets
    its CPU seconds over time."""
    always = ("--target", "empty://", "--operation", "get", "--no-ceilings", "--no-report", "--quiet")
    command = [sys.executable, "-m", "venturi", "run", *always, "--out", out, *words]
    peak, until = 0, time.monotonic() + PATIENCE_SECONDS
    with subprocess.Popen(
        list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            while child.poll() is None:
                if time.monotonic() > until:
                    raise Failed(f"not ended within {PATIENCE_SECONDS} s")
                peak = max(peak, _largest(child.pid))
                if looks is not None:
                    looks.append((time.time_ns(), shared.cpu_seconds(child.pid)))
                time.sleep(0.1)
        finally:
            child.terminate()
        assert child.stderr is not None
        if child.wait() != 0:
            raise Failed(f"exit code {child.returncode}: {child.stderr.read().strip()[-300:]}")
    return peak


def _largest(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else 0


def trials_of(run: Path) -> Iterator[dict[str, Any]]:
    yield from map(json.loads, (run / "trials.jsonl").read_text().splitlines())


def measure(options: argparse.Namespace, output: Path) -> None:
    import ray

    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "ray": ray.__version__, "rounds": options.rounds})
        for part, what in zip(PARTS, (pairs, starts, loaders), strict=True):
            if part in options.parts:
                what(options, keep)
                print(f"{part}: done", file=sys.stderr)


# ---- the page


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    good = [line for line in lines if "error" not in line]
    body: list[str] = []
    judged: list[goals.Judged] = []
    for part in (_pairs, _starts, _loaders):
        text, more = part(good)
        body, judged = body + text, judged + more
    return Page(
        "Through Ray on this machine",
        "what a loader of Ray costs beside a trial in this process, and what many of them cost the driver.",
        head,
        lines,
        body,
        judged,
        "",
        f"{head['rounds']} pairs; Ray {head['ray']}",
        shared.failures(lines, "kind", "way", "loaders"),
    )


Part = tuple[list[str], list[goals.Judged]]


def _both(lines: list[shared.Line], kind: str) -> list[dict[int, shared.Line]]:
    """By round, of each way; only rounds that both have."""
    found = shared.by_round([line for line in lines if line["kind"] == kind], "way")
    here, there = (found.get(way, {}) for way in WAYS)
    return [{n: one[n] for n in sorted(here.keys() & there.keys())} for one in (here, there)]


def _pairs(lines: list[shared.Line]) -> Part:
    here, there = _both(lines, "pair")
    if not here:
        return [], []

    def rate(line: shared.Line) -> float:
        return float(line["bytes"] / line["interval_ns"] * 1e3)

    judged = goals.judge("throughput through Ray over without", shared.ratios(there, here, rate), _RATIO)
    rows = [
        f"| {way} | {shared.spread([rate(line) for line in rounds.values()], 0)} | "
        f"{shared.spread([line['cpu_ns'] / line['bytes'] for line in rounds.values()], 3)} |"
        for way, rounds in zip(WAYS, (here, there), strict=True)
    ]
    return [
        "## A get of two streams",
        "",
        "| | MB/s | client's CPU, s/GB |",
        "|---|---|---|",
        *rows,
        "",
    ], judged


def _starts(lines: list[shared.Line]) -> Part:
    here, there = _both(lines, "start")
    if not here:
        return [], []
    more = [there[n]["begun_s"] - here[n]["begun_s"] for n in here]
    judged = goals.judge("set-up of a run, more than without", more, _SET_UP_SECONDS, most=True, unit="s")
    rows = [
        f"| {way} | {shared.spread([line['begun_s'] for line in rounds.values()])} | "
        f"{shared.spread([line['whole_s'] for line in rounds.values()])} |"
        for way, rounds in zip(WAYS, (here, there), strict=True)
    ]
    return [
        "## A run of one trial of 0.1 s",
        "",
        "| | s to its start | s in all |",
        "|---|---|---|",
        *rows,
        "",
    ], judged


def _loaders(lines: list[shared.Line]) -> Part:
    runs = {line["loaders"]: line for line in lines if line["kind"] == "run"}
    if not runs:
        return [], []
    rows = []
    names = ("beyond_s", "driver_cpu_s", "skew_ms")
    found = {
        count: {name: [line[name] for line in lines if line["kind"] == "trial" and line["loaders"] == count]
                for name in names}
        for count in runs
    }  # fmt: skip
    for count, run in runs.items():
        cells = [shared.spread(found[count][name]) for name in names]
        cells += [f"{run['begun_s']:.1f}", f"{run['end_s']:.1f}", f"{run['peak_bytes'] / 1e6:.0f}"]
        rows.append(f"| {count} | {' | '.join(cells)} |")
    most = max(runs)
    judged = [
        *goals.judge(f"driver's CPU time per trial, {most} loaders", found[most]["driver_cpu_s"],
                     _BEYOND_SECONDS, most=True, unit="s"),
        *goals.judge(f"from a trial's end to the next one's start, {most} loaders", found[most]["beyond_s"],
                     _BEYOND_SECONDS, most=True, unit="s"),
        goals.exact("driver's largest memory", max(run["peak_bytes"] for run in runs.values()) / 1e6,
                    _MEGABYTES, most=True, unit="MB"),
    ]  # fmt: skip
    return [
        f"## Up to {most} loaders, {BATCHES_PER_SECOND} batches/s together",
        "",
        "| loaders | from a trial's end to the next one's start, s | driver's CPU time per trial, s "
        "| skew of starts, ms | until the first trial, s | to the end, s | driver's memory, MB |",
        "|---|---|---|---|---|---|---|",
        *rows,
    ], judged


if __name__ == "__main__":
    sys.exit(shared.run("cluster", arguments(), measure, page))
