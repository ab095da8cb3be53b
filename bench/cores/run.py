"""What many cores would do, from what one and two do: costs by stage, parts that cores share, and a model.

First each part of the hot path by itself, by one thread and by two at the same time
(`crates/engine/examples/contended.rs`). Then, interleaved: gets by Arrow Flight from a server of ours, client
and server together on one CPU and on two, over 1 to 8 streams; the same against `empty://`, where nothing is
moved. `model.py` predicts two CPUs from one, which is checked, and 8 to 128, which is not.
See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(1, str(HERE.parent))

import table  # noqa: E402

import core_trials  # noqa: E402 - of bench/
import shared  # noqa: E402
from venturi.common.errors import VenturiError  # noqa: E402
from venturi.servers.reference import ReferenceServer  # noqa: E402

ROWS = (4096, 32_768)
TRIAL_NS = 400_000_000
FAILURES = (core_trials.TrialFailed, VenturiError, OSError)


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "cores", 12)
    add = parser.add_argument
    add("--streams", type=int, nargs="+", default=[2, 4, 8], help="of a get, beside 1 (default 2 4 8)")
    add("--rows", type=int, nargs="+", default=list(ROWS), help="rows per batch (default 4096 32768)")
    add("--turns", type=int, default=60, help="of each part of the hot path, 2 ms each (default 60)")
    add("--probe", type=Path, help="the program of contended.rs, where it is built already")
    add("--seed", type=int, default=1, help="of the shuffle")
    return parser.parse_args()


@contextlib.contextmanager
def on(cpus: list[int], server: int) -> Iterator[None]:
    """This thread, those that it starts, and a server's, on these CPUs and no others."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
        bind(server, cpus)
        yield
    finally:
        os.sched_setaffinity(0, before)
        bind(server, list(before))


def bind(process: int, cpus: list[int]) -> None:
    """All threads of a process; those that it starts follow."""
    for thread in os.listdir(f"/proc/{process}/task"):
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)


def get(url: str, server: int, cpus: list[int], streams: int, rows: int) -> shared.Line:
    with on(cpus, server):
        record = core_trials.trial(
            target=url,
            rows_per_batch=rows,
            duration_ns=TRIAL_NS,
            streams=streams,
            threads=min(streams, len(cpus)),
        )
    counts = record["counts"]
    cpu = {end: used["user_ns"] + used["system_ns"] for end, used in record["cpu"].items() if used}
    return {
        "bytes": counts["payload_bytes"],
        "batches": counts["batches"],
        "interval_ns": record["times"]["interval_ns"],
        "cpu_ns": cpu,
        "stages": record["stages"],
    }


def rounds(options: argparse.Namespace, keep: Callable[[shared.Line], None], most: list[int]) -> None:
    """Every cell once a round, in drawn order."""
    shuffle = random.Random(options.seed).shuffle
    with ReferenceServer(kind="flight") as server:
        assert server.pid is not None
        cells = []
        for cpus in ([most[0]], most[:2]):
            for streams in (1, *options.streams):
                where = {"cpus": len(cpus), "streams": streams}
                ways = (server.url, server.pid, cpus, streams)
                nothing = ("empty://", server.pid, cpus, streams, options.rows[0])
                cells.append(({"kind": "empty", **where}, functools.partial(get, *nothing)))
                for rows in options.rows:
                    line = {"kind": "get", "rows": rows, **where}
                    cells.append((line, functools.partial(get, *ways, rows)))
        for number in range(-1, options.rounds):
            shuffle(cells)
            for line, measure in cells:
                found = shared.attempted({**line, "round": number}, measure, FAILURES)
                if number >= 0:  # the first round warms up
                    keep(found)
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)


def built() -> Path:
    """The program that uses parts of the hot path by themselves."""
    command = ["cargo", "build", "--release", "--locked", "-q", "--workspace", "--example", "contended"]
    subprocess.run(command, cwd=shared.ROOT, check=True)
    return shared.target_directory() / "release" / "examples" / "contended"


def parts(probe: Path, turns: int, keep: Callable[[shared.Line], None]) -> None:
    """Of the hot path: by one thread, and by two."""
    answer = subprocess.run([probe, str(turns), "1", "2"], capture_output=True, text=True, check=True)
    for text in answer.stdout.splitlines():
        keep(json.loads(text))


def events() -> str:
    """Whether the processor tells of lines that caches hand over, which would be counted besides."""
    command = ["perf", "c2c", "record", "-o", "/dev/null", "--", "true"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf c2c does not run here: {error}"
    if answer.returncode == 0:
        return ""
    said = [line for line in answer.stderr.splitlines() if line.strip()]
    return f"perf c2c: {said[-1].strip() if said else f'exit code {answer.returncode}'}"


def siblings(one: int, other: int) -> bool:
    """Whether two CPUs are threads of one core, which then is all that they share."""
    try:
        place = Path(f"/sys/devices/system/cpu/cpu{one}/topology/thread_siblings_list")
        spans = [span.partition("-") for span in place.read_text().strip().split(",")]
    except OSError:
        return False
    return any(int(first) <= other <= int(last or first) for first, _, last in spans)


def measure(options: argparse.Namespace, output: Path) -> None:
    most = sorted(os.sched_getaffinity(0))
    if len(most) < 2:
        raise SystemExit("bench/cores: two CPUs are wanted, and this process may use one")
    probe = options.probe or built()
    with open(output, "w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "no_events": events(), "siblings": siblings(most[0], most[1])})
        parts(probe, options.turns, keep)
        rounds(options, keep, most)


def main() -> int:
    return shared.run("cores", arguments(), measure, table.told)


if __name__ == "__main__":
    sys.exit(main())
