"""Does `venturi tune` reach 97 % of the exhaustive optimum in a quarter of the trials?

- Recorded: published surfaces, and the sweeps of the live part, searched again from many seeds; beside it a
  random search and, where it is installed, Optuna's TPE (see bench/README.md).
- Live: a Flight server on loopback, and one behind a slow link (needs root; left out without), swept, tuned,
  and both answers measured again in turns.

The exit status is 1 where seed 000's table is missed by more than one search in twenty, or a live target by a
ratio whose whole 95 % interval lies under 97 %.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

import live
import policies
import recorded
import targets

from venturi.analysis.results import load
from venturi.common.errors import VenturiError
from venturi.measure.tune import Recorded

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--seeds", type=int, default=50, help="searches of each recorded surface (default 50)")
    add("--tries", type=int, default=3, help="of each live target; 0: none (default 3)")
    add("--repeats", type=int, default=3, help="of each cell of a live sweep (default 3)")
    add("--pairs", type=int, default=15, help="trials of each answer, measured again (default 15)")
    add("--only", choices=["loopback", "slow link"], help="this live target only")
    add("--record", action="store_true", help="keep the table as bench/tune/results/<date>.md")
    add("--keep", type=Path, help="where live runs go (default target/bench-tune/<date>)")
    return parser.parse_args()


def attempts(options: argparse.Namespace, kept: Path) -> tuple[list[live.Try], list[str]]:
    done, left_out = [], []
    for target in (targets.LOOPBACK, targets.LINK):
        if options.tries < 1 or (options.only and options.only != target.name):
            continue
        if why := targets.refused(target):
            left_out.append(f"{target.name}: left out, {why}")
            continue
        for number in range(1, options.tries + 1):
            began = time.monotonic()
            one = live.attempt(target, number, options.repeats, options.pairs, kept)
            done.append(one)
            print(f"{time.monotonic() - began:.0f} s: {one.line()}", file=sys.stderr, flush=True)
    return done, left_out


def report(
    options: argparse.Namespace,
    tallies: list[recorded.Tally],
    done: list[live.Try],
    left_out: list[str],
    stamp: datetime,
) -> str:
    from venturi.common.environment import collect

    host = collect([])["client"]
    out = [
        f"# A quarter of the trials, {stamp:%Y-%m-%d %H:%M} UTC",
        "",
        f"{options.seeds} searches a surface, {options.repeats} repeats a live sweep; {host.get('cpu')}, "
        f"{os.cpu_count()} CPUs, {host.get('system')} {str(host.get('kernel')).split('-')[0]}, virtualised: "
        f"{host.get('virtualised')}, Python {platform.python_version()}.",
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
    return "\n".join([*out, *left_out, *([""] if left_out else [])])


def _axes(target: targets.Target) -> str:
    return ", ".join(f"`{flag} {values}`" for flag, values in target.axes.items())


def main() -> int:
    options = arguments()
    # Ended from outside, it takes its servers and namespaces along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stamp = datetime.now(timezone.utc)
    kept = options.keep or ROOT / "target" / "bench-tune" / f"{stamp:%Y-%m-%d-%H%M%S}"
    kept.mkdir(parents=True, exist_ok=True)
    done, left_out = attempts(options, kept)
    surfaces = recorded.surfaces()
    for path in sorted(kept.glob("*-01-all")):
        surfaces[f"swept {path.name.removesuffix('-01-all')}"] = Recorded(load(str(path)).cells)
    tallies = recorded.tallies(surfaces, options.seeds)
    text = report(options, tallies, done, left_out, stamp)
    print(text)
    if options.record:
        path = HERE / "results" / f"{stamp:%Y-%m-%d-%H%M}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(path, file=sys.stderr)
    missed = [t for t in tallies if t.surface == "chspark" and t.policy == "venturi tune" and t.hits < 0.95]
    slow = [one for one in done if not one.same and one.high < recorded.WANTED]
    return 1 if missed or slow else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except VenturiError as error:
        sys.exit(f"{error}{f'; {error.hint}' if error.hint else ''}")
