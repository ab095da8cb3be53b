"""What the benches have in common: flags, the machine, what was stolen of it, and where a record goes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

import goals
from goals import Judged
from venturi.analysis.statistics.intervals import median_interval

ROOT = Path(__file__).resolve().parent.parent
Line = dict[str, Any]


def stamp() -> str:
    """Names a record: the minute in UTC."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%d-%H%M")


def target_directory() -> Path:
    """Where what is built and measured lies."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _congestion_control() -> str:
    """TCP's over loopback: the route's where it names one, else the host's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,
    ):
        return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


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
        "congestion_control": _congestion_control(),
        "python": platform.python_version(),
        "commit": commit,
        "load_before": os.getloadavg()[0],
    }


def described(head: Line) -> str:
    """The same in words, as far as the kind of a bench does not matter."""
    control = f", TCP with {head['congestion_control']}" if "congestion_control" in head else ""
    return f"{head['cpu']}, {head['cpus']} CPUs, Linux {head['kernel']}{control}; commit {head['commit']}"


def cpu_seconds(pid: int | str) -> float:
    """CPU time of a process, zero where it has ended; in steps of a clock tick."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


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


@dataclass(frozen=True)
class Told:
    """What a bench has to say of its lines: a page, goals, and what failed."""

    text: str
    goals: list[Judged]
    failed: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """What could not be measured here, and why."""

    @property
    def page(self) -> str:
        parts = [self.text.rstrip("\n")]
        if self.goals:
            parts += ["", "## Goals", "", *goals.table(self.goals)]
        if self.failed:
            parts += ["", f"Failed: {len(self.failed)}", "", *(f"- {line}" for line in self.failed[:10])]
        if self.missing:
            parts += ["", "Not measured:", "", *(f"- {line}" for line in self.missing)]
        return "\n".join([*parts, ""])

    @property
    def kept(self) -> bool:
        return not self.failed and all(goal.verdict != "missed" for goal in self.goals)


def failures(lines: Iterable[Line], *names: str) -> list[str]:
    """Each failed line as one of text: what its trial was, by these names, and why."""
    return [
        f"{', '.join(str(line[name]) for name in names if name in line) or line['kind']}: {line['error']}"
        for line in lines
        if "error" in line
    ]


def by_round(lines: Iterable[Line], *names: str) -> dict[Any, dict[int, Line]]:
    """What succeeded, by the values of these names (of one: by its value), and by the round."""
    found: dict[Any, dict[int, Line]] = {}
    for line in lines:
        if "error" not in line:
            key = tuple(line[name] for name in names)
            found.setdefault(key if len(key) > 1 else key[0], {})[line["round"]] = line
    return found


def ratios(ours: dict[int, Line], theirs: dict[int, Line], figure: Callable[[Line], float]) -> list[float]:
    """Within each round that both have."""
    return [figure(line) / figure(theirs[number]) for number, line in ours.items() if number in theirs]


def middle(found: dict[int, Line], figure: Callable[[Line], float]) -> float:
    """The median over the rounds."""
    return float(np.median([figure(line) for line in found.values()]))


def spread(values: Sequence[float], digits: int = 2) -> str:
    """A median and its 95 % interval."""
    if not values:
        return "-"
    found = median_interval(list(values))
    return f"{found.median:,.{digits}f} [{found.low:,.{digits}f}..{found.high:,.{digits}f}]"


def steal(lines: Iterable[Line]) -> str:
    """Of all trials, as a part of the head of a page."""
    share = float(np.mean([line["steal"] for line in lines if "steal" in line] or [0.0]))
    return f"CPU time stolen {100 * share:.1f} %"


def arguments(
    doc: str | None, name: str, rounds: int, what: str = "of every way once"
) -> argparse.ArgumentParser:
    """The flags that every bench has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=rounds, help=f"{what} (default {rounds})")
    add("--record", action="store_true", help=f"keep the page as bench/{name}/results/<date>.md")
    add("--output", type=Path, help=f"the JSONL file (default target/bench-{name}/<date>.jsonl)")
    add("--from", dest="source", type=Path, help="measure nothing: the page of an earlier JSONL file")
    return parser


def run(
    name: str,
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace, Path], None],
    told: Callable[[Path], Told],
) -> int:
    """Measures, unless an earlier run was named (`source`), and tells. Gives the exit status."""
    source: Path | None = options.source
    if source is None:
        source = options.output or target_directory() / f"bench-{name}" / f"{stamp()}.jsonl"
        source.parent.mkdir(parents=True, exist_ok=True)
        # Ended from outside, it takes its servers along.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        began = time.monotonic()
        measure(options, source)
        print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
    return finish(name, told(source), source, options.record, kept=options.source is None)


def goals_of(source: Path) -> Path:
    """Where the goals of the measurements in a file or folder are kept, for `make bench`."""
    return source.with_suffix(".goals.json")


def finish(name: str, found: Told, source: Path, record: bool, kept: bool = True) -> int:
    """Prints the page, keeps it where it shall be kept, and says the exit status: 1 where a goal is missed or
    something failed."""
    print(found.page)
    said = {
        "missing": found.missing,
        "failed": found.failed,
        "goals": [goal.as_json() for goal in found.goals],
    }
    if kept:
        goals_of(source).write_text(json.dumps(said, indent=1) + "\n")
    if record:
        place = ROOT / "bench" / name / "results" / f"{source.stem}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(found.page)
        print(f"recorded: {place.relative_to(ROOT)}", file=sys.stderr)
    return 0 if found.kept else 1
