"""charrow beside other ways to get the same Arrow table, interleaved in one run.

A round measures every way of every part once; parts come in shuffled order, and within a part the ways come
in shuffled order right after one another, so that ratios are taken at nearly the same moment. See
bench/README.md.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parent / "flight")]

import pyarrow  # noqa: E402
import table  # noqa: E402
from peers import TrialFailed  # noqa: E402
from ways import PARTS, Ways  # noqa: E402

import shared  # noqa: E402 - of bench/, as the next two of this directory and of bench/flight


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=7, help="how often every way is measured (default 7)")
    add(
        "--bytes",
        type=float,
        default=1.5e9,
        help="payload of a trial (default 1.5e9; clickhouse: a third)",
    )
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    add(
        "--clickhouse",
        metavar="URL",
        help="http://HOST:8123: a server with Arrow, instead of chdb",
    )
    add("--no-cpp", action="store_true", help="without Arrow C++, which wants a compiler")
    add("--record", action="store_true", help="keep the table as bench/charrow/results/<date>.md")
    add("--output", type=Path, help="the JSONL file (default target/bench-charrow/<date>.jsonl)")
    add("--from", dest="source", type=Path, help="measure nothing: the table of an earlier JSONL file")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack, open(output, "w") as file:
        ways = Ways(options, stack)
        keep = shared.keeper(file)
        keep(
            {
                **shared.machine(),
                "arrow": pyarrow.__version__,
                "rounds": options.rounds,
                "bytes": int(options.bytes),
                "ways": {part: list(names) for part, names in ways.parts.items()},
                "peers": ways.peers,
            }
        )
        for part, names in ways.parts.items():  # one warm-up of each, not kept
            for name in names:
                ways.trial(part, name)
        shuffle = random.Random(options.seed).shuffle
        for number in range(options.rounds):
            parts = list(ways.parts)
            shuffle(parts)
            for part in parts:
                names = list(ways.parts[part])
                shuffle(names)
                for name in names:
                    line = {"kind": "trial", "round": number, "part": part, "way": name}
                    measured = functools.partial(ways.trial, part, name)
                    keep(shared.attempted(line, measured, (TrialFailed, subprocess.TimeoutExpired)))
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr)


def main() -> int:
    return shared.run("charrow", arguments(), measure, table.markdown)


if __name__ == "__main__":
    sys.exit(main())
