"""From the lines of the bench to its page: rates by link, and where each codec stops to pay."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import goals
import shared
from venturi.analysis.models.packing import Packing
from venturi.analysis.statistics.intervals import Interval, median_interval

UNSHAPED = "unshaped"
NEAR = 0.15
"""How far a prediction may lie from what was measured, where it lies outside of its interval."""
ALONE = 0.9
"""The share of the cores that it can use which a trial must have had, to speak for the machine."""


def rate(line: shared.Line) -> float:
    """Payload bytes/s."""
    return float(line["payload"] * 1e9 / line["interval_ns"])


def spent(line: shared.Line) -> float:
    """CPU-seconds of both ends for a GB."""
    return float(sum(line["cpu_ns"]) / line["payload"])


def cores_used(line: shared.Line) -> float:
    return float(sum(line["cpu_ns"]) / line["interval_ns"])


def crossing(speeds: Sequence[float], ratios: Sequence[float]) -> float:
    """The link's speed at which a codec is as fast as plain: straight between the logarithms of the two links
    around it. The first speed where it is slower on the slowest link, the last where it is faster on all."""
    if ratios[0] < 1:
        return speeds[0]
    for at in range(1, len(ratios)):
        if ratios[at] < 1:
            above, below = math.log(ratios[at - 1]), math.log(ratios[at])
            share = above / (above - below)
            return math.exp((1 - share) * math.log(speeds[at - 1]) + share * math.log(speeds[at]))
    return speeds[-1]


def _beyond(found: Interval, speeds: Sequence[float]) -> Interval | None:
    """Where a crossing is that lies surely past the slowest or the fastest link, at which it is cut off."""
    if found.low >= speeds[-1]:
        return replace(found, high=math.inf)
    return replace(found, low=0.0) if found.high <= speeds[0] else None


@dataclass(frozen=True)
class Cell:
    """A codec on some data and streams."""

    data: str
    streams: int
    codec: str
    ratio: float
    predicted: float
    """Bytes/s of the link; 0: it never pays."""
    found: Interval | None
    """The same as measured; None where it lies beyond the links, or where the data get no smaller."""
    beyond: Interval | None
    """Where it surely lies beyond them: from the last link to all that is faster, or slower."""
    wins: list[str]
    """Links on which it is surely faster than plain."""
    busy: float
    """Cores that both ends should have used without a link, by the law; and what they had."""
    had: float
    with_had: float | None
    """The same as predicted, of the cores that they had; None without the codecs' CPU times."""

    @property
    def crowded(self) -> str | None:
        """Why nothing can be said of the prediction: others held the cores."""
        if self.had >= ALONE * self.busy:
            return None
        return (
            f"the crossing of {self.data}, {self.streams} x {self.codec}, on the whole machine: others kept "
            f"it busy, both ends had {self.had:.1f} cores of the {self.busy:.1f} that they could use"
        )

    def error(self, predicted: float) -> Interval | None:
        """Of a prediction, as a share, and how sure that is; None where nothing tells."""
        at = self.found or self.beyond
        if self.predicted == 0.0 or at is None:
            return None
        inside = at.low <= predicted <= at.high
        if inside and self.found is None:
            return None
        median, low, high = (abs(predicted / x - 1) if x else math.inf for x in (at.median, at.low, at.high))
        return Interval(median, 0.0 if inside else min(low, high), max(low, high), at.n, at.coverage)

    @property
    def row(self) -> str:
        texts = [self.data, str(self.streams), self.codec, f"{self.ratio:.2f}", self._measured, self._said]
        cores = f"{bits(self.with_had)} ({self.had:.1f})" if self.with_had and self.predicted else "-"
        return f"| {' | '.join([*texts, cores])} |"

    @property
    def _measured(self) -> str:
        if self.found is None:
            return "on no link, surely" if not self.wins else f"on {self.wins[-1]} still"
        low, high = (bits(x) for x in (self.found.low, self.found.high))
        return f"{bits(self.found.median)} [{low}..{high}]"

    @property
    def _said(self) -> str:
        return "never" if self.predicted == 0.0 else bits(self.predicted)


def bits(speed: float) -> str:
    """Gbit/s."""
    return "over all" if math.isinf(speed) else f"{8 * speed / 1e9:.3g}"


