"""What Venturi costs between a user and what it measures: a driver, a program, the samples of resources.

A round holds every seam once, in shuffled order, with and without Venturi right after one another:
- drivers: a get of `adbc://` beside the same driver called by code in C (alone.c), which counts its rows too;
- programs: a get of `exec://` from `cat FILE` beside `cat FILE | dd of=/dev/null bs=64k`;
- samples: a get and a put of Flight with samples every 100 ms, the default, beside the same without.
See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import random
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import adbc_driver_manager as manager
import numpy as np
import pyarrow as pa

from bench import goals, shared
from bench.page import Page
from bench.trial import RECORDS, TrialFailed, trial
from venturi.common.errors import VenturiError
from venturi.servers import local, throwaway
from venturi.servers.reference import ReferenceServer

PARTS = ("drivers", "programs", "samples")
LEAST = {"drivers": 0.98, "programs": 0.95, "samples": 0.99}
"""What must be left of the rate without Venturi, or without samples."""
FAILURES = (OSError, ValueError, TrialFailed, subprocess.SubprocessError)
_BATCH = 65_536
_TABLE = "venturi_put"
_ROWS = {"sqlite": 1.0, "postgresql": 2.0, "duckdb": 8.0}
"""Rows of a driver's table, over those that were asked for: a trial of each shall take about as long."""
_CHUNK_ROWS = 32_768


@dataclass(frozen=True)
class Seam:
    """Two ways to do the same: each returns how much it does per second."""

    part: str
    name: str
    without: Callable[[], float]
    venturi: Callable[[], float]

    def rate(self, way: str) -> shared.Line:
        return {"rate": (self.venturi if way == "venturi" else self.without)()}


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "overhead", 20)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    add("--rows", type=int, default=1_000_000, help="of SQLite's table (default 1M); others have more")
    add("--bytes", type=int, default=1 << 30, help="of the program's file, about (default 1 GiB)")
    add("--seconds", type=float, default=1.0, help="of a trial with or without samples (default 1)")
    return parser.parse_args()


# ---- drivers


