"""What the sampling of resources costs the transfer that it watches.

The same trials with and without samples, against one reference server: a round holds each setting once, in
an order that is drawn, so that a slow minute meets all of them. Told is, per setting, the median over the
rounds of throughput (and of CPU time a byte) against the unsampled trial of the same round, with its 95 %
interval, beside what the sampler says of itself. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import goals
import shared
from core_trials import TrialFailed, trial
from venturi.servers.reference import ReferenceServer

LEAST = 0.99
"""Of throughput: what must be left of it with samples."""
OPERATIONS = ["get", "put"]
SETTINGS = {"none": 0, "100 ms (default)": 100_000_000, "20 ms": 20_000_000}
DEFAULT = "100 ms (default)"


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "sampler", 40, "of every setting once")
    add = parser.add_argument
    add("--seconds", type=float, default=1.0, help="a trial (default 1)")
    add("--streams", type=int, default=len(os.sched_getaffinity(0)), help="default: a stream a core")
    return parser.parse_args()


def sampled(address: str, options: argparse.Namespace, operation: str, interval_ns: int) -> shared.Line:
    record = trial(
        target=address,
        options={},
        operation=operation,
        rows_per_batch=16_384,
        duration_ns=int(options.seconds * 1e9),
        streams=options.streams,
        threads=options.streams,
        verify="checksum",
        timeout_ns=30_000_000_000,
        sample_interval_ns=interval_ns,
    )
    spent = sum(record["cpu"][end][kind] for end in ("client", "server") for kind in ("user_ns", "system_ns"))
    return {
        "bytes": record["counts"]["payload_bytes"],
        "interval_ns": record["times"]["interval_ns"],
        "cpu_ns": spent,
        "share": record["resources"]["sampler"]["share"] if interval_ns else None,
    }


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20191104)
    with ReferenceServer(kind="flight") as server, output.open("w") as file:
        keep = shared.keeper(file)
        told = {"rounds": options.rounds, "seconds": options.seconds, "streams": options.streams}
        keep({**shared.machine(), **told})
        for number in range(-1, options.rounds):  # the first one warms up
            for operation in draw.sample(OPERATIONS, len(OPERATIONS)):
                for name in draw.sample(list(SETTINGS), len(SETTINGS)):
                    line = {"kind": "trial", "round": number, "operation": operation, "samples": name}
                    asked = (f"flight://{server.address}", options, operation, SETTINGS[name])
                    shared.attempted(line, partial(sampled, *asked), (TrialFailed,))
                    if number >= 0 or "error" in line:
                        keep(line)


def throughput(line: shared.Line) -> float:
    """MB/s of payload."""
    return float(1e3 * line["bytes"] / line["interval_ns"])


def cpu_per_byte(line: shared.Line) -> float:
    return float(line["cpu_ns"] / line["bytes"])


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "operation", "samples")
    text = [
        f"# What sampling costs, {head['date'][:16].replace('T', ' ')} UTC",
        "",
        f"{head['rounds']} rounds of {head['seconds']:g} s trials, {head['streams']} streams over loopback, "
        f"16,384 rows of 32 bytes a batch, checksum verified; {shared.described(head)}; load before "
        f"{head['load_before']:.2f}, {shared.steal(lines)}. Ratios to the unsampled trial of the same round.",
        "",
        "| operation | samples every | MB/s | throughput | CPU a byte | the sampler says of itself |",
        "|---|---|---|---|---|---|",
    ]
    judged = []
    for (operation, name), own in found.items():
        fields = [operation, name, f"{shared.middle(own, throughput):,.0f}", *("-" * 3)]
        if name != "none":
            bare = found[operation, "none"]
            kept, spent = (shared.ratios(own, bare, figure) for figure in (throughput, cpu_per_byte))
            share = shared.middle(own, lambda line: float(100 * line["share"]))
            said = f"{share:.2f} % of the CPU time of both ends"
            fields[3:] = [shared.spread(kept, 3), shared.spread(spent, 3), said]
            if name == DEFAULT:
                judged += goals.judge(f"{operation} with samples, of the same without", kept, LEAST)
        text.append("| " + " | ".join(fields) + " |")
    return shared.Told("\n".join(text), judged, shared.failures(lines, "operation", "samples"))


if __name__ == "__main__":
    sys.exit(shared.run("sampler", arguments(), measure, told))
