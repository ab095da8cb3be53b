"""Venturi's Flight client and server against Arrow C++'s, interleaved in one run.

A round measures every cell (operation x streams x rows per batch) once with every pairing
of clients and servers; cells come in shuffled order, and within a cell the pairings come
in shuffled order right after one another, so that what is compared is compared at nearly
the same moment. See bench/README.md.
"""

from __future__ import annotations

import argparse
import functools
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import build
import pyarrow
import summary
from peers import PAIRINGS, Bench, Cell, TrialFailed

import shared

FAILURES = (TrialFailed, subprocess.TimeoutExpired, ValueError, KeyError)
OPERATIONS = ["get", "put"]
STREAMS = [1, 2, 4]
ROWS = [1024, 4096, 32768, 131072]


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "flight", 7)
    add = parser.add_argument
    add("--bytes", type=float, default=1.5e9, help="payload of a trial (default 1.5e9, 0.5-1 s)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--operations", nargs="+", choices=OPERATIONS, default=OPERATIONS, metavar="OPERATION")
    add("--streams", nargs="+", type=int, default=STREAMS, metavar="N")
    add("--rows", nargs="+", type=int, default=ROWS, metavar="N", help="rows a batch")
    add("--pairings", nargs="+", choices=list(PAIRINGS), metavar="PAIRING", help=" ".join(PAIRINGS))
    add("--quick", action="store_true", help="3 rounds of 0.5 GB, 1 and 2 streams, 4096 and 32768 rows")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.bytes = min(options.rounds, 3), min(options.bytes, 0.5e9)
        options.streams = [n for n in options.streams if n <= 2]
        options.rows = [n for n in options.rows if n in (4096, 32768)] or options.rows[:1]
    if options.pairings is None:
        options.pairings = list(PAIRINGS) if has_venturi() else ["cpp/cpp", "tcp"]
    return options


def has_venturi() -> bool:
    try:
        from venturi import _core
    except ImportError:
        found = False
    else:
        found = hasattr(_core, "run_trial")
    if not found:
        print("note: venturi._core is not built, only C++ is measured", file=sys.stderr)
    return found


def order(options: argparse.Namespace) -> Iterator[tuple[int, Cell, str]]:
    shuffle = random.Random(options.seed).shuffle
    cells = [Cell(o, s, r) for o in options.operations for s in options.streams for r in options.rows]
    for number in range(options.rounds):
        shuffle(cells)
        for cell in cells:
            pairings = list(options.pairings)
            shuffle(pairings)
            for pairing in pairings:
                yield number, cell, pairing


def environment(options: argparse.Namespace) -> dict[str, Any]:
    return {
        **shared.machine(),
        "arrow": pyarrow.__version__,
        "rounds": options.rounds,
        "bytes": int(options.bytes),
        "seed": options.seed,
        "pairings": options.pairings,
    }


def measure(options: argparse.Namespace, output: Path) -> None:
    bench = Bench(build.build(quiet=True), options.pairings, int(options.bytes))
    try:
        with open(output, "w") as file:
            keep = shared.keeper(file)
            keep(environment(options))
            for name in options.pairings:  # one warm-up of each, not kept
                for operation in options.operations:
                    bench.trial(Cell(operation, options.streams[0], options.rows[0]), PAIRINGS[name])
            plan = list(order(options))
            began = time.monotonic()
            for done, (number, cell, name) in enumerate(plan):
                line = {"kind": "trial", "round": number, "pairing": name, **vars(cell)}
                measured = functools.partial(bench.trial, cell, PAIRINGS[name])
                keep(shared.attempted(line, measured, FAILURES))
                progress(done + 1, len(plan), time.monotonic() - began)
    finally:
        bench.stop()


def progress(done: int, total: int, seconds: float) -> None:
    left = seconds / done * (total - done)
    if sys.stderr.isatty():
        print(f"\r{done}/{total} trials, {left:.0f} s left   ", end="", file=sys.stderr)
        if done == total:
            print(file=sys.stderr)
    elif done == total or done % 100 == 0:
        print(f"{done}/{total} trials, {left:.0f} s left", file=sys.stderr)


def main() -> int:
    return shared.run("flight", arguments(), measure, summary.told)


if __name__ == "__main__":
    sys.exit(main())
