"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

import law

import goals
import shared

Lines = list[shared.Line]
Part = tuple[list[str], list[goals.Judged]]
_RATIO, _SET_UP_SECONDS, _BEYOND_SECONDS, _MEGABYTES = 0.99, 5.0, 1.0, 500.0
_JUDGED = 100
"""Loaders of which the goals are."""
_NEAR = 1.3
"""So many times too much or too little, and a law is of no use beyond what was measured."""


def told(source: Path) -> shared.Told:
    head, *found = map(json.loads, source.read_text().splitlines())
    out = [
        f"# Through Ray on this machine: {head['date'][:10]}",
        "",
        f"{shared.described(head)}; Ray {head['ray']}; load before {head['load_before']:.2f}, "
        f"{shared.steal(found)}. Medians with 95 % intervals.",
    ]
    judged: list[goals.Judged] = []
    good = [line for line in found if "error" not in line]
    for part in (_pairs, _starts, _loaders, _simulated):
        text, more = part(good, head)
        out, judged = out + text, judged + more
    return shared.Told("\n".join(out), judged, shared.failures(found, "kind", "way", "loaders"))


def _ways(lines: Lines) -> dict[str, dict[int, shared.Line]]:
    """By way and round; rounds in which each way has one."""
    found = shared.by_round(lines, "way")
    whole = set.intersection(*(set(rounds) for rounds in found.values())) if len(found) == 2 else set()
    return {way: {n: line for n, line in rounds.items() if n in whole} for way, rounds in found.items()}


def _pairs(lines: Lines, head: shared.Line) -> Part:
    found = _ways([line for line in lines if line["kind"] == "pair"])
    if len(found) != 2:
        return [], []
    (_, here), (_, there) = sorted(found.items(), reverse=True)

    def rate(line: shared.Line) -> float:
        return float(line["bytes"] / line["interval_ns"] * 1e3)

    ratios = shared.ratios(there, here, rate)
    judged = goals.judge("throughput through Ray to without, same round", ratios, _RATIO)
    rows = [
        f"| {way} | {shared.spread([rate(line) for line in rounds.values()], 0)} | "
        f"{shared.spread([line['cpu_ns'] / line['bytes'] for line in rounds.values()], 3)} |"
        for way, rounds in sorted(found.items(), reverse=True)
    ]
    title = f"## A get of two streams, {len(here)} pairs of 2 s"
    table = ["", title, "", "| | MB/s | client's CPU, s/GB |", "|---|---|---|", *rows]
    return table, judged


def _starts(lines: Lines, head: shared.Line) -> Part:
    found = _ways([line for line in lines if line["kind"] == "start"])
    if len(found) != 2:
        return [], []
    (_, here), (_, there) = sorted(found.items(), reverse=True)
    more = [there[n]["begun_s"] - here[n]["begun_s"] for n in here]
    judged = goals.judge("set-up of a run, more than without", more, _SET_UP_SECONDS, most=True, unit="s")
    rows = [
        f"| {way} | {shared.spread([line['begun_s'] for line in rounds.values()])} | "
        f"{shared.spread([line['whole_s'] for line in rounds.values()])} |"
        for way, rounds in sorted(found.items(), reverse=True)
    ]
    title = f"## A run of one trial of 0.1 s, {len(here)} times"
    return ["", title, "", "| | s to its start | s in all |", "|---|---|---|", *rows], judged


def _loaders(lines: Lines, head: shared.Line) -> Part:
    return _driven(lines, head, "real", "on this machine")


def _simulated(lines: Lines, head: shared.Line) -> Part:
    text, judged = _driven(lines, head, "simulated", "simulated, each as on a host of its own")
    found = _by_loaders(lines, "simulated")
    figures = (
        ("from a trial's end to the next one's start", "beyond_s"),
        ("driver's CPU time a trial", "driver_cpu_s"),
    )
    rows = []
    for what, name in figures:
        by_count = {count: [line[name] for line in own] for count, own in found.items()}
        grows = law.fit(by_count)
        if grows is None:
            continue
        rows.append(f"| {what} | {_margin(grows.base, 2)} s | {_margin(grows.each, 2, 1e3)} ms |")
        most = max(by_count)
        smaller = law.fit({count: values for count, values in by_count.items() if count < most})
        if smaller is not None:
            told, low, high = smaller.at(most)
            rows[-1] += f" {_margin((told, low, high), 2)} s | {shared.spread(by_count[most])} s |"
            title = f"{what}: {most} loaders, law of fewer to measured"
            ratios = [told / value for value in by_count[most]]
            judged += goals.judge(title, ratios, _NEAR, most=True) + goals.judge(title, ratios, 1 / _NEAR)
        else:
            rows[-1] += " - | - |"
    if rows:
        text += [
            "",
            "The law a + b loaders, and what it says of the largest number from the others alone:",
            "",
            "| | a | b, each loader | predicted | measured |",
            "|---|---|---|---|---|",
            *rows,
        ]
    return text, judged


def _margin(found: tuple[float, float, float], digits: int, scale: float = 1.0) -> str:
    middle, low, high = (scale * value for value in found)
    return f"{middle:,.{digits}f} [{low:,.{digits}f}..{high:,.{digits}f}]"


def _by_loaders(lines: Lines, kind: str) -> dict[int, Lines]:
    trials = [line for line in lines if line["kind"] == "trial" and line["of"] == kind]
    counts = sorted({line["loaders"] for line in trials})
    return {count: [line for line in trials if line["loaders"] == count] for count in counts}


def _driven(lines: Lines, head: shared.Line, kind: str, where: str) -> Part:
    found = _by_loaders(lines, kind)
    runs = {line["loaders"]: line for line in lines if line["kind"] == "run" and line["of"] == kind}
    found = {count: own for count, own in found.items() if count in runs}
    if not found:
        return [], []
    rows, judged = [], []
    names = ("beyond_s", "driver_cpu_s", "ray_cpu_s", "loaders_cpu_s")
    for count, own in found.items():
        cells = [shared.spread([line[name] for line in own]) for name in names]
        cells.append(shared.spread([line["skew_ms"] for line in own], 1))
        run = runs[count]
        cells += [f"{run['begun_s']:.1f}", f"{run['end_s']:.1f}", f"{run['peak_bytes'] / 1e6:.0f}"]
        rows.append(f"| {count} | {' | '.join(cells)} |")
    asked = _JUDGED if _JUDGED in found else max(found)
    for what, name in (
        (f"driver's CPU time, a trial of {asked} loaders {where}", "driver_cpu_s"),
        (f"from a trial's end to the next one's start, {asked} loaders {where}", "beyond_s"),
    ):
        values = [line[name] for line in found[asked]]
        judged += goals.judge(what, values, _BEYOND_SECONDS, most=True, unit="s")
    if kind == "real":
        peak = max(run["peak_bytes"] for run in runs.values()) / 1e6
        judged.append(goals.exact("driver's largest memory", peak, _MEGABYTES, most=True, unit="MB"))
    return [
        "",
        f"## Up to {max(found)} loaders {where}, {head['batches_per_second']} batches/s together",
        "",
        "| loaders | from a trial's end to the next one's start, s | driver's CPU time a trial, s "
        "| Ray's processes' | loaders' | skew of starts, ms | until the first trial, s | to the end, s "
        "| driver's memory, MB |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ], judged
