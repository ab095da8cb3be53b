"""Does `venturi tune` reach 97 % of the exhaustive optimum in a quarter of the trials?

- Recorded: published surfaces, and the sweeps of the live part, searched again from many seeds; beside it a
  random search and, where it is installed, Optuna's TPE (see bench/README.md).
- Live: a Flight server on loopback, and one behind a slow link (needs root; left out without), swept, tuned,
  and both answers measured again in turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import live
import policies
import recorded
import targets

import goals
import shared
from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.measure.tune import Recorded


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "tune", 3, "tries of each live target, 0: none")
    add = parser.add_argument
    add("--seeds", type=int, default=50, help="searches of each recorded surface (default 50)")
    add("--repeats", type=int, default=3, help="of each cell of a live sweep (default 3)")
    add("--pairs", type=int, default=15, help="trials of each answer, measured again (default 15)")
    add("--only", choices=list(targets.LIVE), help="this live target only")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    """The sweeps lie beside the file, in a folder of its name."""
    kept = output.with_suffix("")
    kept.mkdir(exist_ok=True)
    with output.open("w") as file:
        keep = shared.keeper(file)
        keep({**shared.machine(), "seeds": options.seeds, "repeats": options.repeats})
        for name, target in targets.LIVE.items():
            if options.rounds < 1 or (options.only and options.only != name):
                continue
            if why := targets.refused(target):
                keep({"kind": "left out", "target": name, "why": why})
                continue
            for number in range(1, options.rounds + 1):
                began = time.monotonic()
                one = live.attempt(target, number, options.repeats, options.pairs, kept)
                keep({"kind": "try", **asdict(one), "target": name})
                print(f"{time.monotonic() - began:.0f} s: {one.line()}", file=sys.stderr, flush=True)


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    done = []
    for line in lines:
        if line.pop("kind") == "try":
            done.append(live.Try(**line | {"target": targets.LIVE[line["target"]]}))
    surfaces = recorded.surfaces()
    for path in sorted(source.with_suffix("").glob("*-01-all")):
        surfaces[f"swept {path.name.removesuffix('-01-all')}"] = Recorded(load(str(path)).cells)
    tallies = recorded.tallies(surfaces, head["seeds"])
    out = [
        f"# A quarter of the trials, {head['date'][:16].replace('T', ' ')} UTC",
        "",
        f"{head['seeds']} searches a surface, {head['repeats']} repeats a live sweep; "
        f"{shared.described(head)}, Python {head['python']}; load before {head['load_before']:.2f}.",
        "",
        "## Recorded surfaces",
        *recorded.HEAD,
        *(tally.line() for tally in tallies),
        "",
        "*reach 97 %*: searches that name a setting with 97 % of the fastest's median; shares are of it. "
        "Surfaces named *swept* are sweeps of the live part: their optimum is itself uncertain by what "
        "repeats scatter.",
        "",
    ]
    if len(policies.policies()) < 3:
        out += ["Optuna is not installed here: its line is missing.", ""]
    if done:
        out += ["## Live targets", *live.HEAD, *(one.line() for one in done), ""]
        names = {one.target.name: one.target for one in done}
        out += [f"- *{t.name}*: {t.what}; {_axes(t)}" for t in names.values()]
        out += [
            "- *found / fastest*: median ratio of pairs that were measured in turns, with its 95 % interval. "
            "Above 1 the search found a faster setting than the sweep.",
            "",
        ]
    judged: list[goals.Judged] = []
    for tally in tallies:
        if (tally.surface, tally.policy) == ("chspark", "venturi tune"):
            hits = round(tally.hits * len(tally.shares))
            judged += goals.share("searches of chspark that reach 97 %", hits, len(tally.shares), 0.95)
    judged += [
        goals.Judged(
            f"{one.target.name}, try {one.number}: found of the fastest",
            *((1, 1, 1) if one.same else (one.ratio, one.low, one.high)),
            recorded.WANTED,
        )
        for one in done
    ]
    missing = [f"{line['target']}: {line['why']}" for line in lines if "why" in line]
    return shared.Told("\n".join(out), judged, missing=missing)


def _axes(target: targets.Target) -> str:
    return ", ".join(f"`{flag} {values}`" for flag, values in target.axes.items())


if __name__ == "__main__":
    try:
        sys.exit(shared.run("tune", arguments(), measure, told))
    except KeyboardInterrupt:
        sys.exit(130)
    except VenturiError as error:
        sys.exit(f"{error}{f'; {error.hint}' if error.hint else ''}")
