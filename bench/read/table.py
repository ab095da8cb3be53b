"""From the bench's lines to its table, and whether its goals are met."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from ways import GOALS

import shared

OURS = "Venturi"
Turns = dict[str, dict[int, Any]]
"""By way and round."""


def tabled(source: Path) -> tuple[str, bool]:
    head, *lines = map(json.loads, source.read_text().splitlines())
    failed = [line for line in lines if "error" in line]
    out = [
        "# A table read into Arrow batches",
        "",
        f"{head['date']}; {shared.described(head)}; load before {head['load_before']:.2f}. "
        f"{head['rows']:,} rows of 16 columns; {head['rounds']} rounds; medians, with the 95 % interval of "
        "those of the ratios, which are taken within a round.",
    ]
    met = not failed
    for server in (line for line in lines if line["kind"] == "server"):
        turns: Turns = {}
        for line in lines:
            if line["kind"] == "turn" and line["server"] == server["server"] and line not in failed:
                turns.setdefault(line["way"], {})[line["round"]] = line
        text, good = _part(server, turns)
        met = met and good
        out += ["", f"## {server['software']}", "", *text]
    out += [f"\nfailed: {line['server']}, {line['way']}: {line['error']}" for line in failed]
    return "\n".join([*out, ""]), met


def _part(server: dict[str, Any], turns: Turns) -> tuple[list[str], bool]:
    ours = [way for way in turns if way.startswith(OURS)]
    peers = [way for way in turns if way not in ours and not any(t["floor"] for t in turns[way].values())]
    if not ours or not peers:
        return ["Nothing to compare."], True
    best = max(peers, key=lambda way: np.median([_per_cpu(turn) for turn in turns[way].values()]))
    quickest = max(peers, key=lambda way: np.median([_rate(turn) for turn in turns[way].values()]))
    goal = GOALS[server["server"]]
    table = [
        f"| way | M rows/s | of {quickest} | M rows per client CPU-second | of {best} |",
        "|---|---|---|---|---|",
    ]
    for way, found in sorted(turns.items(), key=lambda item: -_middle(item[1], _per_cpu)):
        cells = []
        for of, measured in ((quickest, _rate), (best, _per_cpu)):
            ratios = [measured(turn) / measured(turns[of][n]) for n, turn in found.items() if n in turns[of]]
            low, high = shared.bootstrap(ratios)
            text = f"{np.median(ratios):.2f} [{low:.2f}..{high:.2f}]" if way != of else "1"
            cells += [f"{_middle(found, measured) / 1e6:.2f}", text]
        table.append(f"| {way} | {' | '.join(cells)} |")
    lead = max(ours, key=lambda way: _middle(turns[way], _per_cpu))
    rounds = turns[lead].keys() & turns[best].keys()
    ratios = [_per_cpu(turns[lead][n]) / _per_cpu(turns[best][n]) for n in sorted(rounds)]
    low, high = shared.bootstrap(ratios)
    good = high >= goal
    verdict = "met" if low >= goal else "cannot be told" if good else "**missed**"
    table += [
        "",
        f"Goal: {lead}, rows per client CPU-second, at least {goal} times {best}: "
        f"{np.median(ratios):.2f} [{low:.2f}..{high:.2f}], {verdict}.",
        "",
        "Where the client's time goes, in % of a turn:",
        "",
    ]
    stages = [name for name in next(iter(turns[lead].values()))["stages"] if name]
    table += [f"| way | {' | '.join(stages)} |", "|---" * (len(stages) + 1) + "|"]
    for way in ours:
        shares = [
            np.median([100 * t["stages"].get(stage, 0) / t["interval_ns"] for t in turns[way].values()])
            for stage in stages
        ]
        table.append(f"| {way} | {' | '.join(f'{share:.1f}' for share in shares)} |")
    return table, good


def _middle(turns: dict[int, Any], measured: Any) -> float:
    return float(np.median([measured(turn) for turn in turns.values()]))


def _rate(turn: dict[str, Any]) -> float:
    return float(turn["rows"]) / float(turn["interval_ns"]) * 1e9


def _per_cpu(turn: dict[str, Any]) -> float:
    return float(turn["rows"]) / max(1.0, float(turn["client_cpu_ns"])) * 1e9
