"""Arrow Flight of wide and odd tables, one stream: Venturi at both ends beside pyarrow at both ends.

A round holds a get and a put of each table once, in shuffled order, both ways right after one another. Each
client is a new process; the servers live for the whole run. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import random
import sys
import tempfile
from pathlib import Path

import numpy as np

from bench import goals, shared
from bench.flight.peers import Server
from bench.page import Page
from bench.wide.tables import CELLS, write
from support.flight import serve_command

LEAST = 2.5
"""What Venturi at both ends must reach of pyarrow at both ends."""
WAYS = ("venturi", "pyarrow")
OPERATIONS = ("get", "put")
_SECONDS = 0.9
"""How long a trial of pyarrow's takes, about."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "wide", 9)
    parser.add_argument("--only", nargs="*", default=[""], help="tables whose names begin with one of these")
    return parser.parse_args()


def trial(request: shared.Line) -> shared.Line:
    found = shared.client("bench.wide.client", request)
    wanted = request["rows_per_batch"] * request["batches"]
    if found["rows"] != wanted:
        raise shared.ClientFailed(f"{request['way']}: {found['rows']} rows, not {wanted}")
    return found


def prepared(request: shared.Line, ways: dict[str, shared.Line]) -> shared.Line:
    """With as many batches as pyarrow takes its time for, and their payload."""
    for _ in range(2):  # the first one may be over too soon to tell
        found = trial({**request, **ways["pyarrow"], "way": "pyarrow"})
        request["batches"] = max(1, round(request["batches"] * _SECONDS / found["seconds"]))
    return {**request, "payload": trial({**request, **ways["venturi"], "way": "venturi"})["payload"]}


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    chosen = [cell for cell in CELLS if cell.table.startswith(tuple(options.only))]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = {cell: folder / cell.name.replace(" ", "-") for cell in chosen}
        for cell, path in files.items():
            write(cell, path)
        stock = [sys.executable, "-m", "bench.wide.tables", str(folder)]
        servers = {"venturi": Server(serve_command(), stack), "pyarrow": Server(stock, stack)}
        ways = {way: {"address": server.address, "pid": server.pid} for way, server in servers.items()}
        keep = shared.keeper(stack.enter_context(output.open("w")))
        keep({**shared.machine(), "rounds": options.rounds})
        turns = {}
        for cell in chosen:
            for operation in OPERATIONS:
                request = {"operation": operation, "file": str(files[cell]), "rows_per_batch": cell.rows}
                turns[cell.name, operation] = prepared({**request, "batches": 64}, ways)
        for number in range(options.rounds):
            for name, operation in draw.sample(list(turns), len(turns)):
                for way in draw.sample(WAYS, len(WAYS)):
                    line = {"kind": "trial", "round": number, "cell": name, "operation": operation}
                    line |= {"way": way, "payload": turns[name, operation]["payload"]}
                    run = functools.partial(trial, {**turns[name, operation], **ways[way], "way": way})
                    keep(shared.attempted(line, run, (shared.ClientFailed, ValueError)))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def rate(line: shared.Line) -> float:
    """GB/s."""
    return float(line["payload"] / line["seconds"] / 1e9)


def spent(line: shared.Line) -> float:
    return float(sum(line["cpu"]))


def _row(ours: dict[int, shared.Line], theirs: dict[int, shared.Line]) -> str:
    texts = [shared.spread(shared.ratios(ours, theirs, rate))]
    texts += [f"{shared.middle(lines, rate):.2f}" for lines in (ours, theirs)]
    for lines in (ours, theirs):
        ends = [
            shared.middle(lines, lambda line, end=end: 1e9 * line["cpu"][end] / line["payload"])
            for end in (0, 1)
        ]
        texts.append(" + ".join(f"{seconds:.2f}" for seconds in ends))
    return " | ".join([*texts, f"{float(np.median(shared.ratios(theirs, ours, spent))):.1f}"])


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "cell", "operation", "way")
    names = ("cell", "", "venturi / pyarrow", "venturi, GB/s", "pyarrow, GB/s", "venturi, CPU-s/GB")
    names += ("pyarrow, CPU-s/GB", "pyarrow / venturi")
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    judged, medians = [], []
    for cell in CELLS:
        for operation in OPERATIONS:
            ours, theirs = (found.get((cell.name, operation, way), {}) for way in WAYS)
            if ours.keys() & theirs.keys():
                table.append(f"| {cell.name} | {operation} | {_row(ours, theirs)} |")
                ratios = shared.ratios(ours, theirs, rate)
                medians.append(float(np.median(ratios)))
                judged += goals.judge(f"{operation} of {cell.name}, of pyarrow's", ratios, LEAST)
    return Page(
        "Flight of wide and odd tables, beside pyarrow",
        "payload bytes per second of Venturi at both ends and of pyarrow at both ends, one stream.",
        head,
        lines,
        ["Paired within a round: median, 95 % interval. CPU: client + server.", "", *table],
        judged,
        f"Venturi moves {min(medians):.1f} to {max(medians):.1f} times as much." if medians else "",
        f"{head['rounds']} rounds",
        shared.failures(lines, "cell", "operation", "way"),
    )


if __name__ == "__main__":
    sys.exit(shared.run("wide", arguments(), measure, page))
