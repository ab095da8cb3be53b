"""A large run by formula, in the format of docs/format.md: what the analysis has to bear.

    python bench/scale/make_run.py DIRECTORY [--cells 2000] [--repeats 5] [--seconds 3]

Nothing in it was measured. Throughput is min(streams x one, all) cut by a cost a batch; noise is seeded, so
that two calls write the same run. Records are as long as real ones (60 percentiles, an HDR histogram,
resources of both ends), because their size is what is being tested. Samples come from a pool of formula
curves, one for each number of streams and a few phases: encoding 10,000 Parquet files of different content
would take minutes and test nothing else.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from counters import probes, samples, samples_file
from formula import CORES, PHASES, RUN, histogram, matrix, rate, record

from venturi.plan.cell import Cell

CELLS = 2000
"""Of a run that nothing is said of; with five repeats 10,000 trials."""


def write(path: Path, cells: int = CELLS, repeats: int = 5, seconds: float = 3.0) -> Path:
    """Writes the run and returns its directory, which must not exist."""
    found = matrix(cells)
    (path / "samples").mkdir(parents=True)
    names = [Cell(p).id for p in found]
    histograms = [histogram(seed) for seed in range(16)]
    pool: dict[tuple[int, int], bytes] = {}
    with (path / "trials.jsonl").open("w", encoding="utf-8") as out:
        order = 0
        for repeat in range(repeats):
            for p, name in zip(found, names, strict=True):
                line = record(p, name, repeat, order, histograms[order % len(histograms)])
                out.write(json.dumps(line, separators=(",", ":")) + "\n")
                key = (p["streams"], order % PHASES)
                if key not in pool:
                    pool[key] = samples_file(samples(key[0], rate(p), seconds, key[1]))
                (path / "samples" / f"{line['trial']}.parquet").write_bytes(pool[key])
                order += 1
    with (path / "ceilings.jsonl").open("w", encoding="utf-8") as out:
        for probe in probes(found):
            out.write(json.dumps(probe, separators=(",", ":")) + "\n")
    (path / "scenario.toml").write_text(
        '# Made by bench/scale/make_run.py\nname = "scale"\n', encoding="utf-8"
    )
    environment = {
        "format": 1,
        "run": RUN,
        "started_unix_ns": 1_790_000_000_000_000_000,
        "command": None,
        "client": {"software": {"venturi": "0.1.0"}, "host": "formula", "cores": {"logical": CORES}},
        "server": None,
    }
    (path / "environment.json").write_text(json.dumps(environment, indent=2) + "\n", encoding="utf-8")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--cells", type=int, default=CELLS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a trial's samples")
    given = parser.parse_args()
    if given.directory.exists():
        raise SystemExit(f"error: {given.directory}: is there already")
    print(write(given.directory, given.cells, given.repeats, given.seconds))


if __name__ == "__main__":
    main()
