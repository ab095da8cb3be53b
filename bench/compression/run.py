"""Where compression on the wire pays: codecs beside plain over links of many speeds, and what was predicted.

Puts over Flight through a link between two network namespaces, which `tc tbf` makes as slow as it is to
be. A round holds every link, and within it every codec right after one another, in an order that is drawn.
Of each codec is told the speed of the link below which it beats plain, as measured, and as predicted from
what one core does (`venturi.analysis.models.packing`). Then the codecs by themselves, beside the crates that
they are. See bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import pytest
import summary

import shared
from support import path as path_support
from venturi.inputs.files import DataStore

HERE = Path(__file__).resolve().parent
RECORDS = {"source": "records", "columns": 4, "seed": 1}
DATA = ("birdstrikes", "sequential", "random")
"""A table as people have them, with texts and numbers, and four int64 that get smaller or do not."""
CODECS = ("none", "lz4", "zstd:1", "zstd", "zstd:9")
LINKS = ("100mbit", "250mbit", "500mbit", "1gbit", "2.5gbit", "5gbit", "10gbit")
ROWS = 4096
"""Rows per batch: what a trial has where nothing is said."""
BURST_SECONDS = 0.005
"""What the link lets through at once, as a time of its rate; a kernel's tick at least."""
FAILURES = (OSError, ValueError, KeyError)


class Failed(OSError):
    """The client's end could not measure, and says why."""


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "compression", 7)
    add = parser.add_argument
    add("--links", nargs="+", default=list(LINKS), help=f"rates as tc has them (default {' '.join(LINKS)})")
    add("--data", nargs="+", choices=DATA, default=list(DATA), help="what is moved (default all)")
    add("--codecs", nargs="+", default=list(CODECS), help="beside none, which is always one")
    add("--streams", nargs="+", type=int, default=[1, 2], help="of the first data (default 1 2)")
    add("--seconds", type=float, default=0.5, help="of a trial (default 0.5)")
    add("--parts", nargs="+", choices=("links", "cores"), default=["links", "cores"])
    add("--program", type=Path, help="the crates' program, where it is built already (default: cargo)")
    return parser.parse_args()


