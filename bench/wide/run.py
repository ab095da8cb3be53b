"""Arrow Flight of wide and odd tables, one stream: Venturi at both ends beside pyarrow at both ends.

A round holds every cell once, in an order that is drawn: a get and a put of each table, and within them both
ways and raw TCP right after one another, each client a process of its own, against servers that live for the
whole run. Told are payload bytes a second, and CPU-seconds of both ends for a GB. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from cells import CELLS, Cell, write

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import goals
import shared

HERE = Path(__file__).resolve().parent
LEAST = 2.5
"""What Venturi at both ends must reach of pyarrow at both ends."""
WAYS = ("venturi", "pyarrow")
LIMIT = "tcp"
OPERATIONS = ("get", "put")
_SECONDS = 0.9
"""Of a trial of pyarrow's, about."""
_BATCHES = 64
"""Of the trial that finds how many a trial takes."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "wide", 9)
    parser.add_argument("--only", nargs="*", default=[""], help="tables whose names begin so")
    return parser.parse_args()


@contextlib.contextmanager
def serving(*command: str) -> Iterator[dict[str, Any]]:
    """What the first line of a server says; it ends when its standard input does."""
    line = [sys.executable, *command]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin and server.stdout
        ready: dict[str, Any] = json.loads(server.stdout.readline())
        yield {"pid": server.pid, "address": ready["address"].removeprefix("flight://")}
        server.stdin.close()


def trial(asked: dict[str, Any]) -> shared.Line:
    line = [sys.executable, str(HERE / "client.py"), json.dumps(asked)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=180)
    if ended.returncode != 0:
        raise OSError(f"{asked['way']}: {ended.stderr.strip()[-500:]}")
    found: shared.Line = json.loads(ended.stdout)
    if asked["way"] != LIMIT and found["rows"] != asked["rows_per_batch"] * asked["batches"]:
        raise OSError(f"{asked['way']}: {found['rows']} rows, and not {asked}")
    return found


def prepared(asked: dict[str, Any], ways: dict[str, Any]) -> dict[str, Any]:
    """The same with as many batches as pyarrow takes its time for, and what these weigh."""
    for _ in range(2):  # the first one may be over too soon to tell
        found = trial({**asked, **ways["pyarrow"], "way": "pyarrow"})
        asked["batches"] = max(1, round(asked["batches"] * _SECONDS / found["seconds"]))
    return {**asked, "payload": trial({**asked, **ways["venturi"], "way": "venturi"})["payload"]}


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    chosen = [cell for cell in CELLS if cell.table.startswith(tuple(options.only))]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = {cell: folder / cell.name.replace(" ", "-") for cell in chosen}
        for cell, path in files.items():
            write(cell, path)
        serve = ("-m", "venturi", "serve", "flight", "--port", "0", "--json", "--exit-with-parent")
        venturi = stack.enter_context(serving(*serve))
        ways = {
            "venturi": venturi,
            LIMIT: venturi,
            "pyarrow": stack.enter_context(serving(str(HERE / "peer.py"), str(folder))),
        }
        keep = shared.keeper(stack.enter_context(output.open("w")))
        keep(shared.machine())

        def first(cell: Cell, operation: str) -> dict[str, Any]:
            asked = {"operation": operation, "file": str(files[cell]), "rows_per_batch": cell.rows}
            return prepared({**asked, "batches": _BATCHES}, ways)

        turns = [(cell, operation) for cell in chosen for operation in OPERATIONS]
        asked = {turn: first(*turn) for turn in turns}
        for number in range(options.rounds):
            for turn in draw.sample(turns, len(turns)):
                for way in draw.sample(list(ways), len(ways)):
                    line = {"kind": "trial", "round": number, "cell": turn[0].name, "operation": turn[1]}

                    def run(turn: tuple[Cell, str] = turn, way: str = way) -> shared.Line:
                        found = trial({**asked[turn], **ways[way], "way": way})
                        return {"payload": asked[turn]["payload"], **found}

                    failures = (OSError, ValueError, subprocess.TimeoutExpired)
                    keep(shared.attempted({**line, "way": way}, run, failures))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def rate(line: shared.Line) -> float:
    """GB/s."""
    return float(line["payload"] / line["seconds"] / 1e9)


def spent(line: shared.Line) -> float:
    return float(sum(line["cpu"]))


def _row(*ways: dict[int, shared.Line]) -> str:
    ours, theirs, limit = ways
    texts = [shared.spread(shared.ratios(lines, theirs, rate)) for lines in (ours, limit)]
    texts += [f"{shared.middle(lines, rate):.2f}" if lines else "-" for lines in ways]
    for lines in (ours, theirs):
        ends = [
            shared.middle(lines, lambda line, end=end: 1e9 * line["cpu"][end] / line["payload"])
            for end in (0, 1)
        ]
        texts.append(" + ".join(f"{seconds:.2f}" for seconds in ends))
    less = float(np.median(shared.ratios(theirs, ours, spent)))
    return " | ".join([*texts, f"{less:.1f}"])


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "cell", "operation", "way")
    names = (
        *("cell", "", "venturi / pyarrow", "raw TCP / pyarrow", "venturi, GB/s", "pyarrow, GB/s"),
        "raw TCP, GB/s",
        *("venturi, CPU-s/GB", "pyarrow, CPU-s/GB", "pyarrow / venturi"),
    )
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    judged = []
    for cell in CELLS:
        for operation in OPERATIONS:
            ours, theirs, limit = (found.get((cell.name, operation, way), {}) for way in (*WAYS, LIMIT))
            if ours.keys() & theirs.keys():
                table.append(f"| {cell.name} | {operation} | {_row(ours, theirs, limit)} |")
                ratios = shared.ratios(ours, theirs, rate)
                judged += goals.judge(f"{operation} of {cell.name}, of pyarrow's", ratios, LEAST)
    said = [
        "# Flight of wide and odd tables, beside pyarrow",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f}, "
        f"{shared.steal(lines)}.",
        "One stream, both ends alike; paired within a round: median, 95 % interval. CPU: client + server, "
        "and all of pyarrow's over all of Venturi's. Raw TCP: bytes of no meaning over one "
        "connection.",
        "",
        *table,
    ]
    return shared.Told("\n".join(said), judged, shared.failures(lines, "cell", "operation", "way"))


if __name__ == "__main__":
    sys.exit(shared.run("wide", arguments(), measure, told))
