"""`exec://` beside a pipeline of the shell: what it costs to let Venturi read what a program writes.

A round holds every way once, in an order that is drawn: the pipeline `cat FILE | dd of=/dev/null bs=64k`,
which reads and throws away; and gets of `cat FILE` by exec://, rows counted, as an Arrow stream and as lines.
All are told as bytes of the file a second. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import goals
import shared
from core_trials import TrialFailed, trial

PIPELINE, ARROW, LINES = "pipeline", "exec://, arrow", "exec://, lines"
LEAST = 0.95
"""What a get must reach of the pipeline."""
_ROWS = 32_768


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "exec", 15)
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the file, about (default 1 GiB)")
    return parser.parse_args()


def write(path: Path, size: int) -> None:
    """An Arrow stream of four columns of integers, 1 MiB a batch."""
    values = np.random.default_rng(1).integers(0, 2**62, size=(4, _ROWS))
    batch = pa.record_batch(list(map(pa.array, values)), names=list("abcd"))
    with pa.ipc.new_stream(path, batch.schema) as writer:
        for _ in range(max(1, size // batch.nbytes)):
            writer.write_batch(batch)


def pipeline(path: Path) -> float:
    """Seconds from its start to its end, which the start of two programs is a part of."""
    line = f"cat {shlex.quote(str(path))} | dd of=/dev/null bs=64k 2>/dev/null"
    began = time.perf_counter()
    subprocess.run(["sh", "-c", line], check=True)
    return time.perf_counter() - began


def get(path: Path, form: str) -> float:
    options = {"command": ["cat", str(path)], "format": form}
    found = trial(
        target="exec://",
        data={"source": "remote"},
        options=options,
        rows_per_batch=_ROWS,
        streams=1,
        threads=1,
    )
    return float(found["times"]["interval_ns"]) / 1e9


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    with tempfile.TemporaryDirectory() as folder, output.open("w") as file:
        path = Path(folder) / "rows.arrows"
        write(path, options.bytes)
        size = path.stat().st_size
        ways = {
            PIPELINE: lambda: pipeline(path),
            ARROW: lambda: get(path, "arrow"),
            LINES: lambda: get(path, "lines"),
        }
        keep = shared.keeper(file)
        keep({**shared.machine(), "bytes": size})
        for way in ways.values():
            way()
        for number in range(options.rounds):
            for way in draw.sample(list(ways), len(ways)):
                line = {"kind": "trial", "round": number, "way": way}

                def run(way: str = way) -> shared.Line:
                    return {"rate": size / ways[way]()}

                keep(shared.attempted(line, run, (OSError, subprocess.SubprocessError, TrialFailed)))


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "way")
    table = ["| way | GB/s | of the pipeline | rounds |", "|---|---|---|---|"]
    for way, own in found.items():
        ratios = shared.ratios(own, found.get(PIPELINE, {}), _rate)
        rate = shared.middle(own, _rate) / 1e9
        table.append(f"| {way} | {rate:.2f} | {shared.spread(ratios, 3)} | {len(ratios)} |")
    ratios = shared.ratios(found.get(ARROW, {}), found.get(PIPELINE, {}), _rate)
    said = [
        "# exec:// beside a pipeline of the shell",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f}.",
        f"A file of {head['bytes'] / 1e9:.2f} GB; paired within a round: median, 95 % interval.",
        "",
        *table,
    ]
    judged = goals.judge(f"{ARROW} of {PIPELINE}", ratios, LEAST)
    return shared.Told("\n".join(said), judged, shared.failures(lines, "way"))


def _rate(line: shared.Line) -> float:
    return float(line["rate"])


if __name__ == "__main__":
    sys.exit(shared.run("exec", arguments(), measure, told))
