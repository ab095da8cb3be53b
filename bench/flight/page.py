"""From the bench's lines to its page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from bench import goals, shared
from bench.page import Page

BASE, PROBE, OURS = "cpp/cpp", "probe", "venturi/venturi"
FLIGHT = [BASE, "venturi/cpp", "cpp/venturi", OURS]
OF_PROBE, CPU_SECONDS = 0.9, 0.25
"""Venturi at both ends: the least share of raw TCP with sockets as Venturi's are (a reference: messages of
another size may pass it), and the most CPU-seconds of both ends per GB."""

Rounds = dict[int, shared.Line]
Table = dict[tuple[str, int, int], dict[str, Rounds]]
"""By operation, streams and rows per batch; then by pairing."""


def speed(trial: shared.Line) -> float:
    """Payload GB/s (10^9 bytes)."""
    return float(trial["bytes"] / trial["interval_ns"])


def cpu(trial: shared.Line) -> float:
    """CPU-seconds of both ends per GB."""
    spent = trial["user_ns"] + trial["system_ns"] + trial["server_cpu_ns"]
    return float(spent / trial["bytes"])


def required(pairing: str, streams: int) -> float:
    """The ratio to C++ with C++ that a pairing must reach."""
    if pairing == OURS:
        return 1.5 if streams == 1 else 1.25
    return 1.0


def judged(cell: tuple[str, int, int], pairings: dict[str, Rounds]) -> list[goals.Judged]:
    operation, streams, rows = cell
    where = f"{operation}, {streams} stream{'s' * (streams > 1)}, {rows} rows per batch"
    base, ours = pairings.get(BASE, {}), pairings.get(OURS, {})
    found = []
    for name in FLIGHT[1:]:
        ratios = shared.ratios(pairings.get(name, {}), base, speed)
        found += goals.judge(f"{name} of {BASE}: {where}", ratios, required(name, streams))
    of_probe = shared.ratios(ours, pairings.get(PROBE, {}), speed)
    found += goals.judge(f"{OURS} of {PROBE}: {where}", of_probe, OF_PROBE)
    spent = [cpu(trial) for trial in ours.values()]
    return found + goals.judge(f"{OURS}, both ends: {where}", spent, CPU_SECONDS, most=True, unit="CPU-s/GB")


def cell_row(cell: tuple[str, int, int], pairings: dict[str, Rounds], columns: list[str]) -> str:
    words = [str(word) for word in cell]
    for name in columns:
        trials = pairings.get(name, {})
        ratios = shared.ratios(trials, pairings.get(BASE, {}), speed) if name in FLIGHT[1:] else []
        rate = f"{shared.middle(trials, speed):.2f}" if trials else "failed"
        words.append(f"{rate}: {shared.spread(ratios)}" if ratios else rate)
    return "| " + " | ".join(words) + " |"


def cpu_table(table: Table, columns: list[str]) -> list[str]:
    """CPU-seconds per GB of payload, client + server, median over all trials of an operation."""
    lines = ["| operation | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for operation in dict.fromkeys(cell[0] for cell in table):
        words = [operation]
        for name in columns:
            trials = [
                trial
                for cell, pairings in table.items()
                if cell[0] == operation
                for trial in pairings.get(name, {}).values()
            ]
            client = [(t["user_ns"] + t["system_ns"]) / t["bytes"] for t in trials]
            server = [t["server_cpu_ns"] / t["bytes"] for t in trials]
            # The probe does not count its client's.
            both = f"{np.median(client):.2f} + " if name != PROBE else ""
            words.append(f"{both}{np.median(server):.2f}" if trials else "-")
        lines.append("| " + " | ".join(words) + " |")
    return lines


def page(source: Path) -> Page:
    head, *lines = map(json.loads, source.read_text().splitlines())
    columns = head["pairings"]
    table: Table = {}
    names = ("operation", "streams", "rows_per_batch", "pairing")
    for (operation, streams, rows, pairing), rounds in shared.by_round(lines, *names).items():
        table.setdefault((operation, streams, rows), {})[pairing] = rounds
    cells = sorted(table)
    heads = [f"{name}: ratio" if name in FLIGHT[1:] else name for name in columns]
    return Page(
        "Flight, Venturi beside Arrow C++",
        f"payload GB/s (10^9 bytes) of Venturi and Arrow C++ {head['arrow']}, each as client and as server.",
        head,
        lines,
        [
            "Medians; after the colon, the median ratio to cpp/cpp in the same round, with 95 % interval.",
            "Pairings are client/server.",
            "",
            "| operation | streams | rows per batch | " + " | ".join(heads) + " |",
            "|---" * (len(columns) + 3) + "|",
            *(cell_row(cell, table[cell], columns) for cell in cells),
            "",
            "CPU-seconds per GB, client + server, median over the cells:",
            "",
            *cpu_table(table, columns),
        ],
        [goal for cell in cells for goal in judged(cell, table[cell])],
        headline(table),
        f"{head['rounds']} rounds of {head['bytes'] / 1e9:g} GB a trial, seed {head['seed']}",
        shared.failures(lines, *names),
    )


def headline(table: Table) -> str:
    """What Venturi does at both ends, over all cells."""
    ours = [pairings for pairings in table.values() if OURS in pairings and BASE in pairings]
    if not ours:
        return ""
    ratios = [float(np.median(shared.ratios(both[OURS], both[BASE], speed))) for both in ours]
    speeds = [shared.middle(both[OURS], speed) for both in ours]
    return (
        f"Venturi at both ends moves {min(speeds):.1f} to {max(speeds):.1f} GB/s, "
        f"{min(ratios):.1f} to {max(ratios):.1f} times C++ at both ends."
    )
