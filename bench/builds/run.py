"""Two builds of Venturi beside each other: whether a change made a hot path slower.

`--before` names a checkout in which `make` ran; this one is after. A round holds every cell once, in an order
that is drawn, and within a cell both builds right after one another, each in a process of its own. Told is
the median over the rounds of after to before, with its 95 % interval. See bench/README.md.
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

import goals
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
    parser = shared.arguments(__doc__, "builds", 10, "of every cell and build once")
    parser.add_argument("--before", type=Path, help="the checkout of the other build")
    parser.add_argument("--only", default="", help="cells whose name holds this")
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
    return {"rate": found["rate"]}


def measure(options: argparse.Namespace, output: Path) -> None:
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


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "cell", "build")
    judged = []
    for name in CELLS:
        before, after = (found.get((name, build), {}) for build in ("before", "after"))
        judged += goals.judge(name, shared.ratios(after, before, lambda line: float(line["rate"])), 1)
    said = [
        "# Two builds of Venturi",
        "",
        f"{head['date']}; {shared.described(head)}, before: {head['before']};"
        f" load before {head['load_before']:.2f}.",
        "Throughput (payload or rows a second), after over before, paired within a round: median, 95 % "
        "interval.",
    ]
    return shared.Told("\n".join(said), judged, shared.failures(lines, "cell", "build"))


if __name__ == "__main__":
    sys.exit(shared.run("builds", arguments(), measure, told))
