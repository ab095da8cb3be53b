"""From the bench's JSONL to its Markdown table, and whether its goals are met."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from shared import bootstrap, described

# Where the client is, while the server is on CPU 0: on CPU 0, on CPU 1.
PLACES = ("on the server's CPU", "on another CPU")
SEED_RATE = 120e6  # bytes/s of one encoder, as published

Found = dict[str, dict[str, dict[int, dict[str, Any]]]]  # part -> way -> round -> trial


def markdown(source: Path) -> tuple[str, bool]:
    """The table of a JSONL file, and whether every goal is met and no trial failed."""
    lines = [json.loads(text) for text in source.read_text().splitlines()]
    head, trials = lines[0], lines[1:]
    found: Found = defaultdict(lambda: defaultdict(dict))
    for line in trials:
        if "error" not in line:
            found[line["part"]][line["way"]][line["round"]] = line
    steal = float(np.mean([line["steal"] for line in trials] or [0.0]))
    out = [
        f"# charrow beside other ways to an Arrow table: {head['date'][:10]}",
        "",
        f"{described(head)}; Arrow {head['arrow']}; {head['rounds']} rounds of {head['bytes'] / 1e9:g} GB a "
        f"trial (of ClickHouse's table a third); load before {head['load_before']:.2f}, CPU time stolen "
        f"{100 * steal:.1f} %.",
        "",
        "Payload of decoded Arrow batches, medians with their 95 % bootstrap intervals; CPU-seconds per GB "
        "of client and server.",
    ]
    for part, names in head["ways"].items():
        out += ["", f"## {part}", "", *(f"{note}\n" for note in head.get("peers", {}).get(part, ()))]
        out += ["| way | MB/s | client + server, s/GB |", "|---|---|---|"]
        out += [_row(name, list(found[part][name].values())) for name in names if name in found[part]]
    goals = _goals(found)
    out += ["", "## Goals", "", "| | median ratio in the same round | wanted | |", "|---|---|---|---|"]
    out += [
        f"| {what} | {text} | {wanted} | {'met' if ok else '**missed**'} |"
        for what, text, wanted, ok in goals
    ]
    failed = [line for line in trials if "error" in line]
    if failed:
        out += ["", f"Failed trials: {len(failed)}", *(f"- {line['error']}" for line in failed[:10])]
    return "\n".join([*out, ""]), all(ok for *_, ok in goals) and not failed


def _row(name: str, trials: list[dict[str, Any]]) -> str:
    speeds = [speed(t) for t in trials]
    low, high = bootstrap(speeds)
    cpu = [
        f"{np.median([t[key] / t['bytes'] for t in trials]):.2f}"
        if all(t.get(key) is not None for t in trials)
        else "-"
        for key in ("client_cpu_ns", "server_cpu_ns")
    ]
    margin = f"{low / 1e6:,.0f}..{high / 1e6:,.0f}"
    return f"| {name} | {np.median(speeds) / 1e6:,.0f} ({margin}) | {' + '.join(cpu)} |"


def speed(trial: dict[str, Any]) -> float:
    """Payload bytes per second."""
    return float(trial["bytes"]) / float(trial["interval_ns"]) * 1e9


def _goals(found: Found) -> list[tuple[str, str, str, bool]]:
    out = []

    def judge(what: str, values: list[float], wanted: float) -> None:
        if values:
            low, high = bootstrap(values)
            ratio = float(np.median(values))
            out.append((what, f"{ratio:.2f} ({low:.2f}..{high:.2f})", f">= {wanted:g}", ratio >= wanted))

    def compare(what: str, one: str, other: str, wanted: float) -> None:
        mine, theirs = found.get("memory", {}).get(one, {}), found.get("memory", {}).get(other, {})
        judge(what, [speed(mine[n]) / speed(theirs[n]) for n in mine if n in theirs], wanted)

    mine = "charrow 1, decoders 0"  # with one connection, another thread has nothing to share
    compare("charrow of raw TCP, 1 partition, 1 MiB", mine, "raw TCP 1", 0.85)
    for where in PLACES:
        compare(f"the same, {where}", f"charrow 1, {where}", f"raw TCP 1, {where}", 0.85)
    compare("charrow over Arrow C++ Flight, 1 stream", mine, "Arrow C++ Flight 1", 1.5)
    rows = found.get("rows", {}).get("charrow, encoders 1", {})
    judge("one encoder over the published 120 MB/s", [speed(t) / SEED_RATE for t in rows.values()], 4)
    return out
