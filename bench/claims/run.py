"""How often what is said of a curve is false: sweeps with known truth, of all shapes, noises and repeats.

A false claim in at most 1 % of the sweeps; a claim in at least 90 % of those whose truth lies over three
margins from what counts as a gain. The exit status is 1 otherwise. See bench/README.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

import shared
from claim_support import SHAPES, Counted, count

MOST_FALSE, LEAST_TOLD = 0.01, 0.9


def table(found: Counted, seed: int) -> tuple[str, bool]:
    false = sum(found.false.values())
    head = shared.machine()
    lines = [
        "# False claims of curves with known truth",
        "",
        f"{head['date']}; commit {head['commit']};"
        f" `python bench/claims/run.py --sweeps {found.sweeps} --seed {seed}`",
        "",
        f"Of {found.sweeps:,} sweeps something false is said of {false}: {false / found.sweeps:.2%}"
        f" (at most {MOST_FALSE:.0%} is allowed). By shape: "
        + ", ".join(f"{shape} {found.false[shape]}" for shape in SHAPES)
        + ".",
        f"Claims made: {', '.join(f'{kind} {n:,}' for kind, n in sorted(found.said.items()))}.",
        "",
        "| truth beyond three margins | sweeps | said |",
        "|---|---|---|",
    ]
    met = false <= MOST_FALSE * found.sweeps
    for kind, clear in sorted(found.clear.items()):
        told = 1 - found.missed[kind] / clear
        met = met and told >= LEAST_TOLD
        lines.append(f"| {kind} | {clear:,} | {told:.1%} |")
    return "\n".join([*lines, ""]), met


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=20261123)
    parser.add_argument("--record", action="store_true", help="keep the table in bench/claims/results/")
    options = parser.parse_args()
    text, met = table(count(options.sweeps, options.seed), options.seed)
    print(text)
    if options.record:
        place = Path(__file__).resolve().parent / "results" / f"{shared.stamp()}.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
