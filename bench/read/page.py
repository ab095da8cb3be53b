"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bench import goals, shared
from bench.page import Page
from bench.read.ways import GOALS

OURS = "Venturi"
Turns = dict[str, dict[int, shared.Line]]
"""By way and round."""


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    body = ["Medians; ratios are taken within a round, with their 95 % interval."]
    judged: list[goals.Judged] = []
    for server in (line for line in lines if line["kind"] == "server"):
        own = [line for line in lines if line["kind"] == "turn" and line["server"] == server["server"]]
        text, found = _part(server, shared.by_round(own, "way"))
        judged += found
        body += ["", f"## {server['software']}", "", *text]
    return Page(
        "A table read into Arrow batches",
        "rows per client CPU-second of Venturi's gets from PostgreSQL and MariaDB, and of other libraries.",
        head,
        lines,
        body,
        judged,
        "",
        f"{head['rounds']} rounds of {head['rows']:,} rows of 16 columns",
        shared.failures(lines, "server", "way"),
    )


def _part(server: shared.Line, turns: Turns) -> tuple[list[str], list[goals.Judged]]:
    ours = [way for way in turns if way.startswith(OURS)]
    peers = [way for way in turns if way not in ours and not any(t["floor"] for t in turns[way].values())]
    if not ours or not peers:
        return ["Nothing to compare."], []
    best = max(peers, key=lambda way: shared.middle(turns[way], _per_cpu))
    quickest = max(peers, key=lambda way: shared.middle(turns[way], _rate))
    table = [
        f"| way | M rows/s | of {quickest} | M rows per client CPU-second | of {best} |",
        "|---|---|---|---|---|",
    ]
    for way, found in sorted(turns.items(), key=lambda item: -shared.middle(item[1], _per_cpu)):
        cells = []
        for of, figure in ((quickest, _rate), (best, _per_cpu)):
            text = shared.spread(shared.ratios(found, turns[of], figure)) if way != of else "1"
            cells += [f"{shared.middle(found, figure) / 1e6:.2f}", text]
        table.append(f"| {way} | {' | '.join(cells)} |")
    table += ["", "Where the client's time goes, in % of a turn:", ""]
    lead = max(ours, key=lambda way: shared.middle(turns[way], _per_cpu))
    stages = [name for name in next(iter(turns[lead].values()))["stages"] if name]
    table += [f"| way | {' | '.join(stages)} |", "|---" * (len(stages) + 1) + "|"]
    for way in ours:
        shares = [
            np.median([100 * t["stages"].get(stage, 0) / t["interval_ns"] for t in turns[way].values()])
            for stage in stages
        ]
        table.append(f"| {way} | {' | '.join(f'{share:.1f}' for share in shares)} |")
    what = f"{server['software']}: {lead}, rows per client CPU-second, of {best}"
    ratios = shared.ratios(turns[lead], turns[best], _per_cpu)
    return table, goals.judge(what, ratios, GOALS[server["server"]])


def _rate(turn: shared.Line) -> float:
    return float(turn["rows"]) / float(turn["interval_ns"]) * 1e9


def _per_cpu(turn: shared.Line) -> float:
    return float(turn["rows"]) / max(1.0, float(turn["client_cpu_ns"])) * 1e9
