"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

import model
import numpy as np

import goals
import shared

Cells = dict[tuple[str, int | None, int, int], dict[int, shared.Line]]
_NEAR = 0.1
"""So near, as a share, a prediction has to come to what was measured."""
_SHARE = 0.05
"""The most that cores may take from one another of what a batch costs."""
_SEEN = 1.3
"""One counter for all must take so many times as long beside another core, or the probe sees nothing."""
_RUNNING, _TURNS = 0.9, 3
"""A turn counts in which each thread ran for so much of the time; so many have to."""
_WORKING = ("generate", "encode", "send", "receive", "decode", "verify")


def told(source: Path) -> shared.Told:
    head, *found = map(json.loads, source.read_text().splitlines())
    lines = [line for line in found if line["kind"] != "part"]
    cells: Cells = {}
    for line in lines:
        if "error" not in line:
            key = (line["kind"], line.get("rows"), line["streams"], line["cpus"])
            cells.setdefault(key, {})[line["round"]] = line
    parts: dict[str, dict[int, list[float]]] = {}
    for line in found:
        if line["kind"] == "part":
            of = parts.setdefault(line["part"], {}).setdefault(line["threads"], [])
            of += [line["ns"]] if line["running"] >= _RUNNING else []
    rare = [part for part in (*model.USES, *model.CONTROLS) if min(map(len, parts[part].values())) < _TURNS]
    missing = [f"lines that caches hand over: {head['no_events']}"] if head["no_events"] else []
    if head.get("siblings"):
        missing.append("two cores: the two CPUs that were used are threads of one")
    text = [
        f"# Cores: {head['date'][:10]}",
        "",
        f"{shared.described(head)}; load before {head['load_before']:.2f}, {shared.steal(lines)}. "
        "Medians with 95 % intervals. CPU time is that of both ends, user and system.",
    ]
    judged: list[goals.Judged] = []
    if rare:
        busy = f"the machine is too busy: under {_TURNS} turns in which all threads ran"
        missing.append(f"the parts of the hot path and the model: {busy}, of {', '.join(rare)}")
        text += _stages(cells)
    else:
        lost = model.lost(parts)
        text += [*_parts(parts, lost), *_stages(cells), *_checked(cells, lost), *_many(cells, lost)]
        judged = _judged(cells, parts, lost)
    return shared.Told("\n".join(text), judged, shared.failures(lines, "kind", "streams", "cpus"), missing)


def _parts(parts: dict[str, dict[int, list[float]]], lost: model.Lost) -> list[str]:
    rows = []
    for part, by in parts.items():
        uses = model.USES.get(part)
        rows.append(
            f"| {part} | {shared.spread(by[1], 1)} | {shared.spread(by[2], 1)} | "
            f"{np.median(by[2]) / np.median(by[1]):.2f} | {uses or 'not on it'} |"
        )
    return [
        "",
        "## Parts of the hot path, by one thread and by two at the same time",
        "",
        "| part | ns of CPU alone | beside another core | times | uses a batch of a get |",
        "|---|---|---|---|---|",
        *rows,
        "",
        f"A batch loses {lost.ns:.0f} ns [{lost.low:.0f}..{lost.high:.0f}] to another core that does the "
        "same.",
    ]


