"""Are the intervals as honest as they say? Data drawn from known truths, judged as runs are.

Laws over streams and sizes (`laws.py`): how often an interval of 95 % holds the truth. Curves of all shapes,
noises and repeats (`tests/support/claim.py`): how often something false is claimed of one. Nothing is
measured here, so a busy machine does no harm. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np

from bench import goals, shared
from bench.models.laws import PARTS
from bench.page import Page
from support.claim import SHAPES, count

CLAIMS = "claims"
LEAST_HELD, MOST_FALSE, LEAST_CLAIMED = 0.9, 0.01, 0.9


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "models", 100, "sweeps of each law")
    add = parser.add_argument
    add("--curves", type=int, default=10_000, help="of which claims are made (default 10,000)")
    add("--parts", nargs="+", choices=[*PARTS, CLAIMS], default=[*PARTS, CLAIMS], metavar="PART")
    add("--seed", type=int, default=20191104)
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "rounds": options.rounds, "curves": options.curves, "seed": options.seed})
        for part, lines in PARTS.items():
            if part in options.parts:
                for line in lines(options.rounds, np.random.default_rng(options.seed)):
                    keep(line)
        if CLAIMS in options.parts:
            found = count(options.curves, options.seed)
            kinds = ("false", "said", "clear", "missed")
            keep({"part": CLAIMS, "curves": found.sweeps, **{kind: getattr(found, kind) for kind in kinds}})


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    body: list[str] = []
    judged: list[goals.Judged] = []
    for part in PARTS:
        own = [line for line in lines if line["part"] == part]
        if not own:
            continue
        names = list(own[0]["hits"])
        body += [f"## {part}: share inside the 95 % interval, %", "", f"| case | {' | '.join(names)} |"]
        body.append("|---" * (len(names) + 1) + "|")
        for line in own:
            shares = [f"{100 * hits / tries:.1f}" if tries else "-" for hits, tries in line["hits"].values()]
            body.append(f"| {line['case']} | {' | '.join(shares)} |")
        for name in names:
            hits, tries = (sum(line["hits"][name][at] for line in own) for at in (0, 1))
            judged += goals.share(f"{part}: {name}", hits, tries, LEAST_HELD)
        body.append("")
    for line in lines:
        if line["part"] == CLAIMS:
            text, more = _claims(line)
            body, judged = body + text, judged + more
    return Page(
        "Models on known truths",
        "how often intervals hold the truth, and how often a claim about a curve is false.",
        head,
        [],
        body,
        judged,
        "",
        f"{head['rounds']} sweeps of each law, {head['curves']:,} curves, seed {head['seed']}",
    )


def _claims(line: shared.Line) -> tuple[list[str], list[goals.Judged]]:
    false, clear, missed, claims = (Counter(line[kind]) for kind in ("false", "clear", "missed", "said"))
    wrong = sum(false.values())
    judged = goals.share(
        "curves of which something false is claimed", wrong, line["curves"], MOST_FALSE, most=True
    )
    text = [
        "## Claims",
        "",
        f"Something false is claimed of {wrong} of {line['curves']:,} curves. "
        f"By shape: {', '.join(f'{shape} {false[shape]}' for shape in SHAPES)}. "
        f"Claims: {', '.join(f'{kind} {n:,}' for kind, n in sorted(claims.items()))}.",
        "",
        "| truth beyond three margins | curves | claimed |",
        "|---|---|---|",
    ]
    for kind, whole in sorted(clear.items()):
        found = whole - missed[kind]
        judged += goals.share(f"claimed of clear truth: {kind}", found, whole, LEAST_CLAIMED)
        text.append(f"| {kind} | {whole:,} | {found / whole:.1%} |")
    return text, judged


if __name__ == "__main__":
    sys.exit(shared.run("models", arguments(), measure, page))
