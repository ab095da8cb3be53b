"""Predictions over links: each is left out in turn, predicted from the others, and held against its trials.

Flight gets and puts, with 1 and 4 streams, with and without a window, and upserts into MariaDB that wait for
each answer, over links of the laboratory (`venturi run --link`). Nothing is fitted to what is predicted. See
bench/README.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import goals, shared
from bench.page import Page
from support.verdict import summarise
from venturi.analysis.models import fit_words, over_links
from venturi.analysis.models.over_links import LinkFit
from venturi.analysis.statistics.intervals import Interval
from venturi.common.units import Quantity

LINKS = (
    *("20mbit 10ms", "50mbit 40ms", "100mbit", "100mbit 20ms", "200mbit 5ms", "200mbit 80ms", "500mbit 10ms"),
    *("1gbit", "1gbit 20ms", "2gbit 2ms", "100mbit 20ms loss 0.1%", "200mbit 10ms loss 1%"),
    "50mbit 40ms loss 0.5%",
)
SETS = {
    "flight": ["--target", "flight://local", "--window", "none,1Mi"],
    "upserts": ["--target", "mysql://local", "--operation", "upsert", "--streams", "1", "--in-flight", "1"],
}
NEAR = 0.1


def arguments() -> argparse.Namespace:
    parser = shared.arguments(__doc__, "links", 3, "repeats of every cell")
    add = parser.add_argument
    add("--links", nargs="+", default=list(LINKS), help="as venturi run --link has them")
    add("--sets", nargs="+", choices=SETS, default=list(SETS), help="what goes over them (default all)")
    add("--seconds", type=float, default=1.0, help="of a trial (default 1)")
    add("--operations", nargs="+", choices=("get", "put"), default=["get", "put"], help="of Flight")
    add("--streams", nargs="+", type=int, default=[1, 4], help="of Flight (default 1 4)")
    return parser.parse_args()


def command(options: argparse.Namespace, name: str, place: Path) -> list[str]:
    flight = ["--operation", ",".join(options.operations), "--streams", ",".join(map(str, options.streams))]
    return [
        *(sys.executable, "-m", "venturi", "run", *SETS[name], "--link", ",".join(options.links)),
        *(flight if name == "flight" else ()),
        *("--duration", f"{options.seconds:g}s", "--repeats", str(options.rounds), "--ceilings", "none"),
        # A trial over a link has a process of its own: there is nothing to warm.
        *("--warmup", "0"),
        *("--no-report", "--quiet", "--out", str(place)),
    ]


def measure(options: argparse.Namespace, output: Path) -> None:
    with output.open("w") as file, tempfile.TemporaryDirectory(prefix="bench-links-") as work:
        keep = shared.keeper(file)
        keep({**shared.machine(), "links": options.links, "seconds": options.seconds})
        for name in options.sets:
            place = Path(work) / name
            line: shared.Line = {"kind": "set", "set": name}
            with shared.stolen(line):
                words = command(options, name, place)
                bench = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                try:
                    errors = bench.communicate()[1]
                finally:
                    # Ended from outside, it takes its laboratory and its servers along.
                    bench.terminate()
                    bench.wait()
            trials = place / "trials.jsonl"
            if not trials.exists():
                last = errors.strip().splitlines()[-1:] or ["it ended without a word"]
                keep({"kind": "missing", "why": f"{name}: {last[0]}"})
                continue
            keep(line)
            for text in trials.read_text().splitlines():
                record = json.loads(text)
                keep({"kind": "trial", "set": name, "record": record, **_error(record)})


def _error(record: dict[str, Any]) -> dict[str, str]:
    if record["outcome"] == "ok":
        return {}
    link, reason = record["parameters"].get("link"), (record.get("error") or {}).get("message")
    return {"link": str(link), "error": str(reason or record["outcome"])}


def held_out(fits: list[LinkFit]) -> Iterator[tuple[LinkFit, str, float, Interval | None]]:
    for one in fits:
        for text, measured, found in one.left_out(one.links):
            yield one, text, measured, found


def _row(one: LinkFit, text: str, measured: float, found: Interval | None) -> str:
    setting = fit_words.link_head(one).replace(" over links", "")
    shown = Quantity(measured, unit=one.unit)
    if found is None:
        return f"| {setting} | {text} | {shown} | inconclusive | | |"
    inside = "inside" if found.low <= measured <= found.high else "**outside**"
    error = 100 * (found.median / measured - 1)
    return f"| {setting} | {text} | {shown} | {found.quantity(one.unit)} | {error:+.1f} % | {inside} |"


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    fits = over_links.build(summarise([line["record"] for line in lines if line["kind"] == "trial"]))
    held = list(held_out(fits))
    known = [(measured, found) for _, _, measured, found in held if found is not None]
    inside = sum(found.low <= measured <= found.high for measured, found in known)
    near = sum(abs(found.median / measured - 1) <= NEAR for measured, found in known)
    return Page(
        "Predictions over links",
        "what `venturi predict --link` says of a link, if it knows only the others.",
        head,
        lines,
        [
            f"Each link was left out in turn and predicted from the others: {len(held)} times, of which "
            f"{len(held) - len(known)} were inconclusive.",
            "",
            "| setting | link left out | measured | predicted | error | |",
            "|---|---|---|---|---|---|",
            *(_row(*one) for one in held),
            "",
            "## Laws",
            *(f"- {fit_words.link_head(one)}: {'; '.join(fit_words.link_sentences(one))}" for one in fits),
        ],
        [
            *goals.share("held-out medians inside the 95 % interval", inside, len(known), 0.9),
            *goals.share("predictions within 10 % of the measured median", near, len(known), 0.8),
        ],
        f"{inside} of {len(known)} medians are inside their interval, {near} within 10 % of the prediction.",
        f"{len(head['links'])} links, trials of {head['seconds']:g} s",
        shared.failures([line for line in lines if line["kind"] == "trial"], "set", "link"),
        [line["why"] for line in lines if line["kind"] == "missing"],
    )


if __name__ == "__main__":
    sys.exit(shared.run("links", arguments(), measure, page))
