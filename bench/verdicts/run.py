"""Whether verdicts are right: bottlenecks made to measure, each measured several times, and what is said.

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

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import pytest
import table
from cases import CASES, CPUS
from stand import Case, Stand, said

import shared
from support import path as path_support
from support.run import command, environment
from venturi.analysis.results import Results, load

Line = shared.Line
MINUTES = 3
"""Longer takes no run of a case; one that does has failed."""
BASE = ("--repeats", 3, "--warmup", 1, "--no-report", "--quiet")
DURATION = ("--duration", "700ms")


class Failed(Exception):
    """A case that could not be measured."""


@contextlib.contextmanager
def watched(line: Line) -> Iterator[None]:
    """Adds what else the machine did: CPU time that was no process's of ours, as a share of all CPUs."""
    idle, started = _idle(), time.monotonic()
    own = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) + time.process_time()
    try:
        yield
    finally:
        seconds = (time.monotonic() - started) * (os.cpu_count() or 1)
        used = seconds - (_idle() - idle)
        own = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]) + time.process_time() - own
        line["others"] = round(max(0.0, used - own) / seconds, 3)


def _idle() -> float:
    """Seconds that all CPUs together had nothing to do, a disk aside."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[4:6]
    return sum(map(int, words)) / os.sysconf("SC_CLK_TCK")


def measured(case: Case, out: Path) -> None:
    """One run of the case, kept in `out`."""
    with tempfile.TemporaryDirectory(prefix="verdicts-") as place, contextlib.ExitStack() as ends:
        # A server that gave up root's account has to get to its data.
        os.chmod(place, 0o755)
        trial = case.make(Stand(Path(place), ends))
        timed = () if {"--duration", "--rows-per-stream"} & set(trial.flags) else DURATION
        flags = [*BASE, *timed, *trial.flags, "--out", out]
        done = subprocess.run(
            [*trial.within, *command("run", *flags)],
            capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60 * MINUTES, check=False,
            env=environment(**trial.environment),
        )  # fmt: skip
    if done.returncode:
        raise Failed(done.stderr.strip() or f"exit code {done.returncode}")


def judged(case: Case, results: Results) -> Line:
    """What is said of the cell with most in flight: a sweep is there to tell of that."""
    cell = max(results.cells, key=lambda c: c.parameters.get("streams") or 1)
    found = said(results.verdicts[cell.name])
    return {**found, "judged": case.judged(found)}


def turn(case: Case, number: int, kept: Path) -> Line:
    line: Line = {"kind": "verdict", "case": case.name, "round": number, "load": os.getloadavg()[0]}
    out = kept / f"{case.name}-{number}"
    shutil.rmtree(out, ignore_errors=True)
    with shared.stolen(line), watched(line):
        try:
            measured(case, out)
            line |= {"verdict": judged(case, load(out))}
        except pytest.skip.Exception as why:
            line["missing"] = str(why)
        except Exception as error:
            # One case that fails is a line of the record, not its end.
            line["error"] = f"{type(error).__name__}: {error}"
    return line


def measure(options: argparse.Namespace, source: Path) -> None:
    cases = chosen(options.only)
    source.parent.mkdir(parents=True, exist_ok=True)
    have = {(one["case"], one["round"]) for one in lines(source) if one["kind"] == "verdict"}
    kept = source.with_suffix("")
    with source.open("a", encoding="utf-8") as file:
        keep = shared.keeper(file)
        if not have:
            keep({**shared.machine(), "cgroup": _cgroups(), "rounds": options.rounds})
        for number in range(options.rounds):
            order = list(cases)
            random.Random(f"{options.seed}/{number}").shuffle(order)
            for case in order:
                if (case.name, number) in have:
                    continue
                line = turn(case, number, kept)
                keep(line)
                print(told(line), file=sys.stderr, flush=True)


def told(line: Line) -> str:
    found = line.get("verdict")
    if found is None:
        what = f"missing: {line['missing']}" if "missing" in line else f"FAILED: {line['error']}"
        return f"{line['case']:28} {what}"
    what = f"{found['cause']} {found['end'] or ''} {found['stage'] or ''}".strip()
    return f"{line['case']:28} {found['judged']:8} {what} ({line['others']:.0%} others)"


def _cgroups() -> dict[str, str]:
    """Which version of control groups this machine has for what is throttled."""
    found = {name: path_support.controller(name) for name in ("cpu", "blkio", "io")}
    return {name: f"version {one[0]}" if one else "not available here" for name, one in found.items()}


def again(source: Path) -> None:
    """Judges the runs that were kept once more, and says so in each line."""
    by_name = {case.name: case for case in CASES}
    fresh = []
    for line in lines(source):
        out = source.with_suffix("") / f"{line.get('case')}-{line.get('round')}"
        if "verdict" in line and out.is_dir() and line["case"] in by_name:
            line["verdict"] = judged(by_name[line["case"]], load(out))
        if line["kind"] == "environment":
            line["judged_by"] = shared.machine()["commit"]
        fresh.append(line)
    source.write_text("".join(json.dumps(line) + "\n" for line in fresh), encoding="utf-8")


def lines(source: Path) -> list[Line]:
    if not source.exists():
        return []
    return [json.loads(text) for text in source.read_text(encoding="utf-8").splitlines()]


def chosen(only: list[str] | None) -> list[Case]:
    found = [c for c in CASES if not only or any(c.name.startswith(word) for word in only)]
    if not found:
        raise SystemExit(
            f"no case begins with {' or '.join(only or [])}; there are: {', '.join(c.name for c in CASES)}"
        )
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10, help="how often each case is run")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="cases whose names begin so")
    parser.add_argument("--seed", type=int, default=20261124, help="of the order within a round")
    parser.add_argument("--output", type=Path, help="the lines; what is there already is not measured again")
    parser.add_argument(
        "--from", dest="source", type=Path, help="the lines of an earlier run: its table again"
    )
    parser.add_argument("--again", action="store_true", help="with --from: judge its runs by the code of now")
    parser.add_argument("--record", action="store_true", help="keep the table in bench/verdicts/results/")
    parser.add_argument("--list", action="store_true", help="the cases, and nothing is measured")
    options = parser.parse_args()
    if options.list:
        for case in chosen(options.only):
            print(f"{case.name:28} {case.truth}: {case.how}")
        return 0
    if options.again:
        if options.source is None:
            parser.error("--again wants --from FILE")
        again(options.source)
    return shared.run("verdicts", options, measure, lambda source: table.table(lines(source), CASES))


assert CPUS

if __name__ == "__main__":
    sys.exit(main())
