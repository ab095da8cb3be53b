"""How often what is said of a curve is false: sweeps with known truth, of all shapes, noises and repeats.

A false claim in at most 1 % of the sweeps; a claim in at least 90 % of those whose truth lies over three
margins from what counts as a gain. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import goals
import shared
from support.claim import SHAPES, Counted, count

MOST_FALSE, LEAST_TOLD = 0.01, 0.9


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "seed": options.seed})
        found = count(options.rounds, options.seed)
        kinds = ("false", "said", "clear", "missed")
        keep({"sweeps": found.sweeps, **{kind: _named(getattr(found, kind)) for kind in kinds}})


def _named(counter: Counter[Any]) -> dict[str, int]:
    return {str(key): count for key, count in counter.items()}


def told(source: Path) -> shared.Told:
    head, line = map(json.loads, source.read_text().splitlines())
    found = Counted(**{name: Counter(value) if name != "sweeps" else value for name, value in line.items()})
    false = sum(found.false.values())
    what = "sweeps of which something false is said"
    judged = goals.share(what, false, found.sweeps, MOST_FALSE, most=True)
    lines = [
        "# False claims of curves with known truth",
        "",
        f"{head['date']}; commit {head['commit']}; seed {head['seed']}.",
        "",
        f"Of {found.sweeps:,} sweeps something false is said of {false}: {false / found.sweeps:.2%}. "
        "By shape: " + ", ".join(f"{shape} {found.false[shape]}" for shape in SHAPES) + ".",
        f"Claims made: {', '.join(f'{kind} {n:,}' for kind, n in sorted(found.said.items()))}.",
        "",
        "| truth beyond three margins | sweeps | said |",
        "|---|---|---|",
    ]
    for kind, clear in sorted(found.clear.items()):
        said = 1 - found.missed[kind] / clear
        judged += goals.share(f"said of clear truth: {kind}", clear - found.missed[kind], clear, LEAST_TOLD)
        lines.append(f"| {kind} | {clear:,} | {said:.1%} |")
    return shared.Told("\n".join(lines), judged)


def main() -> int:
    parser = shared.arguments(__doc__, "claims", 10_000, "sweeps")
    parser.add_argument("--seed", type=int, default=20261123)
    return shared.run("claims", parser.parse_args(), measure, told)


if __name__ == "__main__":
    sys.exit(main())
