"""Venturi's Flight client and server against those of Arrow C++, interleaved in one run.

A round measures every cell (operation, streams, rows per batch) once with every pairing of client and server.
Cells are shuffled; within a cell, the pairings are shuffled and follow right after one another, so that what
is compared is compared at nearly the same moment. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow

from bench import shared
from bench.flight import build
from bench.flight.page import page
from bench.flight.peers import CLIENTS_AND_SERVERS, Cell, Peers

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
    add("--rows", nargs="+", type=int, default=ROWS, metavar="N", help="rows per batch")
    names = list(CLIENTS_AND_SERVERS)
    add("--pairings", nargs="+", choices=names, default=names, metavar="PAIRING", help=" ".join(names))
    return parser.parse_args()


def order(options: argparse.Namespace) -> Iterator[tuple[int, Cell, str]]:
    draw = random.Random(options.seed)
    cells = [Cell(o, s, r) for o in options.operations for s in options.streams for r in options.rows]
    for number in range(options.rounds):
        for cell in draw.sample(cells, len(cells)):
            for pairing in draw.sample(options.pairings, len(options.pairings)):
                yield number, cell, pairing


def measure(options: argparse.Namespace, output: Path) -> None:
    with contextlib.ExitStack() as stack:
        peers = Peers(build.build(quiet=True), options.pairings, int(options.bytes), stack)
        keep = shared.keeper(stack.enter_context(output.open("w")))
        named = {name: getattr(options, name) for name in ("rounds", "seed", "pairings")}
        keep({**shared.machine(), "arrow": pyarrow.__version__, "bytes": int(options.bytes), **named})
        for pairing in options.pairings:  # one warm-up of each, not kept
            for operation in options.operations:
                peers.trial(Cell(operation, options.streams[0], options.rows[0]), pairing)
        plan = list(order(options))
        failures = (shared.ClientFailed, subprocess.TimeoutExpired, ValueError, KeyError)
        for done, (number, cell, pairing) in enumerate(plan, 1):
            line = {"kind": "trial", "round": number, "pairing": pairing, **vars(cell)}
            keep(shared.attempted(line, functools.partial(peers.trial, cell, pairing), failures))
            if done % 100 == 0 or done == len(plan):
                print(f"{done}/{len(plan)} trials", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(shared.run("flight", arguments(), measure, page))