class Lines:
    """What was measured, by what it is of."""

    def __init__(self, head: shared.Line, lines: Sequence[shared.Line]) -> None:
        self.links: list[str] = head["links"]
        self.cores: int = head["cores"]
        kinds = {kind: [x for x in lines if x["kind"] == kind] for kind in ("trial", "link", "core", "crate")}
        self.trials = shared.by_round(kinds["trial"], "data", "streams", "codec", "link")
        self.speeds = shared.by_round(kinds["link"], "link")
        self.core = shared.by_round(kinds["core"], "data", "codec")
        self.crates = shared.by_round(kinds["crate"], "data", "codec", "verb")
        self.ways: list[tuple[str, int]] = [(name, streams) for name, streams in head["ways"]]
        self.codecs: list[str] = head["codecs"]

    def speed(self, link: str) -> float:
        return shared.middle(self.speeds[link], lambda line: float(line["rate"]))

    def ratios(self, data: str, streams: int, codec: str, link: str) -> dict[int, float]:
        """Its rate over plain, round by round."""
        ours, plain = (self.trials.get((data, streams, x, link), {}) for x in (codec, "none"))
        return {n: rate(ours[n]) / rate(plain[n]) for n in ours.keys() & plain.keys()}

    def cell(self, data: str, streams: int, codec: str) -> Cell | None:
        measured = self.core.get((data, codec))
        links = [link for link in self.links if link in self.speeds]
        by_link = {link: self.ratios(data, streams, codec, link) for link in links}
        rounds = set.intersection(*(set(found) for found in by_link.values())) if by_link else set()
        if not measured or not rounds:
            return None
        names = ("encode", "decode", "ratio")
        packing = Packing(codec, data, *(shared.middle(measured, lambda x, n=n: float(x[n])) for n in names))
        socket = self.speed(UNSHAPED)
        wins = [link for link, found in by_link.items() if median_interval(list(found.values())).low > 1]
        speeds = [self.speed(link) for link in links]
        crossings = [crossing(speeds, [by_link[link][n] for link in links]) for n in sorted(rounds)]
        found = median_interval(crossings)
        told = packing.ratio > 1 and speeds[0] < found.median < speeds[-1]
        had = shared.middle(self.trials[data, streams, codec, links[-1]], cores_used)
        cost = self.cost(data, streams, codec)
        return Cell(
            *(data, streams, codec, packing.ratio),
            packing.pays_below(streams, socket, self.cores),
            found if told else None,
            _beyond(found, speeds) if packing.ratio > 1 else None,
            wins,
            packing.cores_busy(streams, socket, self.cores),
            had,
            1e9 * had / cost if cost is not None else None,
        )

    def cost(self, data: str, streams: int, codec: str) -> float | None:
        """CPU-seconds of both ends for a GB as they are predicted: one core's codec, and plain's bytes on the
        wire."""
        plain = self.trials.get((data, streams, "none", UNSHAPED), {})
        ways = [self.crates.get((data, codec, verb), {}) for verb in ("encode", "decode")]
        if not (plain and all(ways) and (data, codec) in self.core):
            return None
        ratio = shared.middle(self.core[data, codec], lambda line: float(line["ratio"]))
        cores = sum(1e9 / shared.middle(way, lambda line: float(line["ours"])) for way in ways)
        return cores + shared.middle(plain, spent) / ratio


def _rates(lines: Lines, data: str, streams: int) -> list[str]:
    """Payload by link, of plain and of each codec beside it."""
    out = [
        f"### {data}, {streams} stream{'s' if streams > 1 else ''}",
        "| link | raw TCP, Gbit/s | " + " | ".join(lines.codecs) + " |",
        "|---" * (2 + len(lines.codecs)) + "|",
    ]
    for link in lines.links:
        found = {codec: lines.trials.get((data, streams, codec, link), {}) for codec in lines.codecs}
        if link not in lines.speeds or not all(found.values()):
            continue
        cells = [shared.spread([rate(x) / 1e6 for x in found["none"].values()], 0)]
        for codec in lines.codecs[1:]:
            ratios = list(lines.ratios(data, streams, codec, link).values())
            cells.append(f"{shared.middle(found[codec], rate) / 1e6:,.0f}: {shared.spread(ratios)}")
        out.append(f"| {link} | {bits(lines.speed(link))} | " + " | ".join(cells) + " |")
    return [*out, ""]


