"""What `venturi compare` reports of things that are the same, and of a slow-down that is known.

A try is one short run of gets and puts through Venturi's own server, in which every cell is measured twice as
often as a comparison needs, and once more with a handicap: a trial that does 1/0.95 of the work for the same
payload, so that it really takes 5 % longer. Repeats are shuffled round by round; the even ones stand for one
run, the odd ones for the other. From 20 tries:

- A/A interleaved: even against odd repeats of the same cells;
- A/A apart: the even repeats of one try against those of the next, minutes later;
- slow-down interleaved: even repeats against odd ones of the handicapped cells.

Each also by CPU time per byte, which a busy machine disturbs less. That the slow-down is found needs a quiet
machine; the record says how quiet it was. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.analysis.compare.runs import Comparison, compare
from venturi.analysis.results import Results, load

BENCH = Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(BENCH), str(BENCH / "tune")]  # the shaped link is made there

import targets  # noqa: E402

import goals  # noqa: E402
import shared  # noqa: E402

WANTED = 0.95
"""The share of A/A cells without a significant difference."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "compare", 20, "tries")
    add = parser.add_argument
    add("--repeats", type=int, default=10, help="of each side of a comparison (default 10)")
    add("--rows", type=int, default=10_000_000, help="a stream, 32 bytes each (default 10M, 0.1-0.2 s)")
    add("--streams", default="1", help="as of `venturi run` (default 1)")
    add(
        "--link", help="behind a shaped link between two network namespaces, as 400mbit: repeats scatter less"
    )
    add("--slower", type=float, default=0.05, help="the known slow-down (default 0.05)")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    """The runs lie beside the file, in a folder of its name."""
    with output.open("w") as file:
        shared.keeper(file)({**shared.machine(), "slower": options.slower, "link": options.link})
    place = targets.Target("compare", "", {}, rate=options.link) if options.link else None
    kept = output.with_suffix("")
    kept.mkdir(exist_ok=True)
    with targets.live(place) if place else contextlib.nullcontext() as end:
        _tries(options, kept, [] if end is None else end.inside, "flight://local" if end is None else end.url)