class Client:
    """The client's end, in its namespace."""

    def __init__(self, inside: list[str]) -> None:
        command = [*inside, sys.executable, str(HERE / "client.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, what: str, **asked: Any) -> shared.Line:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"what": what, **asked}) + "\n")
        self._process.stdin.flush()
        answer: shared.Line = json.loads(self._process.stdout.readline() or '{"error": "the client ended"}')
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process.wait(20)


def bits(rate: str) -> float:
    """`2.5gbit` as bits per second."""
    number, unit = rate.removesuffix("bit")[:-1], rate.removesuffix("bit")[-1]
    return float(number) * {"k": 1e3, "m": 1e6, "g": 1e9}[unit]


def tested(links: list[str]) -> list[str]:
    """From the slowest to the one that nothing slows."""
    return [*sorted(links, key=bits), summary.UNSHAPED]


def compared(options: argparse.Namespace) -> list[str]:
    """Codecs, none at the head."""
    return list(dict.fromkeys(["none", *options.codecs]))


def ways(options: argparse.Namespace) -> list[tuple[str, int]]:
    """Data and streams. More streams have the first data alone: they are as many trials again."""
    first, *others = options.data
    more = [(name, options.streams[0]) for name in others]
    return [*((first, streams) for streams in options.streams), *more]


@contextlib.contextmanager
def prepared(names: list[str]) -> Iterator[dict[str, dict[str, Any]]]:
    """The data of specs by their names."""
    with DataStore() as store:
        found: dict[str, dict[str, Any]] = {}
        for name in names:
            if name == "birdstrikes":
                item = store.prepare(f"builtin:{name}", ROWS)
                found[name] = {"source": "file", "path": item.path, "ipc": str(item.ipc)}
            else:
                found[name] = {**RECORDS, "values": name}
        yield found


def over_links(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    draw = random.Random(20261125)
    codecs, cells = compared(options), ways(options)
    with contextlib.ExitStack() as stack:
        data = stack.enter_context(prepared(options.data))
        two = stack.enter_context(path_support.hosts())
        end = stack.enter_context(
            path_support.server(within=two.inside(two.server), host=path_support.SERVER_ADDRESS)
        )
        client = stack.enter_context(contextlib.closing(Client(two.inside(two.client))))
        url = f"flight://{end.address}"

        def trial(name: str, streams: int, codec: str) -> shared.Line:
            return client(
                "trial",
                target=url,
                operation="put",
                data=data[name],
                rows_per_batch=ROWS,
                duration_ns=int(options.seconds * 1e9),
                timeout_ns=60_000_000_000,
                streams=streams,
                threads=streams,
                options={"compression": codec},
            )

        def core(name: str, codec: str) -> shared.Line:
            asked = {"data": data[name], "rows_per_batch": ROWS, "duration_ns": 200_000_000}
            encode = client("codec", name=f"{codec}-encode", **asked)
            decode = client("codec", name=f"{codec}-decode", **asked)
            return {"encode": encode["rate"], "decode": decode["rate"], "ratio": encode["ratio"]}

        for name in options.data:
            with contextlib.suppress(Failed):  # what fails always is told by its trials
                trial(name, 1, "none")  # warm
        links = tested(options.links)
        for number in range(options.rounds):
            for name in options.data:
                for codec in draw.sample(codecs[1:], len(codecs) - 1):
                    line = {"kind": "core", "round": number, "data": name, "codec": codec}
                    keep(shared.attempted(line, functools.partial(core, name, codec), FAILURES))
            for link in draw.sample(links, len(links)):
                if link == summary.UNSHAPED:
                    two.unshape()
                else:
                    two.shape(link, burst=str(max(65_536, int(bits(link) / 8 * BURST_SECONDS))))
                line = {"kind": "link", "round": number, "link": link}
                keep(shared.attempted(line, lambda: client("link", target=url, streams=1), FAILURES))
                for name, streams in draw.sample(cells, len(cells)):
                    for codec in draw.sample(codecs, len(codecs)):
                        line = {"kind": "trial", "round": number, "link": link, "data": name}
                        line |= {"streams": streams, "codec": codec}
                        measured = functools.partial(trial, name, streams, codec)
                        keep(shared.attempted(line, measured, FAILURES))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)


def program(options: argparse.Namespace) -> Path:
    """The example that has the crates by themselves; `--workspace`, as `make` has compiled what it needs."""
    if options.program is not None:
        return Path(options.program)
    command = ["cargo", "build", "--release", "--locked", "--workspace", "--example", "codecs", "--quiet"]
    subprocess.run(command, cwd=shared.ROOT, check=True)
    return shared.target_directory() / "release" / "examples" / "codecs"


def on_cores(options: argparse.Namespace, keep: Callable[[shared.Line], None]) -> None:
    codecs, built = [codec for codec in options.codecs if codec != "none"], program(options)
    with prepared([name for name in options.data if name != "random"]) as data:
        for name, found in data.items():
            asked = {"data": found, "rows_per_batch": ROWS, "rounds": options.rounds, "seconds": 0.2}
            command = [str(built), json.dumps({**asked, "codecs": codecs})]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                keep({"kind": "crate", "data": name, "round": 0, "error": done.stderr.strip()[-500:]})
            for line in done.stdout.splitlines():
                keep({"kind": "crate", "data": name, **json.loads(line)})


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file:
        keep = shared.keeper(file)
        head = {"links": tested(options.links), "codecs": compared(options), "ways": ways(options)}
        keep({**shared.machine(), **head, "cores": len(os.sched_getaffinity(0))})
        if "links" in options.parts:
            try:
                over_links(options, keep)
            except pytest.skip.Exception as reason:
                keep({"kind": "missing", "why": str(reason)})
        if "cores" in options.parts:
            try:
                on_cores(options, keep)
            except (OSError, subprocess.CalledProcessError) as reason:
                keep({"kind": "missing", "why": f"one core, beside the crates: {reason}"})


if __name__ == "__main__":
    sys.exit(shared.run("compression", arguments(), measure, summary.told))
