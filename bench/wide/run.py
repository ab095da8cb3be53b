"""Arrow Flight of wide and odd tables, one stream: Venturi at both ends beside pyarrow at both ends.

A round holds every cell once, in an order that is drawn: a get and a put of each table, and within them both
ways right after one another, each client a process of its own, against servers that live for the whole run.
Told are payload bytes a second, and CPU-seconds of both ends for a GB. The exit status is 1 where the 95 %
interval of the ratio lies below 2.5 as a whole, or where a trial failed. See bench/README.md.
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

import shared

HERE = Path(__file__).resolve().parent
LEAST = 2.5
"""What Venturi at both ends must reach of pyarrow at both ends."""
WAYS = ("venturi", "pyarrow")
OPERATIONS = ("get", "put")
_SECONDS = 0.9
"""Of a trial of pyarrow's, about."""
_BATCHES = 64
"""Of the trial that finds how many a trial takes."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=9, help="of every cell and way once (default 9)")
    add("--only", nargs="*", default=[""], help="tables whose names begin so")
    add("--record", action="store_true", help="keep the table as bench/wide/results/<date>.md")
    add("--output", type=Path, help="keep the lines of JSON here")
    add("--from", dest="source", type=Path, help="the table of lines that were kept")
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
    if found["rows"] != asked["rows_per_batch"] * asked["batches"]:
        raise OSError(f"{asked['way']}: {found['rows']} rows, and not {asked}")
    return found


def prepared(asked: dict[str, Any], ways: dict[str, Any]) -> dict[str, Any]:
    """The same with as many batches as pyarrow takes its time for, and what these weigh."""
    for _ in range(2):  # the first one may be over too soon to tell
        found = trial({**asked, **ways["pyarrow"], "way": "pyarrow"})
        asked["batches"] = max(1, round(asked["batches"] * _SECONDS / found["seconds"]))
    return {**asked, "payload": trial({**asked, **ways["venturi"], "way": "venturi"})["payload"]}


def measure(options: argparse.Namespace, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(20261125)
    chosen = [cell for cell in CELLS if cell.table.startswith(tuple(options.only))]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = {cell: folder / cell.name.replace(" ", "-") for cell in chosen}
        for cell, path in files.items():
            write(cell, path)
        serve = ("-m", "venturi", "serve", "flight", "--port", "0", "--json", "--exit-with-parent")
        ways = {
            "venturi": stack.enter_context(serving(*serve)),
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
                for way in draw.sample(WAYS, len(WAYS)):
                    line = {"kind": "trial", "round": number, "cell": turn[0].name, "operation": turn[1]}

                    def run(turn: tuple[Cell, str] = turn, way: str = way) -> shared.Line:
                        found = trial({**asked[turn], **ways[way], "way": way})
                        return {**found, "payload": asked[turn]["payload"]}

                    failures = (OSError, ValueError, subprocess.TimeoutExpired)
                    keep(shared.attempted({**line, "way": way}, run, failures))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def _row(found: dict[str, dict[int, shared.Line]]) -> tuple[str, bool]:
    """Of a cell and an operation, and whether it falls short."""
    both = sorted(set(found["venturi"]) & set(found["pyarrow"]))
    if not both:
        return "no round with both", True
    ratios = [found["pyarrow"][n]["seconds"] / found["venturi"][n]["seconds"] for n in both]
    low, high = shared.bootstrap(ratios)
    texts = [f"{np.median(ratios):.2f} [{low:.2f}..{high:.2f}]"]
    short = high < LEAST
    if short:
        texts[0] = f"**{texts[0]}**"
    for way in WAYS:
        lines = [found[way][n] for n in both]
        rate = np.median([line["payload"] / line["seconds"] for line in lines]) / 1e9
        texts.append(f"{rate:.2f}")
    for way in WAYS:
        lines = [found[way][n] for n in both]
        spent = [np.median([line["cpu"][end] / line["payload"] for line in lines]) * 1e9 for end in (0, 1)]
        texts.append(" + ".join(f"{seconds:.2f}" for seconds in spent))
    cpu = {way: [sum(found[way][n]["cpu"]) for n in both] for way in WAYS}
    less = np.median([other / own for own, other in zip(cpu["venturi"], cpu["pyarrow"], strict=True)])
    return " | ".join([*texts, f"{less:.1f}", str(len(both))]), short


def tabled(source: Path) -> tuple[str, bool]:
    head, *lines = map(json.loads, source.read_text().splitlines())
    failed = [line for line in lines if line.get("error")]
    cells: dict[tuple[str, str], dict[str, dict[int, shared.Line]]] = {}
    for line in lines:
        found = cells.setdefault((line["cell"], line["operation"]), {way: {} for way in WAYS})
        if line not in failed:
            found[line["way"]][line["round"]] = line
    names = (
        *("cell", "", "venturi / pyarrow", "venturi, GB/s", "pyarrow, GB/s"),
        *("venturi, CPU-s/GB", "pyarrow, CPU-s/GB", "pyarrow / venturi", "rounds"),
    )
    table = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    met = not failed
    for cell in CELLS:
        for operation in OPERATIONS:
            if (cell.name, operation) in cells:
                row, short = _row(cells[cell.name, operation])
                met = met and not short
                table.append(f"| {cell.name} | {operation} | {row} |")
    stolen = max((line["steal"] for line in lines), default=0.0)
    said = [
        "# Flight of wide and odd tables, beside pyarrow",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f},"
        f" at most {stolen:.0%} of the CPU time of a trial stolen.",
        "One stream, both ends alike; paired within a round: median, 95 % interval. "
        f"CPU: client + server, and all of pyarrow's over all of Venturi's. Bold: falls short of {LEAST}.",
        "",
        *table,
        *(f"\nfailed: {line['cell']}, {line['operation']}: {line['error']}" for line in failed),
        "",
    ]
    return "\n".join(said), met


if __name__ == "__main__":
    options = arguments()
    sys.exit(shared.run("wide", options, measure, tabled))
