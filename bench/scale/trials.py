"""What a user waits for beside the measuring: a run of one tiny trial, and what each further trial costs.

A trial of 1,000 rows over one connection of loopback takes less than a millisecond; all else is its fixed
cost: the connection, its plan and its check, samples of both ends, its line on the disk. That is the slope of
wall clock over the number of trials, between a run of few and one of many, without the interval itself.
Limits are not probed meanwhile (`--ceilings none`): what they may take is a matter of docs/method.md. The run
of one trial is as a user types it, with its limits, its report and one warm-up.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path

from commands import Taken, venturi

FEW, MANY = 5, 105
WORDS = ("run", "--operation", "get", "--streams", "1", "--rows-per-stream", "1000", "--quiet")
TARGETS = ("flight://local", "empty://")
"""A server in a process of its own, and nothing at all: what the difference is goes to the server."""


def tiny(out: Path) -> Taken:
    """A run of one trial, as a user types it."""
    return _run(out, ["--target", TARGETS[0], "--repeats", "1"])


def slope(out: Path, target: str) -> dict[str, float]:
    """Seconds by the clock and of CPU time of a trial more, but for its interval."""
    words = ["--target", target, "--ceilings", "none", "--no-report", "--repeats"]
    few, many = (_run(Path(f"{out}-{n}"), [*words, str(n)]) for n in (FEW, MANY))
    lines = Path(f"{out}-{MANY}", "trials.jsonl").read_text().splitlines()
    interval = statistics.median(json.loads(line)["times"]["interval_ns"] for line in lines) / 1e9
    return {
        "seconds": (many.seconds - few.seconds) / (MANY - FEW) - interval,
        "cpu_seconds": (many.cpu_seconds - few.cpu_seconds) / (MANY - FEW),
    }


def _run(out: Path, words: Sequence[str]) -> Taken:
    return venturi([*WORDS, *words, "--out", str(out)])