def _spent(lines: Lines, data: str, streams: int) -> tuple[list[str], list[goals.Judged]]:
    """CPU-seconds of both ends for a GB of payload, without a link, measured and predicted. What others do
    with the cores is in neither."""
    out, judged = [], []
    for codec in lines.codecs[1:]:
        found = lines.trials.get((data, streams, codec, UNSHAPED), {})
        predicted = lines.cost(data, streams, codec)
        if found and predicted is not None:
            measured = [spent(line) for line in found.values()]
            out.append(f"| {data} | {streams} | {codec} | {shared.spread(measured)} | {predicted:.2f} |")
            errors = [abs(one / predicted - 1) for one in measured]
            what = f"{data}, {streams} x {codec}: error of the CPU time for a GB"
            judged += goals.judge(what, errors, NEAR, most=True)
    return out, judged


def _crates(lines: Lines) -> tuple[list[str], list[goals.Judged]]:
    out, judged = ["| data | codec | | ours, MB/s | ours / the crate |", "|---|---|---|---|---|"], []
    for (data, codec, verb), found in lines.crates.items():
        ratios = [line["ours"] / line["crate"] for line in found.values()]
        ours = shared.middle(found, lambda line: float(line["ours"]))
        out.append(f"| {data} | {codec} | {verb} | {ours / 1e6:,.0f} | {shared.spread(ratios, 3)} |")
        judged += goals.judge(f"{codec} {verb} of {data}, of the crate's own", ratios, 1.0)
    return out, judged


def _judged(cell: Cell, rounds: int) -> list[goals.Judged]:
    """Whether the prediction holds."""
    if cell.predicted == 0.0:
        # A win by chance is one in forty of a link.
        wins, what = (
            len(cell.wins),
            f"{cell.data}, {cell.streams} x {cell.codec}: links on which it pays after all",
        )
        return [goals.exact(what, wins, 0, most=True)] if rounds >= 6 else []
    predicted, of = (cell.with_had, ", with the cores that it had") if cell.crowded else (cell.predicted, "")
    if predicted is None or (error := cell.error(predicted)) is None:
        return []
    what = f"{cell.data}, {cell.streams} x {cell.codec}: error of the link's speed below which it pays"
    found = (error.median, error.low, error.high, NEAR)
    return [goals.Judged(f"{what}{of}", *found, most=True, coverage=error.coverage)]


def told(source: Path) -> shared.Told:
    head, *found = map(json.loads, source.read_text().splitlines())
    lines = Lines(head, found)
    out = [
        f"# Where compression pays, {head['date'][:16].replace('T', ' ')} UTC",
        "",
        f"{shared.described(head)}; load before {head['load_before']:.2f}; {shared.steal(found)}.",
        "",
    ]
    judged: list[goals.Judged] = []
    cells = [lines.cell(*way, codec) for way in lines.ways for codec in lines.codecs[1:]]
    known = [cell for cell in cells if cell is not None]
    if known:
        rounds = max(len(rounds) for rounds in lines.trials.values())
        out += [
            "## Faster than plain on links slower than this",
            "| data | streams | codec | times smaller | measured, Gbit/s | predicted, Gbit/s "
            "| with the cores that it had |",
            "|---|---|---|---|---|---|---|",
            *(cell.row for cell in known),
            "",
            f"Median of {rounds} rounds [95 %]. A link's speed is what raw TCP carries.",
            "",
            "## Payload, MB/s, and of plain in the same round",
            *(line for way in lines.ways for line in _rates(lines, *way)),
        ]
        judged += [goal for cell in known for goal in _judged(cell, rounds)]
        costs = [_spent(lines, *way) for way in lines.ways]
        if any(table for table, _ in costs):
            out += [
                "## CPU-seconds of both ends for a GB, without a link",
                "| data | streams | codec | measured | predicted |",
                "|---|---|---|---|---|",
                *(row for table, _ in costs for row in table),
                "",
            ]
            judged += [goal for _, more in costs for goal in more]
    if lines.crates:
        table, more = _crates(lines)
        out += ["## One core, beside the crates", *table, ""]
        judged += more
    missing = [line["why"] for line in found if line["kind"] == "missing"]
    missing += [why for cell in known if cell.predicted and (why := cell.crowded)]
    failed = shared.failures(found, "kind", "data", "streams", "codec", "link")
    return shared.Told("\n".join(out), judged, failed, missing)
