"""Venturi's upserts beside those of other clients, on one server, interleaved in one run.

A round holds every cell once, in shuffled order; within a cell its clients come in shuffled order right after
one another, each for the same time with the same statements or prepared values against the same table, whose
rows all exist by then. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import shared
from bench.upsert import latte, processes
from bench.upsert.cells import CELLS, Cell
from bench.upsert.clients import Bench
from bench.upsert.page import page
from venturi.common.errors import VenturiError
from venturi.servers import throwaway

WARM_UP_SECONDS = 2.0
# A machine that others keep busy as well must not end a run.
SETTINGS = {
    "cassandra": {"write_request_timeout": "60s", "counter_write_request_timeout": "60s"},
    "mariadb": {},
}


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "upsert", 5)
    add = parser.add_argument
    names = [cell.name for cell in CELLS]
    add("--seconds", type=float, default=2.5, help="a client's turn (default 2.5)")
    add("--rows", type=int, default=50_000, help="working set (default 50,000)")
    add("--streams", type=int, default=os.cpu_count(), help="connections (default: one a CPU, as the seed)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--no-samples", action="store_true", help="Venturi takes no samples of resources, as its peers")
    add("--only", nargs="+", choices=[*names, "empty"], metavar="CELL", help=" ".join([*names, "empty"]))
    return parser.parse_args()


def version(*command: str) -> str:
    if shutil.which(command[0]) is None:
        sys.exit(f"{command[0]} is missing: see bench/README.md")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).strip().splitlines()[0]


def peers(cells: list[Cell]) -> dict[str, str]:
    """The version of each peer; ends this script if one is missing."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    wanted = {name for cell in cells for name in cell.clients if name != "venturi"}
    found = {}
    for name in sorted(wanted):
        if name == "latte":
            found[name] = version(str(latte.program()), "--version")
        elif name == "mysqlslap":
            found[name] = version("mysqlslap", "--version")
        else:
            package = {"pymysql": "pymysql", "python-driver": "cassandra-driver"}[name]
            try:
                found[name] = f"{package} {installed(package)}"
            except PackageNotFoundError:
                sys.exit(f"pip install {package}: the extra `test-servers` has it")
    return found


def environment(options: argparse.Namespace, cells: list[Cell]) -> dict[str, Any]:
    settings = {name: getattr(options, name) for name in ("rounds", "seconds", "rows", "streams", "seed")}
    return {**shared.machine(), **settings, "samples": not options.no_samples, "peers": peers(cells)}


class Run:
    """Servers, tables and the file that figures go to."""

    def __init__(self, options: argparse.Namespace, output: Path) -> None:
        self.options = options
        self.cells = [cell for cell in CELLS if not options.only or cell.name in options.only]
        self.empty = not options.only or "empty" in options.only
        self.file = open(output, "w")  # noqa: SIM115 - closed in measure()
        self.directory = output.with_suffix("")

    def keep(self, line: dict[str, Any]) -> None:
        shared.keeper(self.file)(line)

    def measure(self) -> None:
        shuffle = random.Random(self.options.seed).shuffle
        with self.file:
            self.keep(environment(self.options, self.cells))
            if self.empty:
                for number in range(self.options.rounds):
                    line = {"kind": "empty", "round": number}
                    self.keep(shared.attempted(line, self._empty, (shared.ClientFailed,)))
            # One server at a time: an idle one still takes memory, and Java's some CPU time.
            for name in dict.fromkeys(cell.server for cell in self.cells):
                cells = [cell for cell in self.cells if cell.server == name]
                with self._server(name) as server:
                    benches = [self._bench(server, cell) for cell in cells]
                    for number in range(-1, self.options.rounds):  # the first one warms up
                        shuffle(benches)
                        for bench in benches:
                            self._round(bench, number, shuffle)
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def _server(self, name: str) -> Iterator[throwaway.ThrowawayServer]:
        note = lambda _, text: print(text, file=sys.stderr)  # noqa: E731
        with throwaway.named(name)(note=note, settings=SETTINGS[name]) as server:
            print(f"{server.hello['software']} is up", file=sys.stderr, flush=True)
            hello = {name: server.hello[name] for name in ("software", "settings")}
            self.keep({"kind": "server", "name": name, **hello})
            yield server

    def _bench(self, server: throwaway.ThrowawayServer, cell: Cell) -> Bench:
        options, samples = self.options, not self.options.no_samples
        bench = Bench(server, cell, options.rows, options.streams, self.directory, samples)
        bench.prepare()
        assert server.pid is not None
        processes.settle(server.pid)
        return bench

    def _round(self, bench: Bench, number: int, shuffle: Callable[[list[str]], None]) -> None:
        clients = list(bench.cell.clients)
        shuffle(clients)
        pid = bench.server.pid
        assert pid is not None
        for client in clients:
            line = {"kind": "turn", "round": number, "cell": bench.cell.name, "client": client}
            server = shared.cpu_seconds(pid)
            with shared.stolen(line):
                try:
                    seconds = self.options.seconds if number >= 0 else WARM_UP_SECONDS
                    line |= asdict(bench.turn(client, seconds))
                except (shared.ClientFailed, OSError, ValueError, KeyError, IndexError) as error:
                    line["error"] = str(error) or type(error).__name__
                    print(f"failed: {line['error']}", file=sys.stderr, flush=True)
                # What the server still does for this client's rows belongs to this turn.
                processes.settle(pid)
            line["server_cpu"] = shared.cpu_seconds(pid) - server
            if number >= 0:
                self.keep(line)
        print(f"round {number + 1} of {self.options.rounds}, {bench.cell.name}", file=sys.stderr, flush=True)

    def _empty(self) -> dict[str, Any]:
        """Statements built inside the interval and discarded, on one core."""
        spec = {
            "trial": "empty",
            "target": "empty://",
            "options": {},
            "operation": "upsert",
            "data": {"source": "usage", "working_set": 1_000_000, "seed": 1, "loaded_unix_s": 1_790_000_000},
            "rows_per_batch": 500,
            "duration_ns": 1_500_000_000,
            "streams": 1,
            "threads": 1,
            "generate": "inline",
            "verify": "none",
        }
        (ended,) = processes.run([processes.python("venturi_client", spec)])
        figures: dict[str, Any] = json.loads(ended.output)
        return figures


def measure(options: argparse.Namespace, output: Path) -> None:
    try:
        Run(options, output).measure()
    except shared.ClientFailed as error:
        sys.exit(f"error: {error}")
    except VenturiError as error:
        sys.exit(f"{error}{f'; {error.hint}' if error.hint else ''}")


if __name__ == "__main__":
    sys.exit(shared.run("upsert", arguments(), measure, page))
