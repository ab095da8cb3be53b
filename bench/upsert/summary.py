"""From the bench's JSONL to its Markdown tables, and whether each goal is met.

A ratio is taken within a round, between turns that came right after one another; told is the median over the
rounds with its 95 % interval. A goal is met where the median reaches it, missed where it does not; where the
interval holds the goal as well, repeats could not decide, and the line says so.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cells import CELLS, EMPTY_GOAL, Cell

from venturi.analysis.statistics.intervals import Interval, median_interval

Turn = dict[str, Any]
Rounds = dict[int, Turn]
Figure = Callable[[Turn], float]


def rate(turn: Turn) -> float:
    return float(turn["rows"] / turn["seconds"])


def per_client_cpu(turn: Turn) -> float:
    # A turn shorter than the clock of CPU time can tell counts as a microsecond.
    return float(turn["rows"] / max(turn["cpu"], 1e-6))


def per_bare_cpu(turn: Turn) -> float:
    """Without what the samples of resources cost, which Venturi tells: no peer takes any."""
    return float(turn["rows"] / max(turn["cpu"] - turn["more"].get("sampler_cpu", 0.0), 1e-6))


def per_life_cpu(turn: Turn) -> float:
    return float(turn["rows"] / max(turn["life"], 1e-6))


def per_server_cpu(turn: Turn) -> float:
    return float(turn["rows"] / max(turn["server_cpu"], 1e-6))


def middle(rounds: Rounds, figure: Figure) -> float:
    return float(np.median([figure(turn) for turn in rounds.values()]))


def ratio(ours: Rounds, theirs: Rounds, figure: Figure) -> Interval | None:
    shared = [number for number in ours if number in theirs]
    if not shared:
        return None
    return median_interval([figure(ours[number]) / figure(theirs[number]) for number in shared])


def spread(interval: Interval) -> str:
    return f"{interval.median:.2f} ({interval.low:.2f}..{interval.high:.2f})"


def verdict(interval: Interval | None, goal: float) -> tuple[str, bool]:
    if interval is None:
        return "**not met**: not measured", False
    met = interval.median >= goal
    word = "met" if met else "**not met**"
    if interval.low < goal <= interval.high:
        word += ", within what repeats scatter"
    return word, met


def cell_lines(cell: Cell, clients: dict[str, Rounds]) -> list[str]:
    lines = [
        f"## {cell.name}: {cell.what}",
        "",
        "| client | rows/s | rows per client CPU-second | client CPU a batch | of that samples "
        "| rows per CPU-second of its whole life | rows per server CPU-second |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in cell.clients:
        rounds = clients.get(name)
        if not rounds:
            lines.append(f"| {name} | failed | | | | | |")
            continue
        batch = 1e6 * cell.rows_per_batch / middle(rounds, per_client_cpu)
        bare = 1e6 * cell.rows_per_batch / middle(rounds, per_bare_cpu)
        fields = [
            f"{middle(rounds, rate):,.0f}",
            f"{middle(rounds, per_client_cpu):,.0f}",
            f"{batch:,.1f} us",
            f"{batch - bare:,.1f} us" if name == "venturi" else "-",
            f"{middle(rounds, per_life_cpu):,.0f}",
            f"{middle(rounds, per_server_cpu):,.0f}",
        ]
        lines.append(f"| {name} | " + " | ".join(fields) + " |")
    return [*lines, ""]


def goal_lines(cell: Cell, clients: dict[str, Rounds], sampled: bool) -> tuple[list[str], bool]:
    lines, all_met = [], True
    ours = clients.get("venturi", {})
    for goal in cell.goals:
        theirs = clients.get(goal.peer, {})
        for figure, least, what in (
            (per_client_cpu, goal.rows_per_cpu_second, "rows per client CPU-second"),
            (per_bare_cpu, goal.rows_per_cpu_second, "the same, samples left out"),
            (rate, goal.rows_per_second, "rows/s"),
        ):
            if least is None or (figure is per_bare_cpu and not sampled):
                continue
            interval = ratio(ours, theirs, figure)
            word, met = verdict(interval, least)
            if figure is per_bare_cpu:
                word = f"({word.replace('**', '')})"
            else:
                all_met &= met
            found = spread(interval) if interval else "-"
            lines.append(f"| {cell.name} | {what} | {goal.peer} | {least:g} | {found} | {word} |")
    return lines, all_met


def read(path: Path) -> tuple[dict[str, Any], dict[str, dict[str, Rounds]], dict[str, list[Any]]]:
    environment: dict[str, Any] = {}
    cells: dict[str, dict[str, Rounds]] = defaultdict(lambda: defaultdict(dict))
    others: dict[str, list[Any]] = defaultdict(list)
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "environment":
            environment = line
        elif line["kind"] == "turn" and "error" not in line:
            cells[line["cell"]][line["client"]][line["round"]] = line
        else:
            others["failed" if "error" in line else line["kind"]].append(line)
    return environment, cells, others


def empty_lines(turns: list[Turn]) -> tuple[list[str], list[str], bool]:
    """The section, the line among the goals, and whether it is met."""
    if not turns:
        return [], [], True
    each = median_interval([per_client_cpu(turn) for turn in turns])
    wall = median_interval([rate(turn) for turn in turns])
    word, met = verdict(each, EMPTY_GOAL)

    def millions(interval: Interval) -> str:
        return f"{interval.median / 1e6:.2f} M ({interval.low / 1e6:.2f}..{interval.high / 1e6:.2f})"

    section = [
        "## empty: rows generated and built into SQL statements inside the interval, then discarded",
        "",
        f"One stream, batches of 500: {millions(each)} rows per CPU-second, {millions(wall)} rows/s.",
        "",
    ]
    goal = f"| empty | rows per client CPU-second | - | {EMPTY_GOAL / 1e6:g} M | {millions(each)} | {word} |"
    return section, [goal], met


def markdown(path: Path) -> tuple[str, bool]:
    """The whole summary, and whether every goal is met."""
    environment, cells, others = read(path)
    steal = [
        turn["steal"] for clients in cells.values() for rounds in clients.values() for turn in rounds.values()
    ]
    versions = "; ".join(f"{name}: {said}" for name, said in environment["peers"].items())
    sections, goals, all_met = empty_lines(others["empty"])
    for cell in CELLS:
        if cell.name not in cells:
            continue
        sections += cell_lines(cell, cells[cell.name])
        lines, met = goal_lines(cell, cells[cell.name], environment.get("samples", True))
        goals += lines
        all_met &= met
    servers = [
        f"- {server['software']}: " + ", ".join(f"{k} = {v}" for k, v in server["settings"].items())
        for server in others["server"]
    ]
    lines = [
        f"# Upserts, Venturi beside its peers, {environment['date'][:16].replace('T', ' ')} UTC",
        "",
        f"{environment['cpu']}, {environment['cpus']} CPUs, which client and server share; Linux "
        f"{environment['kernel'].split('-')[0]}; Python {environment['python']}; "
        f"commit {environment['commit']}; {environment['rounds']} rounds, {environment['seconds']:g} s a "
        f"turn, {environment['streams']} "
        f"streams, {environment['rows']:,} rows, all of them in the table already; Venturi's samples "
        f"{'on' if environment.get('samples', True) else 'off'}; load before "
        f"{environment['load_before']:.2f}, CPU time stolen {100 * float(np.mean(steal or [0])):.1f} %.",
        "",
        f"Peers: {versions}.",
        "",
        "Servers (`venturi serve`), not at their defaults:",
        *servers,
        "",
        "| cell | figure | against | goal | median ratio in one round (95 %) | |",
        "|---|---|---|---:|---:|---|",
        *goals,
        "",
        *sections,
        "Medians over the rounds. *client CPU* is of the time in which rows are upserted: not starting, "
        "reading files, building statements, connecting; *its whole life* has all that too. Lines in "
        "brackets are not judged: Venturi takes samples of both ends' resources, as in any trial, its peers "
        "take none. *server CPU* runs until the server is idle again.",
    ]
    if others["failed"]:
        lines += ["", f"Failed turns: {len(others['failed'])}"]
        lines += [f"- {line['error']}" for line in others["failed"][:10]]
    return "\n".join(lines) + "\n", all_met and not others["failed"]
