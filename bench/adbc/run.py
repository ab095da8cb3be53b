"""`adbc://` beside the same driver called alone: what it costs to let Venturi read through a driver.

A round holds every way once, in an order that is drawn: for each database a get by adbc://, rows counted; and
the driver called by code in C (alone.c), which counts the rows of its stream too. Both execute `SELECT *
FROM` a table of four columns of integers, on a connection that is there before the clock, in a database that
was asked for its number of rows. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import adbc_driver_manager as manager

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import goals
import shared
from core_trials import RECORDS, TrialFailed, trial
from venturi.common.errors import VenturiError
from venturi.servers import adbc_drivers, throwaway

LEAST = 0.98
"""What a get must reach of the driver alone."""
_BATCH = 65_536
_TABLE = "venturi_put"
_ROWS = {"sqlite": 1.0, "postgresql": 2.0, "duckdb": 8.0}
"""Of a table, over those that were asked for: a trial of each shall take about as long."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "adbc", 15)
    parser.add_argument(
        "--rows", type=int, default=1_000_000, help="of SQLite's table (default 1M); others have more"
    )
    return parser.parse_args()


@contextlib.contextmanager
def databases(folder: Path) -> Iterator[tuple[dict[str, dict[str, str]], list[str]]]:
    """Each driver with the options by which it finds its database; and whose database could not be had."""
    missing: list[str] = []
    found = {"sqlite": {"uri": str(folder / "s.db")}, "duckdb": {"path": str(folder / "d.db")}}
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(throwaway.named("postgres")())
        except VenturiError as error:
            missing.append(f"postgresql: {error.message}")
        else:
            found["postgresql"] = {"uri": f"postgresql://venturi@{server.address}/venturi"}
        yield found, missing


def spec(name: str, given: dict[str, str]) -> dict[str, Any]:
    options = [f"{key}={value}" for key, value in given.items()]
    return {
        "target": f"adbc://{name}",
        "options": {**adbc_drivers.found(f"adbc://{name}"), "driver_options": options, "table": _TABLE},
        "rows_per_batch": _BATCH,
        "streams": 1,
        "threads": 1,
        "timeout_ns": 120_000_000_000,
    }


def write(name: str, given: dict[str, str], rows: int) -> None:
    asked = spec(name, given)
    asked["options"] |= {"keep": True}
    trial(**asked, operation="put", data=RECORDS, rows_per_stream=rows)


def get(name: str, given: dict[str, str]) -> tuple[int, float]:
    record = trial(**spec(name, given), data={"source": "remote"})
    return int(record["counts"]["rows"]), float(record["times"]["interval_ns"]) / 1e9


def built(folder: Path) -> Any:
    """What calls a driver alone. ADBC's header comes with the drivers' manager in Python."""
    library, source = folder / "alone.so", Path(__file__).with_name("alone.c")
    flags = ("-O2", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{Path(manager.__file__).parent}")
    subprocess.run(["cc", *flags, "-o", str(library), str(source), "-ldl"], check=True)
    function = ctypes.CDLL(str(library)).alone
    function.restype = ctypes.c_longlong
    return function


def alone(function: Any, name: str, given: dict[str, str]) -> tuple[int, float]:
    """Rows, and seconds from the execution to the last batch."""
    library = adbc_drivers.found(f"adbc://{name}")
    entrypoint = library.get("driver_entrypoint", "AdbcDriverInit")
    queries = [f'SELECT {what} FROM "{_TABLE}"' for what in ("count(*)", "*")]
    words = [word.encode() for pair in given.items() for word in pair]
    options = (ctypes.c_char_p * (len(words) + 1))(*words, None)
    spent = ctypes.c_longlong()
    texts = [word.encode() for word in (library["library"], entrypoint, *queries)]
    rows = function(*texts, options, ctypes.byref(spent))
    return rows, spent.value / 1e9


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    with (
        tempfile.TemporaryDirectory() as folder,
        databases(Path(folder)) as (found, missing),
        output.open("w") as file,
    ):
        rows = {name: int(options.rows * _ROWS[name]) for name in found}
        for name, given in found.items():
            write(name, given, rows[name])
        kinds = {"alone": partial(alone, built(Path(folder))), "get": get}
        ways = {(name, kind): way for name in found for kind, way in kinds.items()}
        keep = shared.keeper(file)
        keep({**shared.machine(), "rows": rows, "missing": missing})
        for (name, _), way in ways.items():
            way(name, found[name])
        for number in range(options.rounds):
            for key in draw.sample(list(ways), len(ways)):
                name, way = key
                line = {"kind": "trial", "round": number, "driver": name, "way": way}

                def run(name: str = name, key: tuple[str, str] = key) -> shared.Line:
                    came, seconds = ways[key](name, found[name])
                    if came != rows[name]:
                        raise ValueError(f"{name}: {came} rows, and not {rows[name]}")
                    return {"rate": came / seconds}

                keep(shared.attempted(line, run, (OSError, ValueError, TrialFailed)))


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "driver", "way")
    columns = ("driver", "alone, M rows/s", "adbc://, M rows/s", "of the driver alone", "rounds")
    table = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    judged = []
    for name in head["rows"]:
        base, ours = (found.get((name, way), {}) for way in ("alone", "get"))
        ratios = shared.ratios(ours, base, _rate)
        if ratios:
            both = (f"{shared.middle(it, _rate) / 1e6:.2f}" for it in (base, ours))
            table.append(f"| {name} | {' | '.join(both)} | {shared.spread(ratios, 3)} | {len(ratios)} |")
        judged += goals.judge(f"adbc://{name} of the driver alone", ratios, LEAST)
    said = [
        "# adbc:// beside the driver alone",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f}.",
        f"Rows of 32 bytes, {_BATCH:,} asked for at a time; paired within a round: median, 95 % interval.",
        "",
        *table,
    ]
    return shared.Told(
        "\n".join(said), judged, shared.failures(lines, "driver", "way"), head.get("missing", [])
    )


def _rate(line: shared.Line) -> float:
    return float(line["rate"])


if __name__ == "__main__":
    sys.exit(shared.run("adbc", arguments(), measure, told))
