"""What a user waits for: `venturi show` and `venturi report` of a large run, its page, and a tiny run.

Without --run, a run of 10,000 trials is made by large_run.py, and removed afterwards. Each command runs
once per round, as a separate process, as a user starts it. The cost of one more trial is the slope of wall
clock over the number of trials, between runs of 5 and of 105 trials over loopback, without the measured
interval. Without Chromium the page is not opened, and the record says so. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench import goals, shared
from bench.page import Page
from bench.scale import large_run
from bench.scale.commands import venturi
from support.browser import CHROMIUM, Browser

SECONDS = {"show": 4.0, "report": 8.0, "tiny": 1.0}
MEGABYTES, PAGE_MEGABYTES, PAINT_SECONDS, TRIAL_MS = 1000.0, 15.0, 1.0, 30.0
FEW, MANY = 5, 105
TARGETS = ("flight://local", "empty://")
"""A target with a server process and one without a server: their difference is the cost of the server."""
WORDS = ("run", "--operation", "get", "--streams", "1", "--rows-per-stream", "1000", "--quiet")
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]"


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "scale", 7, "of every command once")
    add = parser.add_argument
    add("--run", type=Path, metavar="DIRECTORY", help="measure a run that exists")
    add("--cells", type=int, default=large_run.CELLS, help="of the run that is made, five trials each")
    return parser.parse_args()


def tiny(out: Path) -> shared.Line:
    """A run of one trial, as a user types it, with its limits and its report."""
    return venturi([*WORDS, "--target", TARGETS[0], "--repeats", "1", "--out", str(out)])


def slope(out: Path, target: str) -> shared.Line:
    """Seconds by the clock and of CPU time of a trial more, without its interval."""
    words = [*WORDS, "--target", target, "--ceilings", "none", "--no-report"]
    few, many = (venturi([*words, "--repeats", str(n), "--out", f"{out}-{n}"]) for n in (FEW, MANY))
    lines = Path(f"{out}-{MANY}", "trials.jsonl").read_text().splitlines()
    interval = statistics.median(json.loads(line)["times"]["interval_ns"] for line in lines) / 1e9
    more = {name: (many[name] - few[name]) / (MANY - FEW) for name in ("seconds", "cpu_seconds")}
    return more | {"seconds": more["seconds"] - interval}


def opened(page: Path, profile: Path) -> shared.Line:
    """Seconds until something of the page is seen in Chromium, without a window and a graphics card."""
    with Browser(profile) as browser:
        browser.open(page)
        browser.wait(PAINTED)
        paint = browser.run(f"{PAINTED}.startTime") / 1e3
        if browser.console:
            raise RuntimeError(f"the page complained: {browser.console[0]}")
        return {"first_paint": paint, "browser": browser.call("Browser.getVersion")["product"]}


def measure(options: argparse.Namespace, output: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="venturi-scale-") as place, output.open("w") as file:
        work = Path(place)
        run = options.run or large_run.write(work / "run", options.cells)
        page = work / "report.html"
        commands = {"show": ["show", str(run)], "report": ["report", str(run), "-o", str(page)]}
        keep = shared.keeper(file)
        trials = run / "trials.jsonl"
        size = {"trials": sum(1 for _ in trials.open("rb")), "bytes": trials.stat().st_size}
        keep({**shared.machine(), **size, "rounds": options.rounds})
        tiny(work / "first")  # the first run on a machine does the self-test; the next ones know its result
        for number in range(options.rounds):
            for name, words in commands.items():
                keep({"kind": "command", "round": number, "name": name, **venturi(words)})
            keep({"kind": "command", "round": number, "name": "tiny", **tiny(work / f"tiny-{number}")})
            for target in TARGETS:
                found = slope(work / f"{target.partition(':')[0]}-{number}", target)
                keep({"kind": "trial", "round": number, "target": target, **found})
            if CHROMIUM is not None:
                seen = opened(page, work / f"profile-{number}")
                keep({"kind": "page", "round": number, "bytes": page.stat().st_size, **seen})


TITLES = {
    "show": "`venturi show`",
    "report": "`venturi report`",
    "tiny": "a run of one tiny trial, from the command to its end",
}


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    commands = shared.by_round([line for line in lines if line["kind"] == "command"], "name")
    trials = shared.by_round([line for line in lines if line["kind"] == "trial"], "target")
    pages = [line for line in lines if line["kind"] == "page"]
    body = ["| | by the clock | CPU time | peak memory, MB |", "| --- | ---: | ---: | ---: |"]
    judged: list[goals.Judged] = []

    def row(
        what: str, own: Sequence[shared.Line], most: float | None, unit: str = "s", scale: float = 1
    ) -> None:
        wall, cpu = ([scale * line[name] for line in own] for name in ("seconds", "cpu_seconds"))
        peak = max(line.get("peak_bytes", 0) for line in own) / 1e6
        memory = f"{peak:,.0f}" if peak else ""
        body.append(f"| {what} | {shared.spread(wall)} {unit} | {shared.spread(cpu)} {unit} | {memory} |")
        if most is not None:
            judged.extend(goals.judge(what, wall, most, most=True, unit=unit))
        if peak:
            judged.append(goals.exact(f"{what}: memory", peak, MEGABYTES, most=True, unit="MB"))

    for name, own in commands.items():
        row(TITLES[name], list(own.values()), SECONDS[name])
    for target, own in trials.items():
        most = TRIAL_MS if target == TARGETS[0] else None
        row(f"a trial more, `{target}`, beside its interval", list(own.values()), most, "ms", 1e3)
    if pages:
        size, paint = pages[-1]["bytes"] / 1e6, [line["first_paint"] for line in pages]
        body += [
            "",
            f"The page: {size:.1f} MB; first paint after {shared.spread(paint)} s in {pages[-1]['browser']}.",
        ]
        judged.append(goals.exact("the page", size, PAGE_MEGABYTES, most=True, unit="MB"))
        judged += goals.judge("first paint", paint, PAINT_SECONDS, most=True, unit="s")
    return Page(
        "What a user waits for",
        "seconds and memory of `show`, `report`, a page and a tiny run.",
        head,
        lines,
        body,
        judged,
        "",
        f"{head['rounds']} rounds; a run of {head['trials']:,} trials ({head['bytes'] / 1e6:.0f} MB)",
        missing=[] if pages else ["the page: there is no Chromium here"],
    )


if __name__ == "__main__":
    sys.exit(shared.run("scale", arguments(), measure, page))
