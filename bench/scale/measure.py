"""Time and memory of `venturi show` and `venturi report` on a large run, and how its page scrolls.

    make bench-scale                              # measured and printed
    make bench-scale BENCH=--record               # and kept as bench/scale/results/DATE.md
    python bench/scale/measure.py RUN             # a run that is there already

Without RUN one of 10,000 trials is made by make_run.py, and removed afterwards. Each command is a process of
its own, as a user starts it; its memory is the largest sum over it and all that it started, looked at every
20 ms, or what the kernel counted for the largest of them if that is more.

The page is scrolled from its top to its end in Chromium, 60 pixels a frame (four screens a second), and so is
its longest table. A frame is due every 16.7 ms. Chromium without a window and without a graphics card paints
on the same cores as all else on the machine, so frames come late there for other reasons too: beside their
times stands the CPU time that the page's own thread took for one, which other processes do not lengthen.

The limits are those of the product: 10 s to show, 30 s to report, 1 GB, 15 MB of HTML; smooth is a median
frame in time, 95 % within 50 ms, and under 16.7 ms of the thread's CPU time a frame on the average. On a
machine busier than its cores (load average before) seconds and late frames are the others' as well: there CPU
seconds are set against the limits, both commands being one thread, and late frames are only told. The exit
status is 1 where a limit is not kept. Without Chromium the page is not scrolled, and the record says so.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent.parent / "tests"

SHOW_SECONDS, REPORT_SECONDS, MEMORY_BYTES, PAGE_BYTES = 10.0, 30.0, 1e9, 15e6
FRAME_MS, LATE_MS = 1000 / 60, 50.0
STEP = 60
LIMIT_SECONDS = 600.0
"""A command that takes longer is ended."""
NO = "**no**"
SCROLL = """new Promise((done) => {{
  const box = {box};
  const frames = [];
  let last = 0, top = 0;
  const step = (now) => {{
    if (last) frames.push(now - last);
    last = now;
    top += {step};
    box.scrollTo(0, top);
    if (top < box.scrollHeight - box.clientHeight && frames.length < 3000) requestAnimationFrame(step);
    else done(frames);
  }};
  requestAnimationFrame(step);
}})"""


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_bytes: float
    limit: float

    def kept(self, busy: bool) -> str:
        if self.peak_bytes >= MEMORY_BYTES or self.cpu_seconds >= self.limit:
            return NO
        return "yes" if self.seconds < self.limit else "in CPU seconds" if busy else NO


def cost(words: list[str], limit: float) -> Cost:
    """Runs `venturi WORDS` to its end. Raises RuntimeError where it fails or does not end."""
    line = [sys.executable, "-m", "venturi", *words]
    began = time.monotonic()
    peak = 0
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as child:
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            if pid:
                break
            peak = max(peak, _resident(child.pid))
            if time.monotonic() - began > LIMIT_SECONDS:
                child.kill()
                raise RuntimeError(f"venturi {' '.join(words)} did not end within {LIMIT_SECONDS:.0f} s")
            time.sleep(0.02)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - began
    if child.returncode != 0:
        raise RuntimeError(f"venturi {' '.join(words)} ended with status {child.returncode}")
    largest = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return Cost(words[0], seconds, used.ru_utime + used.ru_stime, max(peak, largest), limit)


def _resident(pid: int) -> int:
    """Resident bytes of a process and all that it started; 0 where there is no /proc to ask."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_resident(int(child)) for child in children)


@dataclass(frozen=True)
class Scroll:
    """How one thing scrolled: times between frames (ms), and the thread's CPU time a frame (ms)."""

    name: str
    frames: list[float]
    cpu_ms: float

    def at(self, share: float) -> float:
        ranked = sorted(self.frames)
        return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

    def kept(self, busy: bool) -> str:
        # A frame is measured in steps of the display's clock, a little to either side.
        if statistics.median(self.frames) > 1.5 * FRAME_MS or self.cpu_ms > FRAME_MS:
            return NO
        return "yes" if self.at(0.95) <= LATE_MS + 1 else "in CPU time" if busy else NO


