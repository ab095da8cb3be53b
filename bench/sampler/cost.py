"""What the sampling of resources costs the transfer that it watches.

The same trials with and without samples, against one reference server: a round holds each setting once, in
an order that is drawn, so that a slow minute meets all of them. Told is, per setting, the median over the
rounds of throughput (and of CPU time a byte) against the unsampled trial of the same round, with its 95 %
interval, beside what the sampler says of itself. The exit status is 1 where the interval of the default
setting proves a loss of 1 % or more. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

from venturi import _core
from venturi.analysis.statistics.intervals import Interval, median_interval

HERE = Path(__file__).resolve().parent
MOST = 0.01
"""Of throughput: what sampling may cost."""
SETTINGS = {"none": 0, "100 ms (default)": 100_000_000, "20 ms": 20_000_000}
DEFAULT = "100 ms (default)"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=40, help="of every setting once (default 40)")
    add("--seconds", type=float, default=1.0, help="a trial (default 1)")
    add("--streams", type=int, default=len(os.sched_getaffinity(0)), help="default: a stream a core")
    add("--record", action="store_true", help="keep the table as bench/sampler/results/<date>.md")
    return parser.parse_args()


def trial(address: str, operation: str, options: argparse.Namespace, interval_ns: int) -> dict[str, Any]:
    spec = {
        "trial": uuid.uuid4().hex,
        "target": address,
        "options": {},
        "operation": operation,
        "data": {"source": "records", "columns": 4, "values": "random", "seed": 1},
        "rows_per_batch": 16_384,
        "rows_per_stream": None,
        "duration_ns": int(options.seconds * 1e9),
        "streams": options.streams,
        "threads": options.streams,
        "verify": "checksum",
        "include_setup": False,
        "timeout_ns": 30_000_000_000,
        "sample_interval_ns": interval_ns,
    }
    record: dict[str, Any] = json.loads(_core.run_trial(json.dumps(spec), _core.Control()))
    if record["outcome"] != "ok":
        sys.exit(f"a trial failed: {record['error']}")
    return record


def throughput(record: dict[str, Any]) -> float:
    return float(record["counts"]["payload_bytes"] / record["times"]["interval_ns"])


def cpu_per_byte(record: dict[str, Any]) -> float:
    spent = sum(record["cpu"][end][kind] for end in ("client", "server") for kind in ("user_ns", "system_ns"))
    return float(spent / record["counts"]["payload_bytes"])


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[dict[str, Any]]]]:
    line = [sys.executable, "-m", "venturi", "serve", "flight", "--port", "0", "--json", "--exit-with-parent"]
    server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        address = address if "://" in address else f"flight://{address}"
        found: dict[str, dict[str, list[dict[str, Any]]]] = {
            operation: {name: [] for name in SETTINGS} for operation in ("get", "put")
        }
        draw = random.Random(20191104)
        cells = [(operation, name) for operation in found for name in SETTINGS]
        for number in range(-1, options.rounds):  # the first one warms up
            for operation in draw.sample(list(found), len(found)):
                for name in draw.sample(list(SETTINGS), len(SETTINGS)):
                    record = trial(address, operation, options, SETTINGS[name])
                    if number >= 0:
                        found[operation][name].append(record)
        assert all(len(found[operation][name]) == options.rounds for operation, name in cells)
        return found
    finally:
        server.terminate()
        server.wait(20)


def ratio(sampled: list[dict[str, Any]], bare: list[dict[str, Any]], of: Any) -> Interval:
    return median_interval([of(one) / of(other) for one, other in zip(sampled, bare, strict=True)])


def percent(interval: Interval) -> str:
    value, low, high = (100 * (x - 1) for x in (interval.median, interval.low, interval.high))
    return f"{value:+.2f} % [{low:+.2f}..{high:+.2f}]"


def main() -> int:
    options = arguments()
    load, began = os.getloadavg()[0], time.time()
    found = measure(options)
    kernel = platform.release().split("-")[0]
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {kernel}"
    lines = [
        f"# What sampling costs, {time.strftime('%Y-%m-%d %H:%M', time.gmtime(began))} UTC",
        "",
        f"{options.rounds} rounds of {options.seconds:g} s trials, {options.streams} streams over loopback, "
        f"16,384 rows of 32 bytes a batch, checksum verified; {machine}; load {load:.2f} before. Against the "
        "unsampled trial of the same round.",
        "",
        "| operation | samples every | MB/s | throughput | CPU a byte | the sampler says of itself |",
        "|---|---|---|---|---|---|",
    ]
    proven = False
    for operation, by_name in found.items():
        for name, records in by_name.items():
            rate = median_interval([1e3 * throughput(r) for r in records]).median
            fields = [operation, name, f"{rate:,.0f}"]
            if name == "none":
                fields += ["-", "-", "-"]
            else:
                lost = ratio(records, by_name["none"], throughput)
                proven |= name == DEFAULT and lost.high <= 1 - MOST
                shares = [100 * r["resources"]["sampler"]["share"] for r in records]
                fields += [
                    percent(lost),
                    percent(ratio(records, by_name["none"], cpu_per_byte)),
                    f"{median_interval(shares).median:.2f} % of the CPU time of both ends",
                ]
            lines.append("| " + " | ".join(fields) + " |")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.record:
        path = HERE / "results" / f"{time.strftime('%Y-%m-%d-%H%M', time.gmtime(began))}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"recorded: {path}", file=sys.stderr)
    return int(proven)


if __name__ == "__main__":
    sys.exit(main())
