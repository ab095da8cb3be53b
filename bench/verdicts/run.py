"""Whether verdicts are right: bottlenecks made on purpose, each measured several times, and what is reported.

Every run of a case is kept beside the lines, so that later code can judge the same evidence (`--again`). See
bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import shared
from bench.verdicts.bottleneck import controller
from bench.verdicts.cases import CASES
from bench.verdicts.page import page
from bench.verdicts.stand import Case, Stand, summary
from support.run import command, environment
from venturi.analysis.results import Results, load

Line = shared.Line
SECONDS = 180
"""No run of a case takes longer; one that does has failed."""
BASE = ("--repeats", 3, "--warmup", 1, "--no-report", "--quiet")
DURATION = ("--duration", "700ms")


class Failed(Exception):
    """A case that could not be measured."""


@contextlib.contextmanager
def watched(line: Line) -> Iterator[None]:
    """Adds what else the machine did: CPU time of other processes, as a share of all CPUs."""

    def now() -> tuple[float, float, float]:
        idle = sum(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[4:6]))
        own = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) + time.process_time()
        return time.monotonic() * (os.cpu_count() or 1), idle / os.sysconf("SC_CLK_TCK"), own

    before = now()
    try:
        yield
    finally:
        whole, idle, own = (after - earlier for after, earlier in zip(now(), before, strict=True))
        line["others"] = round(max(0.0, whole - idle - own) / whole, 3)


def measured(case: Case, out: Path) -> None:
    """One run of the case, kept in `out`."""
    with tempfile.TemporaryDirectory(prefix="verdicts-") as place, contextlib.ExitStack() as ends:
        # A server that gave up root's account must reach its data.
        os.chmod(place, 0o755)
        trial = case.make(Stand(Path(place), ends))
        timed = () if {"--duration", "--rows-per-stream"} & set(trial.flags) else DURATION
        done = subprocess.run(
            [*trial.within, *command("run", *BASE, *timed, *trial.flags, "--out", out)],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
            env=environment(**trial.environment),
        )  # fmt: skip
    if done.returncode:
        raise Failed(done.stderr.strip() or f"exit code {done.returncode}")


def judged(case: Case, results: Results) -> Line:
    """The verdict on the cell with most streams: a sweep is there to decide that one."""
    cell = max(results.cells, key=lambda c: c.parameters.get("streams") or 1)
    found = summary(results.verdicts[cell.name])
    return {**found, "judged": case.judged(found)}


def turn(case: Case, number: int, kept: Path) -> Line:
    line: Line = {"kind": "verdict", "case": case.name, "round": number, "load": os.getloadavg()[0]}
    out = kept / f"{case.name}-{number}"
    shutil.rmtree(out, ignore_errors=True)
    with shared.stolen(line), watched(line):
        try:
            measured(case, out)
            line["verdict"] = judged(case, load(out))
        except pytest.skip.Exception as why:
            line["missing"] = str(why)
        except Exception as error:
            # One case that fails is a line of the record, not its end.
            line["error"] = f"{type(error).__name__}: {error}"
    return line


def measure(options: argparse.Namespace, source: Path) -> None:
    """What the file has already is not measured again."""
    done = {(one["case"], one["round"]) for one in shared.lines(source) if one["kind"] == "verdict"}
    with source.open("a", encoding="utf-8") as file:
        keep = shared.keeper(file)
        if not done:
            controllers = {name: controller(name) for name in ("cpu", "blkio", "io")}
            found = {name: f"version {one[0]}" if one else "missing" for name, one in controllers.items()}
            keep({**shared.machine(), "cgroup": found, "rounds": options.rounds})
        for number in range(options.rounds):
            order = chosen(options.only)
            random.Random(f"{options.seed}/{number}").shuffle(order)
            for case in order:
                if (case.name, number) not in done:
                    line = turn(case, number, source.with_suffix(""))
                    keep(line)
                    print(text(line), file=sys.stderr, flush=True)


def text(line: Line) -> str:
    found = line.get("verdict")
    if found is None:
        what = f"missing: {line['missing']}" if "missing" in line else f"FAILED: {line['error']}"
        return f"{line['case']:28} {what}"
    what = " ".join(filter(None, (found["cause"], found["end"], found["stage"])))
    return f"{line['case']:28} {found['judged']:8} {what} ({line['others']:.0%} others)"


def again(source: Path) -> None:
    """Judges the runs that were kept once more, by today's code."""
    by_name = {case.name: case for case in CASES}
    fresh = []
    for line in shared.lines(source):
        out = source.with_suffix("") / f"{line.get('case')}-{line.get('round')}"
        if "verdict" in line and out.is_dir() and line["case"] in by_name:
            line["verdict"] = judged(by_name[line["case"]], load(out))
        if line["kind"] == "environment":
            line["judged_by"] = shared.machine()["commit"]
        fresh.append(line)
    source.write_text("".join(json.dumps(line) + "\n" for line in fresh), encoding="utf-8")


def chosen(only: list[str] | None) -> list[Case]:
    found = [case for case in CASES if not only or case.name.startswith(tuple(only))]
    if not found:
        raise SystemExit(f"no case begins with {' or '.join(only or [])}; --list names them")
    return found


def main() -> int:
    parser = shared.arguments(__doc__, "verdicts", 10, "of every case once")
    add = parser.add_argument
    add("--only", nargs="+", metavar="NAME", help="cases whose names begin with one of these")
    add("--seed", type=int, default=20261124, help="of the order within a round")
    add("--again", action="store_true", help="with --from: judge its runs by today's code")
    add("--list", action="store_true", help="the cases; nothing is measured")
    options = parser.parse_args()
    if options.list:
        for case in chosen(options.only):
            print(f"{case.name:28} {case.truth}: {case.how}")
        return 0
    if options.again:
        if options.source is None:
            parser.error("--again needs --from FILE")
        again(options.source)
    return shared.run("verdicts", options, measure, lambda source: page(shared.lines(source), CASES))


if __name__ == "__main__":
    sys.exit(main())
