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
from dataclasses import dataclass
from pathlib import Path

from commands import venturi

FEW, MANY = 5, 105
WORDS = ("run", "--operation", "get", "--streams", "1", "--rows-per-stream", "1000", "--quiet")
TARGETS = ("flight://local", "empty://")
"""A server in a process of its own, and nothing at all: what the difference is goes to the server."""


@dataclass(frozen=True)
class Spread:
    """Of one figure over the rounds; seconds."""

    each: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.each)

    def text(self, scale: float = 1.0) -> str:
        low, high = min(self.each) * scale, max(self.each) * scale
        return f"{self.median * scale:.3g} [{low:.3g}..{high:.3g}]"


@dataclass(frozen=True)
class Waits:
    """Seconds by the clock and of CPU time, of a tiny run and, by target, of a trial more."""

    run: Spread
    run_cpu: Spread
    trial: dict[str, Spread]
    trial_cpu: dict[str, Spread]


def waits(work: Path, rounds: int) -> Waits:
    """Everything once a round, so that a busy minute meets all of it."""
    # The first run on a machine proves the instrument, which is kept; and files come from the disk.
    _run(work / "first", ["--target", TARGETS[0], "--repeats", "1"])
    tiny, sloped = [], {target: [] for target in TARGETS}
    for number in range(rounds):
        tiny.append(_run(work / f"tiny-{number}", ["--target", TARGETS[0], "--repeats", "1"]))
        for target in TARGETS:
            sloped[target].append(_slope(work / f"{target.partition(':')[0]}-{number}", target))
    return Waits(
        Spread([wall for wall, _ in tiny]),
        Spread([cpu for _, cpu in tiny]),
        {target: Spread([wall for wall, _ in found]) for target, found in sloped.items()},
        {target: Spread([cpu for _, cpu in found]) for target, found in sloped.items()},
    )


def _run(out: Path, words: Sequence[str]) -> tuple[float, float]:
    taken = venturi([*WORDS, *words, "--out", str(out)])
    return taken.seconds, taken.cpu_seconds


def _slope(out: Path, target: str) -> tuple[float, float]:
    """Seconds by the clock and of CPU time of a trial more, but for its interval."""
    words = ["--target", target, "--ceilings", "none", "--no-report", "--repeats"]
    few, many = (_run(Path(f"{out}-{n}"), [*words, str(n)]) for n in (FEW, MANY))
    lines = Path(f"{out}-{MANY}", "trials.jsonl").read_text().splitlines()
    interval = statistics.median(json.loads(line)["times"]["interval_ns"] for line in lines) / 1e9
    wall, cpu = ((b - a) / (MANY - FEW) for a, b in zip(few, many, strict=True))
    return wall - interval, cpu
