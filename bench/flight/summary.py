"""From the bench's JSONL to its Markdown table and the acceptance summary.

A ratio is taken within a round, between trials that ran right after one another, and the
median over the rounds is reported; the interval is the 95 % percentile bootstrap of that
median. With few rounds it is coarse, but it comes from the same noise as the numbers.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from peers import Cell

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from shared import bootstrap, described

BASE = "cpp/cpp"
FLIGHT = ["cpp/cpp", "venturi/cpp", "cpp/venturi", "venturi/venturi"]

Trial = dict[str, Any]
Table = dict[Cell, dict[str, dict[int, Trial]]]  # cell -> pairing -> round -> trial


def read(path: Path) -> tuple[dict[str, Any], Table, list[Trial]]:
    environment: dict[str, Any] = {}
    table: Table = defaultdict(lambda: defaultdict(dict))
    failed = []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if line["kind"] == "environment":
            environment = line
        elif "error" in line:
            failed.append(line)
        else:
            cell = Cell(line["operation"], line["streams"], line["rows_per_batch"])
            table[cell][line["pairing"]][line["round"]] = line
    return environment, table, failed


def speed(trial: Trial) -> float:
    """Payload GB/s (10^9 bytes)."""
    return float(trial["bytes"] / trial["interval_ns"])


def required(pairing: str, streams: int) -> float | None:
    """The median ratio to C++ with C++ that a pairing must reach."""
    if pairing in ("venturi/cpp", "cpp/venturi"):
        return 1.0
    if pairing == "venturi/venturi":
        return 1.5 if streams == 1 else 1.25
    return None


def ratios(pairings: dict[str, dict[int, Trial]], name: str) -> list[float]:
    base = pairings.get(BASE, {})
    return [speed(trial) / speed(base[number]) for number, trial in pairings[name].items() if number in base]


def median_speed(trials: dict[int, Trial]) -> float:
    return float(np.median([speed(trial) for trial in trials.values()]))


def cell_row(cell: Cell, pairings: dict[str, dict[int, Trial]], columns: list[str]) -> tuple[str, list[str]]:
    """The cell's line of the table, and what it falls short of."""
    words = [cell.operation, str(cell.streams), str(cell.rows_per_batch)]
    short = []
    for name in columns:
        trials = pairings.get(name, {})
        if not trials:
            words.append("failed")
            short.append(f"{name}: no trial succeeded")
        elif name not in FLIGHT or name == BASE or not ratios(pairings, name):
            words.append(f"{median_speed(trials):.2f}")
        else:
            values = ratios(pairings, name)
            ratio, (low, high) = float(np.median(values)), bootstrap(values)
            least = required(name, cell.streams)
            below = least is not None and ratio < least
            mark = "**" if below else ""
            words.append(f"{median_speed(trials):.2f}: {mark}{ratio:.2f}{mark} ({low:.2f}..{high:.2f})")
            if below:
                short.append(
                    f"{name} {cell.operation}, {cell.streams} streams, {cell.rows_per_batch} rows: "
                    f"{ratio:.2f} ({low:.2f}..{high:.2f}), needs {least}"
                )
    return "| " + " | ".join(words) + " |", short


def cpu_table(table: Table, columns: list[str]) -> list[str]:
    """CPU-seconds per GB of payload, client + server, median over all trials of an operation."""
    lines = ["| operation | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for operation in dict.fromkeys(cell.operation for cell in table):
        words = [operation]
        for name in columns:
            trials = [
                trial
                for cell, pairings in table.items()
                if cell.operation == operation
                for trial in pairings.get(name, {}).values()
            ]
            client = [(t["user_ns"] + t["system_ns"]) / t["bytes"] for t in trials]
            server = [t["server_cpu_ns"] / t["bytes"] for t in trials]
            words.append(f"{np.median(client):.2f} + {np.median(server):.2f}" if trials else "-")
        lines.append("| " + " | ".join(words) + " |")
    return lines


def markdown(path: Path) -> tuple[str, bool]:
    """The whole summary, and whether every requirement is met."""
    environment, table, failed = read(path)
    columns = environment["pairings"]
    short: list[str] = []
    rows = []
    for cell in sorted(table, key=lambda c: (c.operation, c.streams, c.rows_per_batch)):
        row, missing = cell_row(cell, table[cell], columns)
        rows.append(row)
        short += missing
    steal = [
        t["steal"] for pairings in table.values() for trials in pairings.values() for t in trials.values()
    ]
    heads = [f"{name}: ratio" if name in FLIGHT and name != BASE else name for name in columns]
    lines = [
        f"# Flight, Venturi against Arrow C++ {environment['arrow']}: {environment['date'][:10]}",
        "",
        f"{described(environment)}; "
        f"{environment['rounds']} rounds of {environment['bytes'] / 1e9:g} GB a trial, "
        f"seed {environment['seed']}; load before {environment['load_before']:.2f}, "
        f"CPU time stolen {100 * float(np.mean(steal or [0])):.1f} %.",
        "",
        "Payload GB/s (10^9 bytes), median; behind the colon the median ratio to cpp/cpp in the same round",
        "with its 95 % bootstrap interval; bold where it falls short. Pairings are client/server.",
        "",
        "| operation | streams | rows a batch | " + " | ".join(heads) + " |",
        "|---" * (len(columns) + 3) + "|",
        *rows,
        "",
        "CPU-seconds per GB, client + server, median over the cells:",
        "",
        *cpu_table(table, columns),
        "",
        "## Acceptance",
        "",
    ]
    judged = [name for name in columns if name in FLIGHT and name != BASE]
    if not judged:
        lines.append("Nothing to judge: only C++ and raw TCP were measured.")
    for name in judged:
        mine = [line for line in short if line.startswith(name)]
        least = "1.5 on one stream, 1.25 on more" if name == "venturi/venturi" else "1.0"
        lines.append(
            f"- {name} at least {least}: {'met in every cell' if not mine else f'short in {len(mine)}'}"
        )
        lines += [f"  - {line.removeprefix(name).strip(': ')}" for line in mine]
    if failed:
        lines += ["", f"Failed trials: {len(failed)}", *(f"- {trial['error']}" for trial in failed[:10])]
    return "\n".join(lines) + "\n", not short and not failed
