"""What the benches share: flags, a description of the machine, client processes, ratios within a round."""

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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from bench import Line, records
from bench.page import Page
from venturi.analysis.statistics.intervals import median_interval

ROOT = Path(__file__).resolve().parent.parent


def stamp() -> str:
    """Names a record: the minute in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%d-%H%M")


def target_directory() -> Path:
    """Where what is built and measured lies."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


def _congestion_control() -> str:
    """TCP's over loopback: the route's if it names one, else the host's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,
    ):
        return end.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def machine() -> Line:
    """The first line of a record: where, when and of which sources."""
    described = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in described if line.startswith("model name")]
    return {
        "kind": "environment",
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "cpu": models[0] if models else platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": platform.release(),
        "congestion_control": _congestion_control(),
        "python": platform.python_version(),
        "commit": records.head_commit(),
        "load_before": os.getloadavg()[0],
    }


def lines(source: Path) -> list[Line]:
    """The lines of a file of measurements; none if the file does not exist yet."""
    return [json.loads(text) for text in source.read_text().splitlines()] if source.exists() else []


def cpu_seconds(pid: int | str) -> float:
    """CPU time of a process, in steps of a clock tick; zero if it has ended."""
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
    """Adds the share of CPU time that was stolen from the machine, which spoils a measurement."""
    before = _ticks()
    try:
        yield
    finally:
        after = _ticks()
        line["steal"] = (after[1] - before[1]) / max(1, after[0] - before[0])


class ClientFailed(Exception):
    """A client process ended badly; the message has its last words."""


def client(module: str, request: Line, *, within: Sequence[str] = (), seconds: float = 180) -> Line:
    """Runs `python -m MODULE JSON` as a process and reads the figures that it prints as JSON."""
    command = [*within, sys.executable, "-m", module, json.dumps(request)]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, cwd=ROOT
        )
    except subprocess.TimeoutExpired as error:
        raise ClientFailed(f"not done within {seconds:g} s") from error
    if ended.returncode != 0:
        words = (ended.stderr.strip() or ended.stdout.strip() or "no message").splitlines()
        raise ClientFailed(words[-1])
    found: Line = json.loads(ended.stdout)
    return found


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


def arguments(
    doc: str | None, name: str, rounds: int, what: str = "of every way once"
) -> argparse.ArgumentParser:
    """The flags that every bench has."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--rounds", type=int, default=rounds, help=f"{what} (default {rounds})")
    add("--record", action="store_true", help=f"keep the page as bench/{name}/results/<date>.md")
    add("--override", metavar="REASON", help="record a run that would be refused; the first line says why")
    add("--output", type=Path, help=f"the JSONL file (default target/bench-{name}/<date>.jsonl)")
    add("--from", dest="source", type=Path, help="measure nothing: print the page of an earlier JSONL file")
    return parser


def run(
    name: str,
    options: argparse.Namespace,
    measure: Callable[[argparse.Namespace, Path], None],
    page: Callable[[Path], Page],
) -> int:
    """Measures, unless an earlier file was named, and prints the page. Returns the exit status."""
    source: Path | None = options.source
    try:
        if options.record and source is None:
            records.check(machine(), options.override)  # before an hour of measuring, not after it
        if source is None:
            source = options.output or target_directory() / f"bench-{name}" / f"{stamp()}.jsonl"
            source.parent.mkdir(parents=True, exist_ok=True)
            # If the bench is ended from outside, its servers end with it.
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            began = time.monotonic()
            measure(options, source)
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr)
        return finish(name, page(source), source, options)
    except records.Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def goals_of(source: Path) -> Path:
    """Where the goals of a file of measurements are kept, for `make bench`."""
    return source.with_suffix(".goals.json")


def finish(name: str, page: Page, source: Path, options: argparse.Namespace) -> int:
    """Prints the page and records it if asked. Returns 1 if a goal was missed or something failed.

    Raises Refused if the page must not become a record."""
    print(page.markdown())
    if options.source is None:
        found = {
            "missing": page.missing,
            "failed": page.failed,
            "goals": [goal.as_json() for goal in page.goals],
        }
        goals_of(source).write_text(json.dumps(found, indent=1) + "\n")
    if options.record:
        spite = records.check(page.head, options.override)
        place = ROOT / "bench" / name / "results" / f"{source.stem}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(page.markdown(spite))
        print(f"recorded: {place.relative_to(ROOT)}", file=sys.stderr)
    return 0 if page.kept else 1
