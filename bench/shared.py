"""What the benches have in common: the machine, what was stolen of it, intervals, and where a record goes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def stamp() -> str:
    """Names a record: the minute in UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%d-%H%M")


def machine() -> Line:
    """The first line of a record: where, when and of which sources."""
    described = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in described if line.startswith("model name")]
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True
    ).stdout.strip()
    return {
        "kind": "environment",
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": commit,
        "load_before": os.getloadavg()[0],
    }


def described(head: Line) -> str:
    """The same in words, as far as the kind of a bench does not matter."""
    return f"{head['cpu']}, {head['cpus']} CPUs, Linux {head['kernel']}; commit {head['commit']}"


def _ticks() -> tuple[int, int]:
    """CPU time of the whole host, and what was stolen of it, in ticks."""
    words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(words), words[7]


@contextmanager
def stolen(line: Line) -> Iterator[None]:
    """Adds to the line which share of the CPU time was stolen meanwhile: it spoils a measurement."""
    before = _ticks()
    try:
        yield
    finally:
        after = _ticks()
        line["steal"] = (after[1] - before[1]) / max(1, after[0] - before[0])


def attempted(line: Line, measure: Callable[[], Line], failures: tuple[type[Exception], ...]) -> Line:
    """The line with what was measured, or with why nothing was."""
    with stolen(line):
        try:
            line |= measure()
        except failures as error:
            line["error"] = str(error)
            print(f"failed: {error}", file=sys.stderr, flush=True)
    return line


def keeper(file: Any) -> Callable[[Line], None]:
    """Writes lines of JSON, each at once."""

    def keep(line: Line) -> None:
        file.write(json.dumps(line) + "\n")
        file.flush()

    return keep


def bootstrap(values: list[float]) -> tuple[float, float]:
    """The 95 % percentile interval of their median."""
    drawn = np.random.default_rng(1).choice(np.array(values), size=(2000, len(values)))
    low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
    return float(low), float(high)


def finish(text: str, met: bool, name: str, results: Path | None) -> int:
    """Prints the table, keeps it where it shall be kept, and says the exit status."""
    print(text)
    if results is not None:
        results.mkdir(exist_ok=True)
        place = results / f"{name}.md"
        place.write_text(text)
        print(f"recorded: {place.relative_to(ROOT)}", file=sys.stderr)
    return 0 if met else 1


def run(
    name: str,
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace, Path], None],
    tabled: Callable[[Path], tuple[str, bool]],
) -> int:
    """Measures, unless the lines of an earlier run were named (`source`), and prints the table."""
    source: Path | None = options.source
    if source is None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        source = options.output or target / f"bench-{name}" / f"{stamp()}.jsonl"
        began = time.monotonic()
        measure(options, source)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    text, met = tabled(source)
    return finish(text, met, source.stem, ROOT / "bench" / name / "results" if options.record else None)
