"""charrow beside other ways to move the same Arrow batches, interleaved in one run.

A round measures every way of every part once. Parts come in shuffled order; within a part, the ways come in
shuffled order right after one another, so that ratios are taken at nearly the same moment. See
bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from bench import goals, shared
from bench.flight import build
from bench.flight.peers import Cell, Peers, Server
from bench.page import Page

PARTS = ("memory", "transports")
# The server is on CPU 0; the client is on CPU 0, or on CPU 1.
PLACES = ("on the server's CPU", "on another CPU")
BLOCK_ROWS = 32_768  # of 32 bytes: 1 MiB
RECORD_BYTES = 32
FAILURES = (shared.ClientFailed, ValueError)


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "charrow", 7)
    add = parser.add_argument
    add("--bytes", type=float, default=1.5e9, help="payload of a trial (default 1.5e9)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    add("--no-cpp", action="store_true", help="without Arrow C++, which needs a compiler")
    return parser.parse_args()


class Ways:
    """Starts the servers that the chosen parts need, and runs trials against them."""

    def __init__(self, options: argparse.Namespace, stack: contextlib.ExitStack) -> None:
        self._rows = int(options.bytes) // RECORD_BYTES
        self._servers: dict[str, Server] = {}
        self._cpp: Peers | None = None
        self._options, self._stack = options, stack
        self._folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="venturi-bench-")))
        made = {"memory": self._memory, "transports": self._transports}
        self.parts: dict[str, dict[str, shared.Line]] = {part: made[part]() for part in options.parts}

    def _serve(self, name: str, kind: str, cpu: int | None = None, unix: bool = False) -> str:
        """The address of a server that lives as long as the bench; with `unix`, the path of its socket."""
        where = ("--unix", str(self._folder / f"{name}.sock")) if unix else ("--port", "0")
        words = [sys.executable, "-m", "venturi", "serve", kind, *where, "--json", "--exit-with-parent"]
        self._servers[name] = Server([*_on(cpu), *words], self._stack)
        return self._servers[name].address

    def _way(self, kind: str, server: str, url: str, streams: int = 1, **more: Any) -> shared.Line:
        data = {"rows_per_batch": BLOCK_ROWS, "rows": self._rows, "encoders": 1, "decoders": 0}
        return {"way": kind, "server": server, "url": url, "streams": streams, **data, **more}

    def _memory(self) -> dict[str, shared.Line]:
        """Batches that are ready: 4 int64, 1 MiB, one and two connections."""
        url = f"charrow://{self._serve('charrow', 'charrow')}"
        flight = f"flight://{self._serve('flight', 'flight')}"
        ways: dict[str, shared.Line] = {}
        for streams in (1, 2):
            for decoders in (0, 1):
                name = f"charrow {streams}, decoders {decoders}"
                ways[name] = self._way("venturi", "charrow", url, streams, decoders=decoders)
            ways[f"raw TCP {streams}"] = self._way("raw", "charrow", url, streams)
            ways[f"Venturi Flight {streams}"] = self._way("venturi", "flight", flight, streams)
        ways |= self._placed()
        if not self._options.no_cpp:
            self._cpp = Peers(build.build(quiet=True), ["cpp/cpp"], self._rows * RECORD_BYTES, self._stack)
            ways |= {f"Arrow C++ Flight {streams}": {"way": "cpp", "streams": streams} for streams in (1, 2)}
        return ways

    def _placed(self) -> dict[str, shared.Line]:
        """One connection with both ends on one CPU, and on two. The place matters more than who sends: bytes
        that cross from one CPU's caches to another's cost several times as much."""
        if shutil.which("taskset") is None or not {0, 1} <= os.sched_getaffinity(0):
            return {}
        url = f"charrow://{self._serve('placed', 'charrow', cpu=0)}"
        ways: dict[str, shared.Line] = {}
        for cpu, where in enumerate(PLACES):
            ways[f"charrow 1, {where}"] = self._way("venturi", "placed", url, cpu=cpu)
            ways[f"raw TCP 1, {where}"] = self._way("raw", "placed", url, cpu=cpu)
        return ways

    def _transports(self) -> dict[str, shared.Line]:
        """The same batches over loopback, a Unix socket and shared memory, beside raw sockets and copies in
        memory."""
        ways: dict[str, shared.Line] = {}
        for kind, title in (("charrow", "charrow"), ("flight", "Flight")):
            places = {"TCP": (f"{kind}-tcp", f"{kind}://{self._serve(f'{kind}-tcp', kind)}")}
            socket = self._serve(f"{kind}-unix", kind, unix=True)
            places["Unix socket"] = (f"{kind}-unix", f"{kind}+unix://{socket}")
            if kind == "charrow":
                places["shared memory"] = (f"{kind}-unix", f"{kind}+shm://{socket}")
            for streams in (1, 2):
                for place, (server, url) in places.items():
                    ways[f"{title}, {place} {streams}"] = self._way("venturi", server, url, streams)
                    if title == "charrow" and place != "shared memory":
                        ways[f"raw {place} {streams}"] = self._way("raw", server, url, streams)
        for threads in sorted({1, min(2, os.cpu_count() or 1)}):
            ways[f"memory copy {threads}"] = {"way": "memory", "streams": threads}
        return ways

    def trial(self, part: str, name: str) -> shared.Line:
        """One measured transfer: the client's numbers and the server's CPU time. Raises ClientFailed."""
        request = self.parts[part][name]
        if request["way"] == "cpp":
            assert self._cpp is not None
            found = self._cpp.trial(Cell("get", request["streams"], BLOCK_ROWS), "cpp/cpp")
            return {**found, "client_cpu_ns": found["user_ns"] + found["system_ns"]}
        server = self._servers.get(request.get("server", ""))
        before = server.cpu_ns() if server else 0
        found = shared.client("bench.charrow.client", request, within=_on(request.get("cpu")))
        streams = request["streams"]
        if "rows" in found and found["rows"] != request["rows"] // streams * streams:
            raise shared.ClientFailed(f"{part}, {name}: {found['rows']:,} rows, not {request['rows']:,}")
        return {**found, "server_cpu_ns": server.cpu_ns() - before if server else None}


def _on(cpu: int | None) -> list[str]:
    """What a command begins with if it is to run on that CPU only, with all its threads."""
    return [] if cpu is None else ["taskset", "-c", str(cpu)]


def measure(options: argparse.Namespace, output: Path) -> None:
    with contextlib.ExitStack() as stack, output.open("w") as file:
        ways = Ways(options, stack)
        keep = shared.keeper(file)
        parts = {part: list(names) for part, names in ways.parts.items()}
        head = {"arrow": pyarrow.__version__, "rounds": options.rounds, "bytes": int(options.bytes)}
        keep({**shared.machine(), **head, "ways": parts})
        for part, names in parts.items():  # one warm-up of each, not kept
            for name in names:
                ways.trial(part, name)
        draw = random.Random(options.seed)
        for number in range(options.rounds):
            for part in draw.sample(list(parts), len(parts)):
                for name in draw.sample(parts[part], len(parts[part])):
                    line = {"kind": "trial", "round": number, "part": part, "way": name}
                    keep(shared.attempted(line, functools.partial(ways.trial, part, name), FAILURES))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    found = shared.by_round(lines, "part", "way")
    body = [
        "Payload of decoded Arrow batches, medians with their 95 % intervals;",
        "CPU-seconds per GB of client and server.",
    ]
    for part, names in head["ways"].items():
        body += ["", f"## {part}", "", "| way | MB/s | client + server, s/GB |", "|---|---|---|"]
        body += [_row(name, found[part, name]) for name in names if (part, name) in found]
    fastest = found.get(("transports", "charrow, shared memory 1"), {})
    result = f"Shared memory moves {shared.middle(fastest, speed) / 1e9:.1f} GB/s." if fastest else ""
    return Page(
        "charrow beside other ways to the same batches",
        "MB/s and CPU time of charrow, Flight, raw sockets and memory copies, on one host.",
        head,
        lines,
        body,
        _goals(found),
        result,
        f"{head['rounds']} rounds of {head['bytes'] / 1e9:g} GB a trial; Arrow {head['arrow']}",
        shared.failures(lines, "part", "way"),
    )


def _row(name: str, trials: dict[int, shared.Line]) -> str:
    cpu = [
        f"{np.median([t[key] / t['bytes'] for t in trials.values()]):.2f}"
        if all(t.get(key) is not None for t in trials.values())
        else "-"
        for key in ("client_cpu_ns", "server_cpu_ns")
    ]
    return f"| {name} | {shared.spread([speed(t) / 1e6 for t in trials.values()], 0)} | {' + '.join(cpu)} |"


def speed(trial: shared.Line) -> float:
    """Payload bytes per second."""
    return float(trial["bytes"]) / float(trial["interval_ns"]) * 1e9


def per_cpu(trial: shared.Line) -> float:
    """Payload bytes per second of CPU time of both ends."""
    return float(trial["bytes"]) / (trial["client_cpu_ns"] + trial["server_cpu_ns"]) * 1e9


def _goals(found: dict[Any, dict[int, shared.Line]]) -> list[goals.Judged]:
    def compare(
        what: str, part: str, one: str, other: str, wanted: float, figure: Any = speed
    ) -> list[goals.Judged]:
        ours, theirs = (found.get((part, way), {}) for way in (one, other))
        return goals.judge(what, shared.ratios(ours, theirs, figure), wanted)

    mine = "charrow 1, decoders 0"  # with one connection, another thread has nothing to share
    out = compare("charrow of raw TCP, 1 partition, 1 MiB", "memory", mine, "raw TCP 1", 0.9)
    for where in PLACES:
        out += compare(f"the same, {where}", "memory", f"charrow 1, {where}", f"raw TCP 1, {where}", 0.9)
    out += compare("charrow over Arrow C++ Flight, 1 stream", "memory", mine, "Arrow C++ Flight 1", 1.5)
    for name in ("charrow", "Flight"):
        for streams in (1, 2):
            what = f"{name}, {streams} by a Unix socket over TCP, bytes per CPU-second"
            one, other = (f"{name}, {place} {streams}" for place in ("Unix socket", "TCP"))
            out += compare(what, "transports", one, other, 1.3, per_cpu)
    for streams in (1, 2):
        what = f"charrow, {streams} through shared memory, of memory copy by {streams}"
        one, other = f"charrow, shared memory {streams}", f"memory copy {streams}"
        out += compare(what, "transports", one, other, 0.8)
    return out


if __name__ == "__main__":
    sys.exit(shared.run("charrow", arguments(), measure, page))