def scroll(page: Path, work: Path) -> tuple[float, list[Scroll], int, str] | None:
    """Seconds to open the page, how it scrolls, its elements, and the browser; None without a browser."""
    sys.path.insert(0, str(TESTS))
    from browser import CHROMIUM, Browser

    if CHROMIUM is None:
        return None
    with Browser(work / "profile") as browser:

        def figures() -> dict[str, float]:
            return {m["name"]: m["value"] for m in browser.call("Performance.getMetrics")["metrics"]}

        browser.call("Performance.enable", timeDomain="threadTicks")
        began = time.monotonic()
        browser.open(page)
        opened = time.monotonic() - began
        time.sleep(1.0)
        boxes = "[...document.querySelectorAll('.cells .tablebox')]"
        table = f"{boxes}.sort((a, b) => b.scrollHeight - a.scrollHeight)[0]"
        found = []
        for name, box in (("page", "document.documentElement"), ("longest table", table)):
            browser.run(f"{table}.scrollIntoView()" if name != "page" else "scrollTo(0, 0)")
            before = figures()["ThreadTime"]
            frames = browser.run(SCROLL.format(box=box, step=STEP))
            spent = figures()["ThreadTime"] - before
            if frames:
                found.append(Scroll(name, frames, 1e3 * spent / len(frames)))
        elements = browser.run("document.getElementsByTagName('*').length")
        said = browser.call("Browser.getVersion")["product"]
        if browser.console:
            raise RuntimeError(f"the page complained: {browser.console[0]}")
    return opened, found, elements, said


def text(run: Path, costs: list[Cost], page: Path, scrolled: tuple[float, list[Scroll], int, str] | None,
         loads: tuple[float, float], busy: bool) -> str:  # fmt: skip
    trials = sum(1 for _ in (run / "trials.jsonl").open("rb"))
    files = sum(1 for _ in (run / "samples").iterdir()) if (run / "samples").is_dir() else 0
    size = (run / "trials.jsonl").stat().st_size / 1e6
    lines = [
        f"# Analysis at scale, {datetime.now(timezone.utc).strftime('%Y-%m-%d %H:%M')} UTC",
        "",
        f"{trials:,} trials (trials.jsonl: {size:.0f} MB) and {files:,} files of samples; "
        f"{os.cpu_count()} CPUs ({platform.machine()}), Python {platform.python_version()}. "
        f"Load average {loads[0]:.1f} before, {loads[1]:.1f} after"
        + (": others at work lengthened seconds and frames, so CPU seconds count." if busy else "."),
        "",
        "| command | seconds | limit | CPU seconds | peak memory | limit | kept |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| `venturi {c.name}` | {c.seconds:.1f} | {c.limit:.0f} | {c.cpu_seconds:.1f} | "
        f"{c.peak_bytes / 1e6:.0f} MB | {MEMORY_BYTES / 1e6:.0f} MB | {c.kept(busy)} |"
        for c in costs
    ]
    size = page.stat().st_size
    small = "yes" if size < PAGE_BYTES else NO
    lines += [
        "",
        f"The page: {size / 1e6:.1f} MB (limit {PAGE_BYTES / 1e6:.0f} MB, {small}).",
    ]
    if scrolled is None:
        return "\n".join([*lines, "No Chromium here: the page was not scrolled.", ""])
    opened, found, elements, said = scrolled
    lines += [
        f"Opened in {opened:.1f} s in {said} without a window; {elements:,} elements after scrolling.",
        "",
        "| scrolled | frames | median, ms | 95 %, ms | 99 %, ms | longest, ms | CPU a frame, ms | smooth |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [
        f"| {s.name} | {len(s.frames)} | {statistics.median(s.frames):.1f} | {s.at(0.95):.1f} | "
        f"{s.at(0.99):.1f} | {max(s.frames):.0f} | {s.cpu_ms:.1f} | {s.kept(busy)} |"
        for s in found
    ]
    return "\n".join([*lines, ""])


def _made(run: Path) -> Path:
    sys.path.insert(0, str(HERE))
    import make_run

    return make_run.write(run)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument(
        "--record", action="store_true", help="keep the table as bench/scale/results/<date>.md"
    )
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="venturi-scale-"))
    try:
        before = os.getloadavg()[0]
        busy = before > (os.cpu_count() or 1)
        run = given.run or _made(work / "run")
        page = work / "report.html"
        costs = [cost(["show", str(run)], SHOW_SECONDS)]
        costs.append(cost(["report", str(run), "-o", str(page)], REPORT_SECONDS))
        scrolled = scroll(page, work)
        told = text(run, costs, page, scrolled, (before, os.getloadavg()[0]), busy)
        print(told)
        if given.record:
            out = HERE / "results" / f"{datetime.now(timezone.utc).strftime('%Y-%m-%d-%H%M')}.md"
            out.parent.mkdir(exist_ok=True)
            out.write_text(told, encoding="utf-8")
            print(out)
        judged = [c.kept(busy) for c in costs] + [s.kept(busy) for s in (scrolled[1] if scrolled else [])]
        return 1 if NO in judged or page.stat().st_size >= PAGE_BYTES else 0
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
