"""What `venturi compare` reports of things that are the same, and of a slow-down that is known.

A try is one short run of gets and puts through Venturi's server. Every cell is measured twice as often as a
comparison needs, and once more with a slow-down: a trial does 1/0.95 of the work for the same payload, so
that it really takes 5 % longer. Repeats are shuffled round by round; the even ones stand for one run, the odd
ones for the other:

- A/A interleaved: even against odd repeats of the same cells;
- A/A apart: the even repeats of one try against those of the next, minutes later;
- slow-down interleaved: even repeats against odd ones of the cells with the slow-down.

Each also by CPU time per byte, which a busy machine disturbs less. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench import goals, shared
from bench.page import Page
from support.hosts import hosts
from venturi.analysis.compare.runs import Comparison, compare
from venturi.analysis.results import Results, load
from venturi.engine.record import Trial

WANTED = 0.95
"""The share of A/A cells without a significant difference."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "compare", 20, "tries")
    add = parser.add_argument
    add("--repeats", type=int, default=10, help="of each side of a comparison (default 10)")
    add("--rows", type=int, default=10_000_000, help="per stream, 32 bytes each (default 10M, 0.1-0.2 s)")
    add("--streams", default="1", help="as of `venturi run` (default 1)")
    add("--link", help="over a link of this rate between two network namespaces, for example 400mbit")
    add("--slower", type=float, default=0.05, help="the known slow-down (default 0.05)")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    """The runs are beside the file, in a folder of its name."""
    settings = {name: getattr(options, name) for name in ("slower", "link", "rounds", "repeats")}
    output.write_text(json.dumps({**shared.machine(), **settings}) + "\n")
    kept = output.with_suffix("")
    kept.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        inside, url = [], "flight://local"
        if options.link:
            client, host = stack.enter_context(hosts(2))
            host.shape(options.link)
            url = f"flight://{stack.enter_context(host.server()).address}"
            inside = client.inside()
        _tries(options, kept, inside, url)


