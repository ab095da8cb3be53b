"""From the bench's JSONL to its Markdown table, and whether its goals are met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from shared import bootstrap, described

Lines = list[dict[str, Any]]
_RATIO, _SET_UP_SECONDS, _BEYOND_SECONDS, _MEMORY = 0.99, 5.0, 1.0, 500e6


def markdown(source: Path) -> tuple[str, bool]:
    """The table of a JSONL file, and whether every goal is met and nothing failed."""
    lines = [json.loads(text) for text in source.read_text().splitlines()]
    head, found = lines[0], lines[1:]
    stolen = [line["steal"] for line in found if "steal" in line]
    out = [
        f"# Through Ray on this machine: {head['date'][:10]}",
        "",
        f"{described(head)}; Ray {head['ray']}; load before {head['load_before']:.2f}, CPU time stolen "
        f"{100 * float(np.mean(stolen or [0.0])):.1f} %. Medians with 95 % bootstrap intervals.",
    ]
    goals: list[tuple[str, str, str, bool]] = []
    good = [line for line in found if "error" not in line]
    for part in (_pairs, _starts, _loaders):
        out += part(good, head, goals)
    out += ["", "## Goals", "", "| | found | wanted | |", "|---|---|---|---|"]
    out += [
        f"| {what} | {text} | {want} | {'met' if ok else '**missed**'} |" for what, text, want, ok in goals
    ]
    failed = [line for line in found if "error" in line]
    if failed:
        out += ["", f"Failed: {len(failed)}", *(f"- {line['error']}" for line in failed[:10])]
    return "\n".join([*out, ""]), all(ok for *_, ok in goals) and not failed


def _text(values: list[float], digits: int = 2) -> str:
    if not values:
        return "-"
    low, high = bootstrap(values)
    return f"{np.median(values):,.{digits}f} ({low:,.{digits}f}..{high:,.{digits}f})"


def _ways(lines: Lines) -> dict[str, dict[int, dict[str, Any]]]:
    """By way and round; rounds in which each way has one."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for line in lines:
        found.setdefault(line["way"], {})[line["round"]] = line
    whole = set.intersection(*(set(rounds) for rounds in found.values())) if len(found) == 2 else set()
    return {way: {n: line for n, line in rounds.items() if n in whole} for way, rounds in found.items()}


def _pairs(lines: Lines, head: dict[str, Any], goals: list[Any]) -> list[str]:
    found = _ways([line for line in lines if line["kind"] == "pair"])
    if len(found) != 2:
        return []
    (_, here), (_, there) = sorted(found.items(), reverse=True)

    def rate(line: dict[str, Any]) -> float:
        return float(line["bytes"] / line["interval_ns"] * 1e3)

    ratios = [rate(there[n]) / rate(here[n]) for n in here]
    low, high = bootstrap(ratios)
    text = _text(ratios, 3)
    # Missed where it is proved: pairs on a machine that others keep busy scatter by more than is asked for.
    goals.append(
        ("throughput through Ray to without, same round", text, f"within 1 % of {_RATIO + 0.01:g}",
         high >= _RATIO and low <= 2 - _RATIO)
    )  # fmt: skip
    rows = [
        f"| {way} | {_text([rate(line) for line in rounds.values()], 0)} | "
        f"{_text([line['cpu_ns'] / line['bytes'] for line in rounds.values()], 3)} |"
        for way, rounds in sorted(found.items(), reverse=True)
    ]
    title = f"## A get of two streams, {len(here)} pairs of 2 s"
    return ["", title, "", "| | MB/s | client's CPU, s/GB |", "|---|---|---|", *rows]


def _starts(lines: Lines, head: dict[str, Any], goals: list[Any]) -> list[str]:
    found = _ways([line for line in lines if line["kind"] == "start"])
    if len(found) != 2:
        return []
    (_, here), (_, there) = sorted(found.items(), reverse=True)
    more = [there[n]["begun_s"] - here[n]["begun_s"] for n in here]
    goals.append(
        ("set-up of a run, more than without, s", _text(more), f"< {_SET_UP_SECONDS:g}",
         float(np.median(more)) < _SET_UP_SECONDS)
    )  # fmt: skip
    rows = [
        f"| {way} | {_text([line['begun_s'] for line in rounds.values()])} | "
        f"{_text([line['whole_s'] for line in rounds.values()])} |"
        for way, rounds in sorted(found.items(), reverse=True)
    ]
    title = f"## A run of one trial of 0.1 s, {len(here)} times"
    return ["", title, "", "| | s to its start | s in all |", "|---|---|---|", *rows]


def _loaders(lines: Lines, head: dict[str, Any], goals: list[Any]) -> list[str]:
    trials = [line for line in lines if line["kind"] == "trial"]
    runs = [line for line in lines if line["kind"] == "run"]
    if not trials or not runs:
        return []
    run = runs[0]
    rows = []
    for count in sorted({line["loaders"] for line in trials}):
        own = [line for line in trials if line["loaders"] == count]
        beyond = [line["beyond_s"] for line in own]
        skew, cpu = ([line[name] for line in own] for name in ("skew_ms", "cpu_s"))
        rows.append(f"| {count} | {_text(beyond)} | {_text(cpu)} | {_text(skew, 1)} |")
        if count == run["most"]:
            for what, found in (
                (f"driver's CPU time, s a trial of {count} loaders", cpu),
                (f"from a trial's end to the next one's start, {count} loaders on one machine, s", beyond),
            ):
                met = float(np.median(found)) < _BEYOND_SECONDS
                goals.append((what, _text(found), f"< {_BEYOND_SECONDS:g}", met))
    peak = run["peak_bytes"]
    goals.append(
        ("driver's largest memory, MB", f"{peak / 1e6:,.0f}", f"< {_MEMORY / 1e6:g}", peak < _MEMORY)
    )
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
    ]
