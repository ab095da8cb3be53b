"""What a user waits for: `venturi show` and `venturi report` of a large run, its page, and a tiny run.

    make bench-scale                              # measured and printed
    make bench-scale BENCH=--record               # and kept as bench/scale/results/DATE.md
    python bench/scale/measure.py RUN             # a run that is there already

Without RUN one of 10,000 trials is made by make_run.py, and removed afterwards. Each command is a process of
its own, as a user starts it, ROUNDS times, in turn.

The page is scrolled from its top to its end in Chromium, 60 pixels a frame (four screens a second), and so is
its longest table. A frame is due every 16.7 ms. Chromium without a window and without a graphics card paints
on the same cores as all else on the machine, so frames come late there for other reasons too: beside their
times stands the CPU time that the page's own thread took for one, which other processes do not lengthen.

The limits are those of the product: 4 s to show, 8 s to report, 1 GB, 15 MB of HTML, 1 s until something of
it is seen; smooth is a median frame in time, 95 % within 50 ms, and under 16.7 ms of the thread's CPU time a
frame on the average. A run of one tiny trial takes 1 s, and a trial more 30 ms beside its interval
(trials.py).

On a machine busier than its cores (load average before) seconds and late frames are the others' as well. CPU
seconds are set there against the limits of show and report, which are one thread each; late frames and the
waits of a run, in which two processes take turns, are only told. The exit status is 1 where a limit is not
kept. Without Chromium the page is not opened, and the record says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import make_run
from commands import Taken, venturi
from page import NO, Opened, opened
from trials import TARGETS, Spread, Waits, waits

HERE = Path(__file__).resolve().parent
SHOW_SECONDS, REPORT_SECONDS, MEMORY_BYTES, PAGE_BYTES = 4.0, 8.0, 1e9, 15e6
PAINT_SECONDS, RUN_SECONDS, TRIAL_SECONDS = 1.0, 1.0, 0.03


@dataclass(frozen=True)
class Command:
    """What a command took, in each round."""

    name: str
    limit: float
    taken: list[Taken]

    @property
    def wall(self) -> Spread:
        return Spread([one.seconds for one in self.taken])

    @property
    def cpu(self) -> Spread:
        return Spread([one.cpu_seconds for one in self.taken])

    @property
    def peak(self) -> float:
        return max(one.peak_bytes for one in self.taken)

    def kept(self, busy: bool) -> str:
        if self.peak >= MEMORY_BYTES or self.cpu.median >= self.limit:
            return NO
        return "yes" if self.wall.median < self.limit else "in CPU seconds" if busy else NO


def within(found: Spread, limit: float, busy: bool) -> str:
    """Of what a busy machine only tells."""
    return "yes" if found.median < limit else "busy" if busy else NO


@dataclass(frozen=True)
class Measured:
    commands: list[Command]
    page: Path
    opened: Opened | None
    waits: Waits
    loads: tuple[float, float]

    @property
    def busy(self) -> bool:
        return self.loads[0] > (os.cpu_count() or 1)

    @property
    def judged(self) -> list[str]:
        found = [c.kept(self.busy) for c in self.commands]
        found.append("yes" if self.page.stat().st_size < PAGE_BYTES else NO)
        found.append(within(self.waits.run, RUN_SECONDS, self.busy))
        found.append(within(self.waits.trial[TARGETS[0]], TRIAL_SECONDS, self.busy))
        if self.opened is not None:
            found += [one.kept(self.busy) for one in self.opened.scrolled]
            found.append(within(Spread([self.opened.first_paint]), PAINT_SECONDS, self.busy))
        return found


def text(run: Path, found: Measured) -> str:
    trials = sum(1 for _ in (run / "trials.jsonl").open("rb"))
    files = sum(1 for _ in (run / "samples").iterdir()) if (run / "samples").is_dir() else 0
    size = (run / "trials.jsonl").stat().st_size / 1e6
    busy, loads, rounds = found.busy, found.loads, len(found.waits.run.each)
    lines = [
        f"# What a user waits for, {datetime.now(timezone.utc).strftime('%Y-%m-%d %H:%M')} UTC",
        "",
        f"{trials:,} trials (trials.jsonl: {size:.0f} MB) and {files:,} files of samples; "
        f"{os.cpu_count()} CPUs ({platform.machine()}), Python {platform.python_version()}. "
        f"Load average {loads[0]:.1f} before, {loads[1]:.1f} after"
        + (": others at work lengthened seconds and frames, so CPU seconds count." if busy else "."),
        f"Medians of {rounds} rounds, with the least and the most.",
        "",
        "| command | seconds | limit | CPU seconds | peak memory | limit | kept |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| `venturi {c.name}` | {c.wall.text()} | {c.limit:.0f} | {c.cpu.text()} | "
        f"{c.peak / 1e6:.0f} MB | {MEMORY_BYTES / 1e6:.0f} MB | {c.kept(busy)} |"
        for c in found.commands
    ]
    w = found.waits
    lines += [
        "",
        "| of a run | by the clock | limit | CPU time | kept |",
        "| --- | ---: | ---: | ---: | --- |",
        f"| one tiny trial, from the command to its end | {w.run.text()} s | {RUN_SECONDS:.0f} s | "
        f"{w.run_cpu.text()} s | {within(w.run, RUN_SECONDS, busy)} |",
    ]
    for target in TARGETS:
        judged = target == TARGETS[0]
        limit = f"{1e3 * TRIAL_SECONDS:.0f} ms" if judged else ""
        kept = within(w.trial[target], TRIAL_SECONDS, busy) if judged else ""
        lines.append(
            f"| a trial more, `{target}`, without its interval | {w.trial[target].text(1e3)} ms | {limit} | "
            f"{w.trial_cpu[target].text(1e3)} ms | {kept} |"
        )
    size = found.page.stat().st_size
    small = "yes" if size < PAGE_BYTES else NO
    lines += ["", f"The page: {size / 1e6:.1f} MB (limit {PAGE_BYTES / 1e6:.0f} MB, {small})."]
    if (page := found.opened) is None:
        return "\n".join([*lines, "No Chromium here: the page was not opened.", ""])
    soon = within(Spread([page.first_paint]), PAINT_SECONDS, busy)
    lines += [
        f"First paint after {page.first_paint:.2f} s (limit {PAINT_SECONDS:.0f} s, {soon}), scripts run "
        f"after {page.unpacked:.1f} s, in {page.browser} without a window; {page.elements:,} elements after "
        "scrolling.",
        "",
        "| scrolled | frames | median, ms | 95 %, ms | 99 %, ms | longest, ms | CPU a frame, ms | smooth |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {s.name} | {len(s.frames)} | {statistics.median(s.frames):.1f} | {s.at(0.95):.1f} | "
        f"{s.at(0.99):.1f} | {max(s.frames):.0f} | {s.cpu_ms:.1f} | {s.kept(busy)} |"
        for s in page.scrolled
    ]
    return "\n".join([*lines, ""])


def measure(run: Path, work: Path, rounds: int) -> Measured:
    before = os.getloadavg()[0]
    page = work / "report.html"
    shown, reported = [], []
    for _ in range(rounds):
        shown.append(venturi(["show", str(run)]))
        reported.append(venturi(["report", str(run), "-o", str(page)]))
    commands = [Command("show", SHOW_SECONDS, shown), Command("report", REPORT_SECONDS, reported)]
    waited = waits(work, rounds)
    return Measured(commands, page, opened(page, work), waited, (before, os.getloadavg()[0]))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--rounds", type=int, default=5, help="of every command (default 5)")
    parser.add_argument(
        "--record", action="store_true", help="keep the table as bench/scale/results/<date>.md"
    )
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="venturi-scale-"))
    try:
        run = given.run or make_run.write(work / "run")
        found = measure(run, work, given.rounds)
        told = text(run, found)
        print(told)
        if given.record:
            out = HERE / "results" / f"{datetime.now(timezone.utc).strftime('%Y-%m-%d-%H%M')}.md"
            out.parent.mkdir(exist_ok=True)
            out.write_text(told, encoding="utf-8")
            print(out)
        return 1 if NO in found.judged else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