def _tries(options: argparse.Namespace, kept: Path, inside: Sequence[str], url: str) -> None:
    handicapped = round(options.rows / (1 - options.slower))
    for number in range(options.rounds):
        began = time.monotonic()
        command = [
            *inside,
            *(sys.executable, "-m", "venturi", "run", "--out", str(kept / f"try-{number:02}")),
            *("--target", url, "--operation", "get,put", "--streams", options.streams),
            *("--rows-per-stream", f"{options.rows},{handicapped}", "--repeats", str(2 * options.repeats)),
            *("--shuffle-seed", str(number + 1), "--no-ceilings", "--no-report", "--quiet"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        if done.returncode:
            sys.exit(f"try {number} failed with {done.returncode}:\n{done.stderr}")
        load_now = os.getloadavg()[0]
        print(
            f"try {number + 1}/{options.rounds}: {time.monotonic() - began:.0f} s, load {load_now:.1f}",
            file=sys.stderr,
        )


def part(
    whole: Results,
    keep: Callable[[dict[str, Any]], bool],
    edit: Callable[[dict[str, Any]], None] | None = None,
) -> Results:
    """The run with some of its trials only, warm-ups left out."""
    records = [copy.deepcopy(r) for r in whole.records if not r.get("warmup") and keep(r)]
    for record in records:
        if edit:
            edit(record)
    return Results(whole.directory, records, [])


def even(record: dict[str, Any]) -> bool:
    return int(record["repeat"]) % 2 == 0


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
    def silent(self) -> float:
        """Share of cells without a significant difference."""
        return (self.cells - self.worse - self.better - self.unknown) / max(self.cells, 1)

    def line(self) -> str:
        def share(n: float, of: int) -> str:
            return f"{100 * n / max(of, 1):.1f} %"

        fields = [
            *(self.name, str(self.comparisons), str(self.cells), f"{100 * self.silent:.1f} %"),
            *(share(self.worse, self.cells), share(self.better, self.cells)),
            *(share(self.covered, len(self.ratios)), f"{middle(self.ratios):.3f}"),
            *(f"{100 * middle(self.detectable):.1f} %", share(self.gates, self.comparisons)),
        ]
        return "| " + " | ".join(fields) + " |"


def middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2 if ordered else float("nan")


def evaluate(kept: Path, slower: float) -> tuple[list[Tally], int, list[Results]]:
    runs = [load(path) for path in sorted(kept.glob("try-*"))]
    if not runs:
        sys.exit(f"{kept}: no runs")
    sizes = sorted({int(r["parameters"]["rows_per_stream"]) for run in runs for r in run.records})
    rows, handicapped = sizes[0], sizes[-1]
    if abs(rows / handicapped - (1 - slower)) > 1e-4:
        sys.exit(f"{kept}: made with another slow-down, {1 - rows / handicapped:.3f}")

    def credited(record: dict[str, Any]) -> None:
        """The handicapped trial moved more than it is credited with."""
        record["parameters"]["rows_per_stream"] = rows
        record["cell"] = "handicapped-" + record["cell"]
        for name in ("rows", "batches", "payload_bytes", "wire_bytes"):
            record["counts"][name] = record["counts"][name] * rows / handicapped

    def size(record: dict[str, Any]) -> int:
        return int(record["parameters"]["rows_per_stream"])

    # The handicap is (1 - slower) of the throughput, and 1 / (1 - slower) of the CPU time.
    truth = {"throughput": 1 - slower, "cpu-per-byte": 1 / (1 - slower)}
    kinds = ("A/A interleaved", "A/A apart", f"{slower:.0%} slower, interleaved")
    tallies = {(m, k): Tally(f"{m}: {k}") for m in truth for k in kinds}
    before: Results | None = None
    for run in runs:
        base = part(run, lambda r: size(r) == rows and even(r))
        other = part(run, lambda r: size(r) == rows and not even(r))
        handicap = part(run, lambda r: size(r) == handicapped and not even(r), credited)
        for metric, ratio in truth.items():
            tallies[metric, kinds[0]].add(compare(base, other, metric, force=True), 1.0)
            tallies[metric, kinds[2]].add(compare(base, handicap, metric, force=True), ratio)
            if before is not None:
                tallies[metric, kinds[1]].add(compare(before, base, metric, force=True), 1.0)
        before = base
    return list(tallies.values()), rows, runs


def told(source: Path) -> shared.Told:
    head = json.loads(source.read_text())
    tallies, rows, runs = evaluate(source.with_suffix(""), head["slower"])
    loads = [x[0] for r in runs if (x := (r.environment.get("client") or {}).get("loadavg"))]
    steal = [
        s
        for r in runs
        for t in r.records
        if (s := (((t.get("resources") or {}).get("client") or {}).get("host") or {}).get("steal_share"))
        is not None
    ]
    repeats = max(int(r["repeat"]) for r in runs[0].records) // 2 + 1
    way = f" over a link shaped to {head['link']} between two network namespaces" if head["link"] else ""
    lines = [
        f"# A/A and a known slow-down, {head['date'][:16].replace('T', ' ')} UTC",
        "",
        f"{len(runs)} tries; {repeats} repeats a side, {rows:,} rows a stream{way}; "
        f"{shared.described(head)}.",
        f"Load before the tries: median {middle(loads):.1f}, {min(loads, default=0):.1f} to "
        f"{max(loads, default=0):.1f}"
        + (
            f"; stolen CPU time: median {100 * middle(steal):.1f} %, most {100 * max(steal):.0f} %"
            if steal
            else ""
        )
        + ".",
        "",
        "| | comparisons | cells | none seen | slower | faster | interval holds the truth | median ratio "
        "| detectable | gate fires |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        *(tally.line() for tally in tallies),
        "",
        "*detectable*: the smallest slow-down that a comparison would have found with 80 % probability, by "
        "its own account; median over cells.",
    ]
    silent = round(tallies[0].silent * tallies[0].cells)
    what = "A/A cells without a significant difference"
    return shared.Told("\n".join(lines), goals.share(what, silent, tallies[0].cells, WANTED))


if __name__ == "__main__":
    sys.exit(shared.run("compare", arguments(), measure, told))
