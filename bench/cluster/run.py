"""What it costs to measure through Ray: beside measuring in this process, and with up to 100 loaders.

Four parts, all on this machine: trials in this process and by one loader of `--on local`, in pairs; the time
until a run's first trial begins, with and without; runs of 10, 30 and 100 loaders whose streams are paced
and go nowhere, so that what is left is the driver's own; runs of up to 1,000 simulated loaders
(`simulated.py`), of which only the driver is real. See bench/README.md.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import accounting  # noqa: E402
import table  # noqa: E402

import shared  # noqa: E402 - of bench/
from venturi.cluster.ray.ray_executor import RayExecutor  # noqa: E402
from venturi.common.errors import VenturiError  # noqa: E402
from venturi.engine.executor import CoreExecutor, run_with_progress  # noqa: E402
from venturi.plan.settings import Hosts  # noqa: E402
from venturi.servers.reference import ReferenceServer  # noqa: E402

PARTS = ("pairs", "set-up", "loaders", "simulated")
RECORDS = {"source": "records", "columns": 4, "values": "random", "seed": 1}
MODULE = ("-m", "venturi")
WAYS = ("in this process", "by one loader")
PATIENCE_SECONDS = 500
# Of all loaders together: the machine has to have time left, as the driver's host has with real ones.
BATCHES_PER_SECOND = 1000


class Failed(Exception):
    """What the bench runs has not ended well."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "cluster", 20, "pairs of trials of 2 s")
    add = parser.add_argument
    add("--starts", type=int, default=5, help="pairs of starts (default 5)")
    add("--repeats", type=int, default=5, help="trials of 3 s with each number of loaders (default 5)")
    add("--loaders", default="10,30,100", help="how many (default 10,30,100)")
    add("--simulated", default="10,100,300,1000", help="how many simulated ones (default 10,100,300,1000)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    return parser.parse_args()


def pairs(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    """The same trial in this process and by a loader, right after one another."""
    executor = RayExecutor.connect("local", Hosts(), 1, note)
    try:
        with ReferenceServer(kind="flight") as server:
            ways = {WAYS[0]: (CoreExecutor(), {}), WAYS[1]: (executor, {"loaders": 1})}

            def trial(name: str) -> shared.Line:
                engine, more = ways[name]
                spec = {
                    "trial": f"bench-{time.monotonic_ns()}",
                    "target": f"flight://{server.address}",
                    "options": {},
                    "operation": "get",
                    "data": RECORDS,
                    "rows_per_batch": 32_768,
                    "duration_ns": 2_000_000_000,
                    "timeout_ns": 30_000_000_000,
                    "streams": 2,
                    "threads": 2,
                    **more,
                }
                record = run_with_progress(engine.run_trial, spec, engine.control())
                if record["outcome"] != "ok":
                    raise Failed(str(record["error"]))
                cpu = record["cpu"]["client"]
                return {
                    "bytes": record["counts"]["payload_bytes"],
                    "interval_ns": record["times"]["interval_ns"],
                    "cpu_ns": cpu["user_ns"] + cpu["system_ns"],
                }

            for name in WAYS:
                trial(name)
            shuffle = random.Random(options.seed).shuffle
            for number in range(options.rounds):
                order = list(WAYS)
                shuffle(order)
                for name in order:
                    line = {"kind": "pair", "round": number, "way": name}
                    keep(shared.attempted(line, functools.partial(trial, name), (Failed, VenturiError)))
    finally:
        executor.close()


def starts(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    """From the command to its first trial's start, and to its end."""
    words = {WAYS[0]: [], WAYS[1]: ["--on", "local", "--loaders", "1"]}

    def start(name: str) -> shared.Line:
        with tempfile.TemporaryDirectory() as folder:
            began = time.time_ns()
            given = ("--streams", "1", "--duration", "100ms", "--repeats", "1", "--warmup", "0")
            child = venturi(Path(folder) / "run", *given, *words[name])
            finish(child)
            ended = time.time_ns()
            (record,) = lines(Path(folder) / "run")
        begun = record["times"]["started_unix_ns"]
        return {"begun_s": (begun - began) / 1e9, "whole_s": (ended - began) / 1e9}

    shuffle = random.Random(options.seed).shuffle
    for number in range(options.starts):
        order = list(WAYS)
        shuffle(order)
        for name in order:
            line = {"kind": "start", "round": number, "way": name}
            keep(shared.attempted(line, functools.partial(start, name), (Failed,)))


def loaders(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    """Of as many streams, whatever the number of loaders."""
    counts = [int(one) for one in options.loaders.split(",")]
    each(options, keep, "real", {count: max(counts) for count in counts}, "3s")


def simulated(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    """Of a stream a loader."""
    counts = [int(one) for one in options.simulated.split(",")]
    each(options, keep, "simulated", {count: count for count in counts}, "2s")


def each(
    options: argparse.Namespace,
    keep: Callable[[shared.Line], None],
    kind: str,
    streams: dict[int, int],
    duration: str,
) -> None:
    """A run for each number of loaders: what comes between two trials is the end of one and the beginning of
    the next, which are to be alike."""
    for count, most in streams.items():
        given = ("--loaders", count, "--streams", most, "--duration", duration)
        line = {"kind": "run", "of": kind, "loaders": count}
        keep(shared.attempted(line, functools.partial(driven, options, keep, kind, given), (Failed,)))


def driven(
    options: argparse.Namespace,
    keep: Callable[[shared.Line], None],
    kind: str,
    given: tuple[object, ...],
) -> shared.Line:
    """A run; what a trial takes of the driver is from its start to the next one's, less itself."""
    program = (str(HERE / "simulated.py"),) if kind == "simulated" else MODULE
    with tempfile.TemporaryDirectory() as folder:
        began = time.time_ns()
        child = venturi(
            *(Path(folder) / "run", "--rate", BATCHES_PER_SECOND, "--on", "local"),
            *("--repeats", options.repeats, "--warmup", 1, *given),
            program=program,
        )
        used = accounting.Used(child.pid)
        peak = finish(child, used)
        ended = time.time_ns()
        found = lines(Path(folder) / "run")
    for record in found:
        if record["outcome"] != "ok":
            raise Failed(str(record["error"]))
    begun = [record["times"]["started_unix_ns"] for record in found]
    for record, start, after in zip(found, begun, begun[1:], strict=False):
        if not record["warmup"]:
            interval = record["times"]["interval_ns"]
            keep(
                {
                    "kind": "trial",
                    "of": kind,
                    "loaders": record["parameters"]["loaders"],
                    "beyond_s": (after - start - interval) / 1e9,
                    **used.between(start, after),
                    "skew_ms": record["times"]["start_skew_ns"] / 1e6,
                }
            )
    last = begun[-1] + found[-1]["times"]["interval_ns"]
    return {
        "peak_bytes": peak,
        "begun_s": (begun[0] - began) / 1e9,
        "end_s": (ended - last) / 1e9,
    }


def venturi(out: Path, *words: object, program: Sequence[str] = MODULE) -> subprocess.Popen[str]:
    always = ("--target", "empty://", "--operation", "get", "--no-ceilings", "--no-report", "--quiet")
    command = [sys.executable, *program, "run", *always, "--out", out, *words]
    return subprocess.Popen(
        [str(word) for word in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(child: subprocess.Popen[str], used: accounting.Used | None = None) -> int:
    """Waits for its end; its largest resident memory in bytes, without its children's."""
    peak, until = 0, time.monotonic() + PATIENCE_SECONDS
    try:
        while child.poll() is None:
            if time.monotonic() > until:
                raise Failed(f"not ended within {PATIENCE_SECONDS} s")
            peak = max(peak, largest(child.pid))
            if used is not None:
                used.look()
            time.sleep(0.1)
        if child.returncode != 0:
            assert child.stderr is not None
            raise Failed(f"exit code {child.returncode}: {child.stderr.read().strip()[-300:]}")
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait(60)
    return peak


def largest(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else 0


def lines(run: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (run / "trials.jsonl").read_text().splitlines()]


def note(level: str, text: str) -> None:
    print(f"{level}: {text}", file=sys.stderr)


def measure(options: argparse.Namespace, output: Path) -> None:
    import ray

    with open(output, "w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "ray": ray.__version__, "batches_per_second": BATCHES_PER_SECOND})
        for part, what in zip(PARTS, (pairs, starts, loaders, simulated), strict=True):
            if part in options.parts:
                what(options, keep)
                print(f"{part}: done", file=sys.stderr)


def main() -> int:
    return shared.run("cluster", arguments(), measure, table.told)


if __name__ == "__main__":
    sys.exit(main())
