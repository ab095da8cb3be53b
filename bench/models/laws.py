"""Sweeps drawn from known laws, fitted as runs are: how often is what the fit says true?

Each part yields lines `{"part", "case", "hits": {what: [hits, tries]}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from support.laws import law_rates
from support.verdict import summarise
from venturi.analysis.models import splits as convergence
from venturi.analysis.statistics import hockney, scaling

NOISE, REPEATS = 0.03, 5
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
SPLIT_NOISE, ROW, AMOUNT = 0.02, 32, 4_000_000
SIZES = range(100_000, 3_900_001, 400_000)
Law = Callable[[int], float]
SPLITS: tuple[tuple[str, Law, Law], ...] = (
    ("flat from 4 streams, 5 ms", lambda n: 5e6, lambda n: 1e9 * min(n, 4)),
    ("flat from 4 streams, 5 ms + 1 ms per stream", lambda n: 5e6 + 1e6 * n, lambda n: 1e9 * min(n, 4)),
    (
        "Amdahl, s = 0.3, 5 ms + 0.8 ms per stream",
        lambda n: 5e6 + 8e5 * n,
        lambda n: 1e9 * n / (0.7 + 0.3 * n),
    ),
)
Line = dict[str, Any]


def _line(part: str, case: str, found: dict[str, list[bool]]) -> Line:
    return {"part": part, "case": case, "hits": {what: [sum(one), len(one)] for what, one in found.items()}}


def _noisy(values: Sequence[float] | np.ndarray, rng: np.random.Generator) -> list[list[float]]:
    return [list(value * np.exp(NOISE * rng.standard_normal(REPEATS))) for value in values]


def scaling_laws(sweeps: int, rng: np.random.Generator) -> Iterator[Line]:
    """The law, its parameters, and a new median: of a measured N, and of 1.5 times the largest."""
    for label, axis in AXES.items():
        for name, p in CASES:
            found: dict[str, list[bool]] = {"law": [], "parameters": [], "measured N": [], "1.5 times": []}
            for _ in range(sweeps):
                data = dict(zip(map(float, axis), _noisy(law_rates(name, p, axis), rng), strict=True))
                fitted = scaling.fit(data, resamples=500)
                found["law"].append(fitted.chosen.name == name)
                if found["law"][-1]:
                    found["parameters"] += [i.low <= p[k] <= i.high for k, i in fitted.intervals.items()]
                for what, n in (("measured N", axis[len(axis) // 2]), ("1.5 times", 1.5 * axis[-1])):
                    expected = fitted.predict(n, REPEATS)
                    new = float(np.median(_noisy(law_rates(name, p, [n]), rng)[0]))
                    found[what].append(expected.low <= new <= expected.high)
            case = ", ".join(f"{k} = {v / 1e9:g} GB/s" if v > 1e6 else f"{k} = {v:g}" for k, v in p.items())
            yield _line("scaling laws", f"{label}: {name}, {case}", found)


def hockney_lines(sweeps: int, rng: np.random.Generator) -> Iterator[Line]:
    """Start-up and rate over sizes."""
    sizes = np.geomspace(3e6, 1e9, 12)
    for a, b in ((1e6, 5e9), (12e6, 2.4e9), (60e6, 1e9)):
        found: dict[str, list[bool]] = {"a": [], "b": [], "n_half": [], "new median": []}
        for _ in range(sweeps):
            data = dict(zip(map(float, sizes), _noisy(a + sizes / b * 1e9, rng), strict=True))
            fitted = hockney.fit(data, resamples=500)
            for key, value in (("a", a), ("b", b), ("n_half", a * b / 1e9)):
                found[key].append(fitted.intervals[key].low <= value <= fitted.intervals[key].high)
            expected = fitted.predict(2e9, REPEATS)
            new = float(np.median(_noisy([a + 2e9 / b * 1e9], rng)[0]))
            found["new median"].append(expected.low <= new <= expected.high)
        yield _line("Hockney's line", f"{a / 1e6:g} ms, {b / 1e9:g} GB/s", found)


def _record(streams: int, rows: int, repeat: int, ns: float) -> Line:
    p = {"operation": "get", "place": "local", "streams": streams, "rows_per_stream": rows}
    return {
        "cell": f"{streams}x{rows}",
        "repeat": repeat,
        "parameters": p,
        "outcome": "ok",
        "counts": {"rows": rows * streams, "payload_bytes": ROW * rows * streams},
        "times": {"interval_ns": int(ns)},
    }


def split_amounts(sweeps: int, rng: np.random.Generator) -> Iterator[Line]:
    """One amount over more and more streams: its limit, and the splits that are measured beside it."""
    cells = [(n, rows) for n in range(1, 9) for rows in SIZES]
    cells += [(n, AMOUNT // n) for n in (1, 2, 4, 8) if AMOUNT // n not in SIZES]
    payload = ROW * AMOUNT
    for name, startup, rate in SPLITS:
        limit = max(payload / (startup(n) / 1e9 + payload / rate(n)) for n in range(1, 129))
        found: dict[str, list[bool]] = {"limit": [], "split": []}
        for _ in range(sweeps):
            records = [
                _record(n, rows, i, (startup(n) + ROW * n * rows / rate(n) * 1e9) * float(np.exp(noise)))
                for n, rows in cells
                for i, noise in enumerate(SPLIT_NOISE * rng.standard_normal(REPEATS))
            ]
            (one,) = convergence.convergences(summarise(records))
            assert one.limit is not None, one.refused
            found["limit"].append(one.limit.rate.low <= limit <= one.limit.rate.high)
            found["split"] += [split.inside for split in one.splits]
        yield _line("splits", name, found)


PARTS = {"scaling laws": scaling_laws, "Hockney's line": hockney_lines, "splits": split_amounts}
