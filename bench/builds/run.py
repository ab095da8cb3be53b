"""Two builds of Venturi beside each other: whether a change made a hot path slower.

`--before` names a checkout in which `make` ran; this one is after. A round holds every cell once, in an order
that is drawn, and within a cell both builds right after one another, each in a process of its own. Told is
the median over the rounds of after to before, with its 95 % interval. The exit status is 1 where an interval
lies below 1 as a whole, or where a trial failed. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import shared

TIMED = {"repeats": 1, "warmup": 0, "duration": "1s"}
FLIGHT = {"target": "flight://local", "rows_per_batch": 4096}
CHARROW = {"target": "charrow://local", "operation": "get"}
STORE = {"target": "akumuli://local", "operation": "ingest", "streams": 2}
CELLS: dict[str, dict[str, Any]] = {
    "Flight, get, 1 stream": {**FLIGHT, "operation": "get", "streams": 1},
    "Flight, get, 4 streams": {**FLIGHT, "operation": "get", "streams": 4},
    "Flight, put, 1 stream": {**FLIGHT, "operation": "put", "streams": 1},
    "Flight, put, 4 streams": {**FLIGHT, "operation": "put", "streams": 4},
    "Flight, get, 100 rows a batch": {**FLIGHT, "operation": "get", "streams": 1, "rows_per_batch": 100},
    "charrow, 2 streams": {**CHARROW, "streams": 2},
    "charrow, 2 decoders, zstd": {**CHARROW, "streams": 2, "decoders": 2, "compression": "zstd"},
    "ingest, RESP": STORE,
    "ingest, Influx's lines": {**STORE, "target": "influx://local"},
    "points made and discarded": {"target": "empty://", "operation": "ingest", "streams": 2},
    "SQLite, 1,000 rows a batch": {"target": "sqlite://local", "operation": "upsert", "rows_per_batch": 1000},
    "SQLite, 1 row a batch": {"target": "sqlite://local", "operation": "upsert", "rows_per_batch": 1},
    "statements made and discarded": {
        "target": "empty://",
        "operation": "upsert",
        "rows_per_batch": 500,
        "generate": "inline",
    },
}
TRIAL = """
import json, sys, tempfile
import venturi
with tempfile.TemporaryDirectory() as place:
    run = venturi.run(out=place + "/run", **json.loads(sys.argv[1]))
    trial = run.trials.to_pylist()[0]
    rate = "rows_per_second" if trial["operation"] in ("upsert", "ingest") else "bytes_per_second"
    print(json.dumps({"outcome": trial["outcome"], "error": trial.get("error"), "rate": trial[rate]}))
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--before", type=Path, help="the checkout of the other build")
    add("--rounds", type=int, default=10, help="of every cell and build once (default 10)")
    add("--only", default="", help="cells whose name holds this")
    add("--record", action="store_true", help="keep the table as bench/builds/results/<date>.md")
    add("--output", type=Path, help="keep the lines of JSON here")
    add("--from", dest="source", type=Path, help="the table of lines that were kept")
    options = parser.parse_args()
    if options.source is None and not (options.before and (options.before / "python/venturi").is_dir()):
        parser.error("--before: a checkout of Venturi in which `make` ran")
    return options


def trial(checkout: Path, cell: dict[str, Any]) -> shared.Line:
    line = [sys.executable, "-c", TRIAL, json.dumps({**TIMED, **cell})]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "python")}
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=120)
    if ended.returncode != 0:
        raise OSError(ended.stderr.strip().splitlines()[-1])
    found: shared.Line = json.loads(ended.stdout.splitlines()[-1])
    if found["outcome"] != "ok":
        raise OSError(str(found["error"]))
    return found


def measure(options: argparse.Namespace, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    cells = {name: cell for name, cell in CELLS.items() if options.only in name}
    builds = {"before": options.before, "after": shared.ROOT}
    commit = ["git", "-C", str(options.before), "describe", "--always", "--dirty"]
    other = subprocess.run(commit, capture_output=True, text=True).stdout.strip()
    draw = random.Random(20261123)
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "before": other})
        for number in range(options.rounds):
            for name in draw.sample(list(cells), len(cells)):
                for build in draw.sample(list(builds), 2):
                    line = {"kind": "trial", "round": number, "cell": name, "build": build}

                    def run(build: str = build, name: str = name) -> shared.Line:
                        return trial(builds[build], cells[name])

                    keep(shared.attempted(line, run, (OSError, subprocess.TimeoutExpired)))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def tabled(source: Path) -> tuple[str, bool]:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found: dict[str, dict[int, dict[str, float]]] = {}
    failed = [line for line in lines if line.get("error")]
    for line in lines:
        if line not in failed:
            found.setdefault(line["cell"], {}).setdefault(line["round"], {})[line["build"]] = line["rate"]
    table = ["| cell | after / before | rounds |", "|---|---|---|"]
    met = not failed
    for name in CELLS:
        ratios = [it["after"] / it["before"] for it in found.get(name, {}).values() if len(it) == 2]
        if not ratios:
            continue
        low, high = shared.bootstrap(ratios)
        slower = high < 1
        met = met and not slower
        text = f"{sorted(ratios)[len(ratios) // 2]:.3f} [{low:.3f}..{high:.3f}]"
        table.append(f"| {name} | {f'**{text}**' if slower else text} | {len(ratios)} |")
    said = [
        "# Two builds of Venturi",
        "",
        f"{head['date']}; {shared.described(head)}, before: {head['before']};"
        f" load before {head['load_before']:.2f}.",
        "Throughput (payload or rows a second), paired within a round: median, 95 % interval. Bold: slower.",
        "",
        *table,
        *(f"\nfailed: {line['cell']}, {line['build']}: {line['error']}" for line in failed),
        "",
    ]
    return "\n".join(said), met


if __name__ == "__main__":
    options = arguments()
    sys.exit(shared.run("builds", options, measure, tabled))
