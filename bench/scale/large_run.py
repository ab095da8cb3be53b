"""A run of thousands of trials, made of a few that were measured.

Gets and puts of 0.2 s are measured over loopback, once for each number of streams. Their records are repeated
over a matrix of parameters with other rates, so that each is as long as a real one. How long the analysis
takes depends on that; what it finds means nothing. `python -m bench.scale.large_run DIRECTORY` keeps one.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from venturi.plan.cell import Cell

CELLS, REPEATS = 2000, 5
STREAMS = (1, 2, 4, 8)
BATCHES = tuple(256 << step for step in range(10))
WINDOWS = (None, *(65_536 << step for step in range(12)))
COMPRESSION = (None, "zstd")
_MOVED = ("rows", "batches", "payload_bytes", "wire_bytes")


def templates(work: Path) -> list[dict[str, Any]]:
    """Trials as they are measured here; the run with their samples and limits stays in `work`."""
    words = ("--target", "flight://local", "--operation", "get,put", "--streams", ",".join(map(str, STREAMS)))
    more = ("--duration", "200ms", "--repeats", "1", "--warmup", "0", "--no-report", "--quiet")
    command = [sys.executable, "-m", "venturi", "run", *words, *more, "--out", str(work)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return [json.loads(line) for line in (work / "trials.jsonl").read_text().splitlines()]


def varied(template: dict[str, Any], changes: dict[str, Any], repeat: int, order: int) -> dict[str, Any]:
    """The template as a trial of another cell, faster or slower by a factor that the cell has, and noise."""
    record = copy.deepcopy(template)
    record["parameters"] |= changes
    cell = Cell(record["parameters"]).id
    factor = random.Random(cell).uniform(0.5, 2) * random.Random(order).gauss(1, 0.015)
    for name in _MOVED:
        record["counts"][name] = int(record["counts"][name] * factor)
    for name in ("steady_rows", "steady_payload_bytes"):
        if record["times"].get(name):
            record["times"][name] = int(record["times"][name] * factor)
    return record | {"cell": cell, "repeat": repeat, "order": order, "trial": f"{order:016x}"}


def write(path: Path, cells: int = CELLS, repeats: int = REPEATS) -> Path:
    """Makes the run; its directory must not exist."""
    with tempfile.TemporaryDirectory() as work:
        measured = Path(work) / "run"
        found = templates(measured)
        matrix = list(itertools.product(found, BATCHES, WINDOWS, COMPRESSION))
        step = max(1, len(matrix) // cells)
        matrix = matrix[::step][:cells]
        (path / "samples").mkdir(parents=True)
        order = 0
        with (path / "trials.jsonl").open("w", encoding="utf-8") as out:
            for repeat in range(repeats):
                for template, batch, window, compression in matrix:
                    changes = {"rows_per_batch": batch, "window": window, "compression": compression}
                    record = varied(template, changes, repeat, order)
                    out.write(json.dumps(record, separators=(",", ":")) + "\n")
                    samples = measured / "samples" / f"{template['trial']}.parquet"
                    (path / "samples" / f"{record['trial']}.parquet").hardlink_to(samples)
                    order += 1
        for name in ("ceilings.jsonl", "environment.json", "scenario.toml"):
            if (measured / name).exists():
                shutil.copy(measured / name, path / name)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cells", type=int, default=CELLS)
    options = parser.parse_args()
    print(write(options.directory, options.cells))
