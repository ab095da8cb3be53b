"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

from bench import goals, shared
from bench.page import Page
from bench.upsert.cells import CELLS, EMPTY_GOAL, Cell

Turn = shared.Line
Rounds = dict[int, Turn]


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


def cell_lines(cell: Cell, clients: dict[str, Rounds]) -> list[str]:
    lines = [
        "",
        f"## {cell.name}: {cell.what}",
        "",
        "| client | rows/s | rows per client CPU-second | client CPU per batch | samples' part of it "
        "| rows per CPU-second of its whole life | rows per server CPU-second |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name in cell.clients:
        rounds = clients.get(name)
        if not rounds:
            lines.append(f"| {name} | failed | | | | | |")
            continue
        batch = 1e6 * cell.rows_per_batch / shared.middle(rounds, per_client_cpu)
        bare = 1e6 * cell.rows_per_batch / shared.middle(rounds, per_bare_cpu)
        fields = [
            f"{shared.middle(rounds, rate):,.0f}",
            f"{shared.middle(rounds, per_client_cpu):,.0f}",
            f"{batch:,.1f} us",
            f"{batch - bare:,.1f} us" if name == "venturi" else "-",
            f"{shared.middle(rounds, per_life_cpu):,.0f}",
            f"{shared.middle(rounds, per_server_cpu):,.0f}",
        ]
        lines.append(f"| {name} | " + " | ".join(fields) + " |")
    ours = clients.get("venturi", {})
    without = [
        f"{peer} {shared.spread(shared.ratios(ours, clients.get(peer, {}), per_bare_cpu))}"
        for peer in cell.clients[1:]
    ]
    return [*lines, "", f"Rows per client CPU-second, samples left out, of {', '.join(without)}."]


def judged(cell: Cell, clients: dict[str, Rounds]) -> list[goals.Judged]:
    found, ours = [], clients.get("venturi", {})
    for goal in cell.goals:
        theirs = clients.get(goal.peer, {})
        what = f"{cell.name} of {goal.peer}"
        per_cpu = shared.ratios(ours, theirs, per_client_cpu)
        found += goals.judge(f"{what}: rows per client CPU-second", per_cpu, goal.rows_per_cpu_second)
        if goal.rows_per_second is not None:
            found += goals.judge(f"{what}: rows/s", shared.ratios(ours, theirs, rate), goal.rows_per_second)
    return found


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    turns = shared.by_round([line for line in lines if line["kind"] == "turn"], "cell", "client")
    empty = [line for line in lines if line["kind"] == "empty" and "error" not in line]
    versions = "; ".join(f"{name}: {version}" for name, version in head["peers"].items())
    text = [
        f"Peers: {versions}.",
        "",
        "Servers (`venturi serve`), not at their defaults:",
        *(
            f"- {server['software']}: " + ", ".join(f"{k} = {v}" for k, v in server["settings"].items())
            for server in lines
            if server["kind"] == "server"
        ),
        "",
        "Medians over the rounds. *client CPU* is that of the time in which rows are upserted, without",
        "starting, reading files, building statements and connecting; *its whole life* includes these.",
        "Venturi takes samples of both ends' resources, as in any trial; its peers take none. *server CPU*",
        "runs until the server is idle again.",
    ]
    rows = [per_client_cpu(turn) / 1e6 for turn in empty]
    found = goals.judge("empty: rows per client CPU-second", rows, EMPTY_GOAL / 1e6, unit="M")
    if empty:
        text += [
            "",
            "## empty: rows generated and built into SQL statements inside the interval, then discarded",
            "",
            f"One stream, batches of 500: {shared.spread(rows)} M rows per CPU-second, "
            f"{shared.spread([rate(turn) / 1e6 for turn in empty])} M rows/s.",
        ]
    for cell in CELLS:
        clients = {client: rounds for (name, client), rounds in turns.items() if name == cell.name}
        if clients:
            text += cell_lines(cell, clients)
            found += judged(cell, clients)
    samples = "on" if head.get("samples", True) else "off"
    return Page(
        "Upserts, Venturi beside its peers",
        "rows per client CPU-second, of the same statements on the same server.",
        head,
        lines,
        text,
        found,
        "",
        f"{head['rounds']} rounds, {head['seconds']:g} s per turn, {head['streams']} streams, "
        f"{head['rows']:,} rows that are in the table already; Venturi's samples {samples}",
        shared.failures(lines, "cell", "client"),
    )
