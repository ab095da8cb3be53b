"""What a user waits for: `venturi show` and `venturi report` of a large run, its page, and a tiny run.

    make bench-scale                              # measured and printed
    make bench-scale BENCH="--run DIRECTORY"      # of a run that is there already

Without --run one of 10,000 trials is made by make_run.py, and removed afterwards. Each command is a process
of its own, as a user starts it, once a round.

The page is scrolled from its top to its end in Chromium, 60 pixels a frame (four screens a second), and so is
its longest table. A frame is due every 16.7 ms. Chromium without a window and without a graphics card paints
on the same cores as all else on the machine, so frames come late there for other reasons too: beside their
times stands the CPU time that the page's own thread took for one, which other processes do not lengthen.

Without Chromium the page is not opened, and the record says so. See bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

import make_run
from commands import venturi
from page import FRAME_MS, LATE_MS, opened
from trials import TARGETS, slope, tiny

import goals
import shared

SECONDS = {"show": 4.0, "report": 8.0}
MEGABYTES, PAGE_MEGABYTES = 1000.0, 15.0
PAINT_SECONDS, RUN_SECONDS, TRIAL_MS = 1.0, 1.0, 30.0
# A frame is measured in steps of the display's clock, a little to either side.
FRAMES = {
    "median frame": 1.5 * FRAME_MS,
    "95 % of the frames": LATE_MS + 1,
    "CPU time of a frame": FRAME_MS,
}


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "scale", 7, "of every command once")
    add = parser.add_argument
    add("--run", type=Path, metavar="DIRECTORY", help="that is there already")
    add("--cells", type=int, default=make_run.CELLS, help="of a run that is made, five trials each")
    return parser.parse_args()


def measure(options: argparse.Namespace, output: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix="venturi-scale-"))
    try:
        run = options.run or make_run.write(work / "run", options.cells)
        page = work / "report.html"
        commands = {"show": ["show", str(run)], "report": ["report", str(run), "-o", str(page)]}
        with output.open("w") as file:
            keep = shared.keeper(file)
            trials = run / "trials.jsonl"
            size = {"trials": sum(1 for _ in trials.open("rb")), "bytes": trials.stat().st_size}
            keep({**shared.machine(), **size, "rounds": options.rounds})
            # The first run on a machine proves the instrument, which is kept; and files come from the disk.
            tiny(work / "first")
            for number in range(options.rounds):
                for name, words in commands.items():
                    keep({"kind": "command", "round": number, "name": name, **venturi(words).as_json()})
                keep({"kind": "tiny", "round": number, **tiny(work / f"tiny-{number}").as_json()})
                for target in TARGETS:
                    found = slope(work / f"{target.partition(':')[0]}-{number}", target)
                    keep({"kind": "trial", "round": number, "target": target, **found})
                if (seen := opened(page, work / f"profile-{number}")) is not None:
                    keep({"kind": "page", "round": number, "bytes": page.stat().st_size, **seen.as_json()})
            keep({"kind": "end", "load_after": os.getloadavg()[0]})
    finally:
        shutil.rmtree(work, ignore_errors=True)


def told(source: Path) -> shared.Told:
    head, *lines = map(json.loads, source.read_text().splitlines())
    commands = shared.by_round([line for line in lines if line["kind"] == "command"], "name")
    trials = shared.by_round([line for line in lines if line["kind"] == "trial"], "target")
    tiny = [line for line in lines if line["kind"] == "tiny"]
    out = [
        f"# What a user waits for, {head['date'][:16].replace('T', ' ')} UTC",
        "",
        f"A run of {head['trials']:,} trials (trials.jsonl: {head['bytes'] / 1e6:.0f} MB); "
        f"{shared.described(head)}, Python {head['python']}; {head['rounds']} rounds; "
        f"load average {head['load_before']:.1f} before, "
        f"{lines[-1]['load_after']:.1f} after.",
        "",
        "| | by the clock | CPU time | peak memory, MB |",
        "| --- | ---: | ---: | ---: |",
    ]
    judged: list[goals.Judged] = []

    def row(
        what: str, own: list[shared.Line], limit: float | None, unit: str = "s", scale: float = 1.0
    ) -> None:
        wall, cpu = ([scale * line[name] for line in own] for name in ("seconds", "cpu_seconds"))
        peak = max((line.get("peak_bytes", 0) for line in own), default=0) / 1e6
        memory = f"{peak:,.0f}" if peak else ""
        out.append(f"| {what} | {shared.spread(wall)} {unit} | {shared.spread(cpu)} {unit} | {memory} |")
        if limit is not None:
            judged.extend(goals.judge(what, wall, limit, most=True, unit=unit))
        if peak:
            judged.append(goals.exact(f"{what}: memory", peak, MEGABYTES, most=True, unit="MB"))

    for name, own in commands.items():
        row(f"`venturi {name}`", list(own.values()), SECONDS[name])
    row("a run of one tiny trial, from the command to its end", tiny, RUN_SECONDS)
    for target, own in trials.items():
        limit = TRIAL_MS if target == TARGETS[0] else None
        row(f"a trial more, `{target}`, beside its interval", list(own.values()), limit, "ms", 1e3)
    pages = [line for line in lines if line["kind"] == "page"]
    if not pages:
        return shared.Told("\n".join(out), judged, missing=["the page: no Chromium is here"])
    text, more = _page(pages)
    return shared.Told("\n".join(out + text), judged + more)


def _page(pages: list[shared.Line]) -> tuple[list[str], list[goals.Judged]]:
    page, paint = pages[-1], [line["first_paint"] for line in pages]
    size = page["bytes"] / 1e6
    judged = [goals.exact("the page", size, PAGE_MEGABYTES, most=True, unit="MB")]
    judged += goals.judge("first paint", paint, PAINT_SECONDS, most=True, unit="s")
    out = [
        "",
        f"The page: {size:.1f} MB; first paint after {shared.spread(paint)} s, scripts run after "
        f"{page['unpacked']:.1f} s, in {page['browser']} without a window; {page['elements']:,} elements "
        "after scrolling.",
        "",
        f"| scrolled | frames | {', ms | '.join(FRAMES)}, ms |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for place, one in enumerate(page["scrolled"]):
        found: dict[str, list[float]] = {name: [] for name in FRAMES}
        for line in pages:
            own = line["scrolled"][place]
            ranked = sorted(own["frames"])
            at = [ranked[min(len(ranked) - 1, int(part * len(ranked)))] for part in (0.5, 0.95)]
            for name, figure in zip(FRAMES, (*at, own["cpu_ms"]), strict=True):
                found[name].append(figure)
        texts = [shared.spread(found[name], 1) for name in FRAMES]
        out.append(f"| {one['name']} | {len(one['frames'])} | {' | '.join(texts)} |")
        for name, most in FRAMES.items():
            judged += goals.judge(f"{one['name']} scrolled: {name}", found[name], most, most=True, unit="ms")
    return out, judged


if __name__ == "__main__":
    sys.exit(shared.run("scale", arguments(), measure, told))