def _tries(options: argparse.Namespace, kept: Path, inside: Sequence[str], url: str) -> None:
    slowed = round(options.rows / (1 - options.slower))
    for number in range(options.rounds):
        command = [
            *inside,
            *(sys.executable, "-m", "venturi", "run", "--out", str(kept / f"try-{number:02}")),
            *("--target", url, "--operation", "get,put", "--streams", options.streams),
            *("--rows-per-stream", f"{options.rows},{slowed}", "--repeats", str(2 * options.repeats)),
            *("--shuffle-seed", str(number + 1), "--no-ceilings", "--no-report", "--quiet"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode:
            sys.exit(f"try {number} failed with {done.returncode}:\n{done.stderr}")
        print(f"try {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def part(
    whole: Results, keep: Callable[[Trial], bool], edit: Callable[[Trial], None] | None = None
) -> Results:
    """The run with some of its trials only, warm-ups left out."""
    records = [copy.deepcopy(r) for r in whole.records if not r.warmup and keep(r)]
    for record in records:
        if edit:
            edit(record)
    return Results(whole.directory, records, [])


def even(record: Trial) -> bool:
    return record.repeat % 2 == 0


@dataclass
class Tally:
    """Verdicts over all comparisons of one kind."""

    name: str
    cells: int = 0
    worse: int = 0
    better: int = 0
    unknown: int = 0
    gates: int = 0
    comparisons: int = 0
    ratios: list[float] = field(default_factory=list)
    covered: int = 0
    detectable: list[float] = field(default_factory=list)

    def add(self, found: Comparison, truth: float) -> None:
        self.comparisons += 1
        self.gates += found.exit_code != 0
        for row in found.rows:
            self.cells += 1
            self.worse += row.verdict == "worse"
            self.better += row.verdict == "better"
            self.unknown += row.verdict in ("unknown", "failed")
            d = row.difference
            if d is not None and d.low is not None and d.high is not None:
                self.ratios.append(d.ratio)
                self.covered += d.low <= truth <= d.high
            if row.detectable is not None:
                self.detectable.append(row.detectable)

    @property
    def silent(self) -> int:
        """Cells without a significant difference."""
        return self.cells - self.worse - self.better - self.unknown

    def line(self) -> str:
        def share(n: float, of: int) -> str:
            return f"{100 * n / max(of, 1):.1f} %"

        fields = [
            *(self.name, str(self.comparisons), str(self.cells), share(self.silent, self.cells)),
            *(share(self.worse, self.cells), share(self.better, self.cells)),
            share(self.covered, len(self.ratios)),
            f"{median(self.ratios):.3f}" if self.ratios else "-",
            f"{100 * median(self.detectable):.1f} %" if self.detectable else "-",
            share(self.gates, self.comparisons),
        ]
        return "| " + " | ".join(fields) + " |"


def evaluate(runs: list[Results], slower: float) -> list[Tally]:
    sizes = sorted({int(r["parameters"]["rows_per_stream"]) for run in runs for r in run.records})
    rows, slowed = sizes[0], sizes[-1]
    if abs(rows / slowed - (1 - slower)) > 1e-4:
        sys.exit(f"the runs were made with another slow-down, {1 - rows / slowed:.3f}")

    def credited(record: Trial) -> None:
        """The slowed trial moved more than it is credited with."""
        record.parameters["rows_per_stream"] = rows
        record.cell = "slowed-" + record.cell
        for name in ("rows", "batches", "payload_bytes", "wire_bytes"):
            setattr(record.counts, name, round(record.counts[name] * rows / slowed))

    def size(record: Trial) -> int:
        return int(record.parameters["rows_per_stream"])

    # The slow-down is (1 - slower) of the throughput, and 1 / (1 - slower) of the CPU time.
    truth = {"throughput": 1 - slower, "cpu-per-byte": 1 / (1 - slower)}
    kinds = ("A/A interleaved", "A/A apart", f"{slower:.0%} slower, interleaved")
    tallies = {(m, k): Tally(f"{m}: {k}") for m in truth for k in kinds}
    before: Results | None = None
    for run in runs:
        base = part(run, lambda r: size(r) == rows and even(r))
        other = part(run, lambda r: size(r) == rows and not even(r))
        slow = part(run, lambda r: size(r) == slowed and not even(r), credited)
        for metric, ratio in truth.items():
            tallies[metric, kinds[0]].add(compare(base, other, metric, force=True), 1.0)
            tallies[metric, kinds[2]].add(compare(base, slow, metric, force=True), ratio)
            if before is not None:
                tallies[metric, kinds[1]].add(compare(before, base, metric, force=True), 1.0)
        before = base
    return list(tallies.values())


def page(source: Path) -> Page:
    head = json.loads(source.read_text())
    runs = [load(path) for path in sorted(source.with_suffix("").glob("try-*"))]
    if not runs:
        sys.exit(f"{source.with_suffix('')}: no runs")
    tallies = evaluate(runs, head["slower"])
    first, _, slow, *_ = tallies
    return Page(
        "venturi compare: A/A and a known slow-down",
        "how often `venturi compare` reports a false difference, and how often it finds a true one.",
        head,
        [],
        [
            "| | comparisons | cells | none seen | slower | faster | interval holds the truth | median ratio "
            "| detectable | gate fires |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *(tally.line() for tally in tallies),
            "",
            "*detectable*: the smallest slow-down that a comparison would have found with 80 % probability, "
            "by its own account; median over cells.",
        ],
        goals.share("A/A cells without a significant difference", first.silent, first.cells, WANTED),
        f"No difference is reported in {first.silent} of {first.cells} cells that are the same; "
        f"the slow-down of {head['slower']:.0%} is found in {slow.worse} of {slow.cells}.",
        f"{len(runs)} tries, {head['repeats']} repeats per side, "
        + (f"over a link of {head['link']}" if head["link"] else "over loopback"),
    )


if __name__ == "__main__":
    sys.exit(shared.run("compare", arguments(), measure, page))
