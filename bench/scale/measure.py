"""Time and peak memory of `venturi show` and `venturi report` on a large run.

    python bench/scale/measure.py [RUN] [--out bench/scale/results/DATE.md]

Without RUN one of 10,000 trials is made by make_run.py, and removed afterwards. Each command is a process of
its own, as a user starts it; its peak memory is what the kernel counted for it. The limits are those of the
product: 10 s to show, 30 s to report, 1 GB, 15 MB of HTML; the exit code is 1 where one is not kept.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import make_run

SHOW_SECONDS, REPORT_SECONDS, MEMORY_BYTES, PAGE_BYTES = 10.0, 30.0, 1e9, 15e6


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int


def cost(words: list[str]) -> Cost:
    """Runs `venturi WORDS` to its end. Raises RuntimeError where it fails."""
    line = [sys.executable, "-m", "venturi", *words]
    began = time.monotonic()
    null = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawn(line[0], line, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
    os.close(null)
    _, status, used = os.wait4(child, 0)
    if status != 0:
        raise RuntimeError(f"venturi {' '.join(words)} ended with status {status}")
    scale = 1 if sys.platform == "darwin" else 1024
    return Cost(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * scale)


def measure(run: Path, page: Path) -> list[tuple[str, Cost, float]]:
    """Command, cost, and the limit of its time."""
    return [
        ("show", cost(["show", str(run)]), SHOW_SECONDS),
        ("report", cost(["report", str(run), "-o", str(page)]), REPORT_SECONDS),
    ]


def table(run: Path, found: list[tuple[str, Cost, float]], page: Path) -> str:
    trials = sum(1 for _ in (run / "trials.jsonl").open("rb"))
    files = sum(1 for _ in (run / "samples").iterdir()) if (run / "samples").is_dir() else 0
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    load = os.getloadavg()[0]
    lines = [
        f"# Analysis at scale, {today}",
        "",
        f"{trials:,} trials, trials.jsonl of {(run / 'trials.jsonl').stat().st_size / 1e6:.0f} MB, "
        f"{files:,} files of samples; {os.cpu_count()} cores ({platform.machine()}), Python "
        f"{platform.python_version()}, load average {load:.1f} (others at work on the machine lengthen the "
        "seconds, not the CPU seconds).",
        "",
        "| command | seconds | CPU seconds | limit, s | peak memory, MB | limit, MB |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {name} | {c.seconds:.1f} | {c.cpu_seconds:.1f} | {limit:.0f} | {c.peak_bytes / 1e6:.0f} | "
        f"{MEMORY_BYTES / 1e6:.0f} |"
        for name, c, limit in found
    ]
    size = page.stat().st_size / 1e6
    return "\n".join([*lines, "", f"The page: {size:.1f} MB (limit {PAGE_BYTES / 1e6:.0f} MB).", ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, help="file for the table; it is printed in any case")
    given = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="venturi-scale-"))
    try:
        run = given.run or make_run.write(work / "run")
        page = work / "report.html"
        found = measure(run, page)
        text = table(run, found, page)
        print(text)
        if given.out:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(text, encoding="utf-8")
        kept = all(c.seconds < limit and c.peak_bytes < MEMORY_BYTES for _, c, limit in found)
        return 0 if kept and page.stat().st_size < PAGE_BYTES else 1
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
