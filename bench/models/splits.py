"""Where one amount over more and more streams converges: how often is the interval right?

    python bench/models/splits.py [SWEEPS] [FILE]

Sweeps of 1..8 streams x 10 sizes from known laws (2 % noise, 5 repeats) with 4M rows divided over 1, 2, 4 and
8 streams beside them, reported as runs are. Counts how often the interval of the limit holds the true one,
how often a measured split lies in the interval predicted for it, and how often start-up of every stream is
claimed. Seeded; prints Markdown.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from venturi.analysis.cells.summary import summarise
from venturi.analysis.models import splits

NOISE, REPEATS, ROW = 0.02, 5, 32
AMOUNT = 4_000_000
SIZES = range(100_000, 3_900_001, 400_000)
Law = Callable[[int], float]
CASES: tuple[tuple[str, Law, Law], ...] = (
    ("flat from 4 streams, start-up 5 ms", lambda n: 5e6, lambda n: 1e9 * min(n, 4)),
    (
        "flat from 4 streams, start-up 5 ms + 1 ms a stream",
        lambda n: 5e6 + 1e6 * n,
        lambda n: 1e9 * min(n, 4),
    ),
    ("Amdahl, s = 0.3, 5 ms + 0.8 ms a stream", lambda n: 5e6 + 8e5 * n, lambda n: 1e9 * n / (0.7 + 0.3 * n)),
)


def record(streams: int, rows: int, repeat: int, ns: float) -> dict[str, Any]:
    p = {"operation": "get", "place": "local", "streams": streams, "rows_per_stream": rows}
    return {
        "cell": f"{streams}x{rows}",
        "repeat": repeat,
        "parameters": p,
        "outcome": "ok",
        "counts": {"rows": rows * streams, "payload_bytes": ROW * rows * streams},
        "times": {"interval_ns": int(ns)},
    }


def sweep(startup: Law, rate: Law, rng: np.random.Generator) -> splits.Convergence:
    cells = [(n, rows) for n in range(1, 9) for rows in SIZES]
    cells += [(n, AMOUNT // n) for n in (1, 2, 4, 8) if AMOUNT // n not in SIZES]
    records = [
        record(n, rows, i, (startup(n) + ROW * n * rows / rate(n) * 1e9) * float(np.exp(NOISE * z)))
        for n, rows in cells
        for i, z in enumerate(rng.standard_normal(REPEATS))
    ]
    (found,) = splits.convergences(summarise(records))
    return found


def case(name: str, startup: Law, rate: Law, sweeps: int) -> str:
    payload = ROW * AMOUNT
    truth = max(payload / (startup(n) / 1e9 + payload / rate(n)) for n in range(1, 129))
    held, inside, claimed, wide = [], [], [], []
    for seed in range(sweeps):
        found = sweep(startup, rate, np.random.default_rng(seed))
        assert found.limit is not None, found.refused
        low, value, high = (getattr(found.limit.rate, part) for part in ("low", "value", "high"))
        held.append(low <= truth <= high)
        wide.append((high - low) / 2 / value)
        claimed.append(found.limit.startup.known)
        inside += [split.inside for split in found.splits]
    shares = " | ".join(f"{100 * float(np.mean(part)):.1f}" for part in (held, wide, inside, claimed))
    return f"| {name} | {truth / 1e6:,.0f} | {shares} |"


def main() -> None:
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    begun = time.monotonic()
    out = [
        f"# Convergence of splits: {sweeps} sweeps a law",
        "",
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {platform.machine()}; "
        f"noise {NOISE:.0%}, {REPEATS} repeats.",
        "",
        "| law | true limit, MB/s | limit held % | half width % | splits inside % | start-up claimed % |",
        "|---|---:|---:|---:|---:|---:|",
        *(case(*one, sweeps) for one in CASES),
    ]
    text = "\n".join([*out, "", f"{time.monotonic() - begun:.0f} s."]) + "\n"
    print(text)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text)


if __name__ == "__main__":
    main()
