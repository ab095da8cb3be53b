"""Are the models right as often as they say? Synthetic sweeps with known laws, fitted as runs are.

    python bench/models/coverage.py [SWEEPS] [FILE]

For each law and axis: how often the true law is chosen, how often the 95 % intervals of its parameters hold
the truth, and how often the 95 % prediction interval holds a new median: of a measured N, and of 1.5
times the largest. The same for Hockney's line, and how often "gain beyond N" is said where there is none.
Seeded; prints Markdown.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from venturi.analysis.statistics import hockney, scaling

NOISE = 0.03
REPEATS = 5
AXES = {"1..8": tuple(range(1, 9)), "1,2,4..32": (1, 2, 4, 8, 16, 32), "1..16": (1, 2, 3, 4, 6, 8, 12, 16)}
CASES: tuple[tuple[str, dict[str, float]], ...] = (
    ("constant", {"C": 3e9}),
    ("linear", {"l": 1e9}),
    ("flat", {"l": 1e9, "C": 3e9}),
    ("flat", {"l": 1e9, "C": 4.3e9}),
    ("flat", {"l": 1e9, "C": 5e9}),
    ("amdahl", {"l": 1e9, "s": 0.1}),
    ("amdahl", {"l": 1e9, "s": 0.3}),
    ("amdahl", {"l": 1e9, "s": 0.5}),
    ("usl", {"l": 1e9, "s": 0.1, "k": 0.02}),
    ("usl", {"l": 1e9, "s": 0.05, "k": 0.03}),
    ("usl", {"l": 1e9, "s": 0.2, "k": 0.05}),
    ("usl", {"l": 1e9, "s": 0.02, "k": 0.01}),
)


def truth(name: str, p: dict[str, float], n: Sequence[float]) -> np.ndarray:
    at = np.asarray(n, dtype=float)
    if name == "constant":
        return np.full_like(at, p["C"])
    if name == "linear":
        return p["l"] * at
    if name == "flat":
        return np.minimum(p["l"] * at, p["C"])
    return p["l"] * at / (1 + p["s"] * (at - 1) + p.get("k", 0.0) * at * (at - 1))


def percent(values: Sequence[bool]) -> str:
    return f"{100 * np.mean(values):.1f}" if len(values) else "-"


def laws(sweeps: int, rng: np.random.Generator) -> list[str]:
    out = [
        "| axis | law | parameters | chosen % | parameters held % | new median held %, measured N | beyond |"
    ]
    out.append("|---|---|---|---|---|---|---|")
    chosen_all: list[bool] = []
    totals: list[list[bool]] = [[], [], []]
    for label, axis in AXES.items():
        for name, p in CASES:
            chosen: list[bool] = []
            held: list[list[bool]] = [[], [], []]
            for _ in range(sweeps):
                rates = truth(name, p, axis)
                data = {
                    float(n): list(x * np.exp(NOISE * rng.standard_normal(REPEATS)))
                    for n, x in zip(axis, rates, strict=True)
                }
                fitted = scaling.fit(data, resamples=500)
                chosen.append(fitted.chosen.name == name)
                if chosen[-1]:
                    held[0] += [i.low <= p[k] <= i.high for k, i in fitted.intervals.items()]
                for n, kept in ((axis[len(axis) // 2], held[1]), (1.5 * axis[-1], held[2])):
                    found = fitted.predict(n, REPEATS)
                    new = np.median(truth(name, p, [n]) * np.exp(NOISE * rng.standard_normal(REPEATS)))
                    kept.append(bool(found.low <= new <= found.high))
            spelled = ", ".join(
                f"{k} = {v / 1e9:g} GB/s" if v > 1e6 else f"{k} = {v:g}" for k, v in p.items()
            )
            out.append(
                f"| {label} | {name} | {spelled} | {percent(chosen)} | "
                + " | ".join(map(percent, held))
                + " |"
            )
            chosen_all += chosen
            for total, part in zip(totals, held, strict=True):
                total += part
    out.append(f"| all | | | {percent(chosen_all)} | " + " | ".join(map(percent, totals)) + " |")
    return out


def lines(sweeps: int, rng: np.random.Generator) -> list[str]:
    out = [
        "| start-up | rate | a held % | b held % | n_half held % | new median held % |",
        "|---|---|---|---|---|---|",
    ]
    sizes = np.geomspace(3e6, 1e9, 12)
    for a, b in ((1e6, 5e9), (12e6, 2.4e9), (60e6, 1e9)):
        held: dict[str, list[bool]] = {"a": [], "b": [], "n_half": [], "new": []}
        for _ in range(sweeps):
            data = {
                float(n): list((a + n / b * 1e9) * np.exp(NOISE * rng.standard_normal(REPEATS)))
                for n in sizes
            }
            fitted = hockney.fit(data, resamples=500)
            for key, value in (("a", a), ("b", b), ("n_half", a * b / 1e9)):
                held[key].append(fitted.intervals[key].low <= value <= fitted.intervals[key].high)
            found = fitted.predict(2e9, REPEATS)
            new = np.median((a + 2e9 / b * 1e9) * np.exp(NOISE * rng.standard_normal(REPEATS)))
            held["new"].append(bool(found.low <= new <= found.high))
        out.append(f"| {a / 1e6:g} ms | {b / 1e9:g} GB/s | " + " | ".join(map(percent, held.values())) + " |")
    return out


def main() -> None:
    sweeps = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rng = np.random.default_rng(20191104)
    started = time.time()
    head = [
        f"# Models on known laws, {time.strftime('%Y-%m-%d')}",
        "",
        f"`python bench/models/coverage.py {sweeps}`: {sweeps} sweeps a line, {100 * NOISE:g} % noise, "
        f"{REPEATS} repeats; Python {platform.python_version()}, numpy {np.__version__}. A line of {sweeps} "
        f"sweeps scatters by ±{196 * (0.05 * 0.95 / sweeps) ** 0.5:.1f} % around 95 %.",
        "",
    ]
    text = "\n".join(
        [
            *head,
            "## Scaling laws",
            *laws(sweeps, rng),
            "",
            "## Hockney's line",
            *lines(sweeps, rng),
            "",
        ]
    )
    print(text)
    print(f"{time.time() - started:.0f} s", file=sys.stderr)
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