def databases(folder: Path, stack: contextlib.ExitStack) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Each driver with the options by which it finds its database; and what could not be had."""
    found = {"sqlite": {"uri": str(folder / "s.db")}, "duckdb": {"path": str(folder / "d.db")}}
    try:
        server = stack.enter_context(throwaway.named("postgres")())
    except VenturiError as error:
        return found, [f"postgresql: {error.message}"]
    return found | {"postgresql": {"uri": f"postgresql://venturi@{server.address}/venturi"}}, []


def by_venturi(name: str, login: dict[str, str], rows: int, operation: str = "get") -> float:
    driver = [f"{key}={value}" for key, value in login.items()]
    options = {**local.adbc_driver(f"adbc://{name}"), "driver_options": driver, "table": _TABLE}
    data = {"data": {"source": "remote"}}
    if operation == "put":
        options["keep"] = True
        data = {"data": RECORDS, "rows_per_stream": rows}
    record = trial(
        target=f"adbc://{name}", options=options, operation=operation, rows_per_batch=_BATCH, streams=1,
        threads=1, timeout_ns=120_000_000_000, **data,
    )  # fmt: skip
    return _whole(record["counts"]["rows"], rows) / record["times"]["interval_ns"] * 1e9


def alone(function: ctypes._CFuncPtr, name: str, login: dict[str, str], rows: int) -> float:
    """From the execution to the last batch."""
    library = local.adbc_driver(f"adbc://{name}")
    entrypoint = library.get("driver_entrypoint", "AdbcDriverInit")
    queries = [f'SELECT {what} FROM "{_TABLE}"' for what in ("count(*)", "*")]
    words = [word.encode() for pair in login.items() for word in pair]
    options = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    spent = ctypes.c_longlong()
    texts = [word.encode() for word in (library["library"], entrypoint, *queries)]
    return _whole(function(*texts, options, ctypes.byref(spent)), rows) / spent.value * 1e9


def _whole(rows: int, wanted: int) -> int:
    if rows != wanted:
        raise ValueError(f"{rows} rows, not {wanted}")
    return rows


def drivers(
    options: argparse.Namespace, folder: Path, stack: contextlib.ExitStack
) -> tuple[list[Seam], list[str]]:
    library, source = folder / "alone.so", Path(__file__).with_name("alone.c")
    # The header of ADBC comes with the drivers' manager in Python.
    flags = ("-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{Path(manager.__file__).parent}")
    subprocess.run(["cc", *flags, "-o", str(library), str(source), "-ldl"], check=True)
    function = ctypes.CDLL(str(library)).alone
    function.restype = ctypes.c_longlong
    found, missing = databases(folder, stack)
    seams = []
    for name, login in found.items():
        rows = int(options.rows * _ROWS[name])
        by_venturi(name, login, rows, "put")
        ways = partial(alone, function, name, login, rows), partial(by_venturi, name, login, rows)
        seams.append(Seam("drivers", f"adbc://{name}, rows/s", *ways))
    return seams, missing


# ---- programs


def programs(options: argparse.Namespace, folder: Path) -> list[Seam]:
    path = folder / "rows.arrows"
    values = np.random.default_rng(1).integers(0, 2**62, size=(4, _CHUNK_ROWS))
    batch = pa.record_batch(list(map(pa.array, values)), names=list("abcd"))
    with pa.ipc.new_stream(path, batch.schema) as writer:
        for _ in range(max(1, options.bytes // batch.nbytes)):
            writer.write_batch(batch)
    size = path.stat().st_size

    def pipeline() -> float:
        """The start of both programs is a part of it."""
        line = f"cat {shlex.quote(str(path))} | dd of=/dev/null bs=64k 2>/dev/null"
        began = time.perf_counter()
        subprocess.run(["sh", "-c", line], check=True)
        return size / (time.perf_counter() - began)

    def get() -> float:
        record = trial(
            target="exec://", data={"source": "remote"},
            options={"command": ["cat", str(path)], "format": "arrow"}, rows_per_batch=_CHUNK_ROWS,
            streams=1, threads=1,
        )  # fmt: skip
        return size / record["times"]["interval_ns"] * 1e9

    return [Seam("programs", "exec://, bytes/s", pipeline, get)]


# ---- samples


def samples(options: argparse.Namespace, stack: contextlib.ExitStack) -> list[Seam]:
    server = stack.enter_context(ReferenceServer(kind="flight"))
    streams = len(os.sched_getaffinity(0))

    def rate(operation: str, interval_ns: int) -> float:
        record = trial(
            target=f"flight://{server.address}", options={}, operation=operation, rows_per_batch=16_384,
            duration_ns=int(options.seconds * 1e9), streams=streams, threads=streams, verify="checksum",
            timeout_ns=30_000_000_000, sample_interval_ns=interval_ns,
        )  # fmt: skip
        return float(record["counts"]["payload_bytes"]) / record["times"]["interval_ns"] * 1e9

    return [
        Seam(
            "samples",
            f"{name} with samples, bytes/s",
            partial(rate, name, 0),
            partial(rate, name, 100_000_000),
        )
        for name in ("get", "put")
    ]


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    with contextlib.ExitStack() as stack, output.open("w") as file:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        seams, missing = drivers(options, folder, stack) if "drivers" in options.parts else ([], [])
        seams += programs(options, folder) if "programs" in options.parts else []
        seams += samples(options, stack) if "samples" in options.parts else []
        keep = shared.keeper(file)
        keep({**shared.machine(), "rounds": options.rounds, "missing": missing})
        for seam in seams:  # one warm-up of each, not kept
            seam.without()
            seam.venturi()
        for number in range(options.rounds):
            for seam in draw.sample(seams, len(seams)):
                for way in draw.sample(("without", "venturi"), 2):
                    line = {
                        "kind": "trial",
                        "round": number,
                        "part": seam.part,
                        "seam": seam.name,
                        "way": way,
                    }
                    keep(shared.attempted(line, partial(seam.rate, way), FAILURES))


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "part", "seam", "way")
    table = ["| | without, M/s | with Venturi, M/s | of it | rounds |", "|---|---|---|---|---|"]
    judged = []
    for part, seam in dict.fromkeys(key[:2] for key in found):
        base, ours = (found.get((part, seam, way), {}) for way in ("without", "venturi"))
        ratios = shared.ratios(ours, base, _rate)
        if ratios:
            both = (f"{shared.middle(it, _rate) / 1e6:,.2f}" for it in (base, ours))
            table.append(f"| {seam} | {' | '.join(both)} | {shared.spread(ratios, 3)} | {len(ratios)} |")
        judged += goals.judge(seam, ratios, LEAST[part])
    return Page(
        "What Venturi costs",
        "the rate through Venturi over the rate without it: drivers, programs, samples of resources.",
        head,
        lines,
        ["Paired within a round: median, 95 % interval.", "", *table],
        judged,
        "",
        f"{head['rounds']} rounds",
        shared.failures(lines, "seam", "way"),
        head["missing"],
    )


def _rate(line: shared.Line) -> float:
    return float(line["rate"])


if __name__ == "__main__":
    sys.exit(shared.run("overhead", arguments(), measure, page))
