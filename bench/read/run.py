"""Gets from PostgreSQL and MariaDB beside other ways to read the same table into Arrow batches, interleaved.

A round holds every way of a server once, in an order that is drawn, each in a process of its own. Rows are
counted; a way that has lost some has failed. See bench/README.md.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from bench import shared
from bench.read import ways
from bench.read.page import page
from venturi.servers import throwaway

TURN_SECONDS = 600


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "read", 5)
    add = parser.add_argument
    add("--rows", type=int, default=5_000_000, help="of the table (default 5,000,000)")
    add("--only", nargs="+", metavar="WORD", default=[], help="ways whose name has one of these words")
    add("--servers", nargs="+", choices=list(ways.LOADS), default=list(ways.LOADS))
    return parser.parse_args()


def turn(request: ways.Request, rows: int) -> shared.Line:
    found = shared.client("bench.read.client", request, seconds=TURN_SECONDS)
    if found["rows"] != rows:
        raise ValueError(f"{found['rows']} rows came of {rows}")
    return found


def measure(options: argparse.Namespace, output: Path) -> None:
    draw = random.Random(20261125)
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "rows": options.rows, "rounds": options.rounds})
        for name in options.servers:
            note = lambda _, text: print(text, file=sys.stderr)  # noqa: E731
            with throwaway.named(name)(note=note) as server:
                keep({"kind": "server", "server": name, "software": server.hello["software"]})
                ways.load(server, options.rows)
                requests = ways.ways(server)
                if options.only:
                    requests = {way: requests[way] for way in requests if any(w in way for w in options.only)}
                turn(next(iter(requests.values())), options.rows)  # warms the server up
                for number in range(options.rounds):
                    for way in draw.sample(list(requests), len(requests)):
                        line = {"kind": "turn", "server": name, "round": number, "way": way}
                        line["floor"] = requests[way].get("floor", False)

                        def run(request: ways.Request = requests[way]) -> shared.Line:
                            return turn(request, options.rows)

                        kinds = (OSError, ValueError, shared.ClientFailed)
                        keep(shared.attempted(line, run, kinds))
                    print(f"round {number + 1}, {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(shared.run("read", arguments(), measure, page))
