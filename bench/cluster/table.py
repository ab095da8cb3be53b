"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

import goals
import shared

Lines = list[shared.Line]
Part = tuple[list[str], list[goals.Judged]]
_RATIO, _SET_UP_SECONDS, _BEYOND_SECONDS, _MEGABYTES = 0.99, 5.0, 1.0, 500.0


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
    for part in (_pairs, _starts, _loaders):
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
    trials = [line for line in lines if line["kind"] == "trial"]
    runs = [line for line in lines if line["kind"] == "run"]
    if not trials or not runs:
        return [], []
    run = runs[0]
    rows, judged = [], []
    for count in sorted({line["loaders"] for line in trials}):
        own = [line for line in trials if line["loaders"] == count]
        beyond = [line["beyond_s"] for line in own]
        skew, cpu = ([line[name] for line in own] for name in ("skew_ms", "cpu_s"))
        rows.append(
            f"| {count} | {shared.spread(beyond)} | {shared.spread(cpu)} | {shared.spread(skew, 1)} |"
        )
        if count == run["most"]:
            for what, found in (
                (f"driver's CPU time, a trial of {count} loaders", cpu),
                (f"from a trial's end to the next one's start, {count} loaders on one machine", beyond),
            ):
                judged += goals.judge(what, found, _BEYOND_SECONDS, most=True, unit="s")
    peak = run["peak_bytes"] / 1e6
    judged.append(goals.exact("driver's largest memory", peak, _MEGABYTES, most=True, unit="MB"))
    return [
        "",
        f"## Up to {run['most']} loaders on this machine, {head['batches_per_second']} batches/s together",
        "",
        f"{run['begun_s']:.1f} s until the first trial began, for all loaders to start; {run['end_s']:.1f} s "
        "from the last one's end until all of them were gone.",
        "",
        "| loaders | from a trial's end to the next one's start, s | driver's CPU time a trial, s "
        "| skew of starts, ms |",
        "|---|---|---|---|",
        *rows,
    ], judged