def _stages(cells: Cells) -> list[str]:
    rows = []
    for (kind, size, streams, cpus), rounds in sorted(cells.items(), key=str):
        batches = sum(line["batches"] for line in rounds.values())
        each = []
        for end in ("server", "client"):
            spent = {name: 0 for name in _WORKING}
            for line in rounds.values():
                for name, ns in ((line["stages"] or {}).get(end) or {}).items():
                    if name in spent:
                        spent[name] += ns
            each.append(", ".join(f"{name} {ns / batches:,.0f}" for name, ns in spent.items() if ns))
        cpu = [sum(line["cpu_ns"].values()) / line["batches"] for line in rounds.values()]
        what = f"{kind}, {size} rows" if size else kind
        digits = 0 if size else 1
        spent_by = " | ".join(one or "-" for one in each)
        rows.append(f"| {what} | {streams} | {cpus} | {shared.spread(cpu, digits)} | {spent_by} |")
    return [
        "",
        "## What a batch costs",
        "",
        "Stages are times by the clock, in which a thread may have waited for a CPU; CPU time is not.",
        "",
        "| | streams | CPUs | CPU time, ns a batch | server's stages, ns | client's stages, ns |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _cost(line: shared.Line) -> float:
    """CPU seconds a byte."""
    return float(sum(line["cpu_ns"].values()) / line["bytes"] * 1e-9)


def _crossing(one: dict[int, shared.Line], two: dict[int, shared.Line]) -> float:
    """What one stream takes more on two CPUs than on one."""
    return float(np.median([_cost(two[number]) - _cost(one[number]) for number in set(one) & set(two)]))


def _predictions(cells: Cells, lost: model.Lost) -> dict[tuple[int, int], tuple[list[float], list[float]]]:
    """By rows and streams: of each round what was predicted of two CPUs, and what was measured, both in CPU
    seconds a GB."""
    found: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
    for (kind, rows, streams, cpus), two in cells.items():
        if kind != "get" or cpus != 2 or rows is None or streams == 1:
            continue
        one = cells.get((kind, rows, streams, 1), {})
        single = [cells.get((kind, rows, 1, count), {}) for count in (1, 2)]
        for number in set(one) & set(two):
            line = one[number]
            costs = model.Costs(_cost(line), _crossing(*single), line["batches"] / line["bytes"])
            predicted, measured = found.setdefault((rows, streams), ([], []))
            predicted.append(1e9 * costs.on_two(lost.ns))
            measured.append(1e9 * _cost(two[number]))
    return dict(sorted(found.items()))


def _checked(cells: Cells, lost: model.Lost) -> list[str]:
    rows = []
    for (size, streams), (predicted, measured) in _predictions(cells, lost).items():
        one = [1e9 * _cost(line) for line in cells["get", size, streams, 1].values()]
        inside = _low(predicted) <= np.median(measured) <= _high(predicted)
        rows.append(
            f"| {size} | {streams} | {shared.spread(one, 3)} | {shared.spread(predicted, 3)} | "
            f"{shared.spread(measured, 3)} | {'yes' if inside else 'no'} |"
        )
    return [
        "",
        "## Two CPUs, predicted from one",
        "",
        "CPU seconds a GB of payload, of a get; what one stream takes more or less on two CPUs is known.",
        "",
        "| rows per batch | streams | on one CPU | predicted of two | measured on two | inside |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _low(values: list[float]) -> float:
    return float(shared.median_interval(values).low)


def _high(values: list[float]) -> float:
    return float(shared.median_interval(values).high)


def _costs(cells: Cells, rows: int) -> model.Costs:
    """Over all numbers of streams together."""
    streams = sorted({s for kind, size, s, _ in cells if kind == "get" and size == rows})

    def mean(kind: str, size: int, cpus: int) -> float:
        return float(np.mean([shared.middle(cells[kind, size, s, cpus], _cost) for s in streams]))

    whole = [line for s in streams for line in cells["get", rows, s, 1].values()]
    batches = sum(line["batches"] for line in whole) / sum(line["bytes"] for line in whole)
    crossing = _crossing(cells["get", rows, 1, 1], cells["get", rows, 1, 2])
    return model.Costs(mean("get", rows, 1), crossing, batches)


def _many(cells: Cells, lost: model.Lost) -> list[str]:
    sizes = sorted({size for kind, size, _, _ in cells if kind == "get" and size is not None})
    rows = []
    for size in sizes:
        costs = _costs(cells, size)
        told = []
        for cpus in model.ASKED:
            likely = costs.throughput(cpus, lost.ns, pairs=False)
            most = costs.throughput(cpus, min(lost.low, lost.ns), pairs=False)
            least = costs.throughput(cpus, lost.high, pairs=True)
            told.append(f"{likely / 1e9:,.1f} [{least / 1e9:,.1f}..{most / 1e9:,.1f}]")
        rows.append(f"| {size} | {' | '.join(told)} |")
    counts = " | ".join(f"{cpus} CPUs" if cpus > 1 else "1 CPU" for cpus in model.ASKED)
    return [
        "",
        "## More CPUs, for both ends together",
        "",
        "GB/s of a get by the model: likely, and from the least (each pair of cores loses what two were seen "
        "to lose at most) to the most. One and two CPUs were measured, above; the others are reasoned. "
        "Memory, sockets of a second processor and the kernel's own locks are not in it.",
        "",
        f"| rows per batch | {counts} |",
        f"|---|{'---|' * len(model.ASKED)}",
        *rows,
    ]


def _judged(cells: Cells, parts: dict[str, dict[int, list[float]]], lost: model.Lost) -> list[goals.Judged]:
    judged: list[goals.Judged] = []
    control = model.CONTROLS[0]
    seen = [beside / float(np.median(parts[control][1])) for beside in parts[control][2]]
    judged += goals.judge("one counter for all, beside another core to alone: the probe sees it", seen, _SEEN)
    predictions = _predictions(cells, lost)
    for (size, streams), (predicted, measured) in predictions.items():
        ratios = [told / found for told, found in zip(predicted, measured, strict=True)]
        what = f"CPU time on two CPUs, predicted from one to measured, {size} rows, {streams} streams"
        judged += goals.judge(what, ratios, 1 - _NEAR)
        judged += goals.judge(what, ratios, 1 + _NEAR, most=True)
    for size in dict.fromkeys(size for size, _ in predictions):
        costs = _costs(cells, size)
        batch_ns = 1e9 * costs.one / costs.batches
        low, middle, high = (ns / batch_ns for ns in (lost.low, lost.ns, lost.high))
        what = f"lost to another core, share of a batch's CPU time, {size} rows"
        judged.append(goals.Judged(what, middle, low, high, _SHARE, most=True))
    return judged
