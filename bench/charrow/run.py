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
    parser = shared.arguments(__doc__, "charrow", 7)
    add = parser.add_argument
    add("--bytes", type=float, default=1.5e9, help="payload of a trial (default 1.5e9; clickhouse: a third)")
    add("--seed", type=int, default=1, help="of the shuffle")
    add("--parts", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=" ".join(PARTS))
    add("--clickhouse", metavar="URL", help="http://HOST:8123: a server with Arrow, instead of chdb")
    add("--no-cpp", action="store_true", help="without Arrow C++, which wants a compiler")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
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
    return shared.run("charrow", arguments(), measure, table.told)


if __name__ == "__main__":
    sys.exit(main())
