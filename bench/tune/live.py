"""A live target swept as a whole, then tuned in a quarter of the trials, then both answers measured again.

What a sweep calls fastest is partly the luckiest, so the two settings are compared by a third run, in which
their trials take turns: the ratio of each pair says what the search's answer gives, whatever the machine does
in between.
"""

from __future__ import annotations

import json
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recorded import WANTED
from targets import Live, Target, live

from venturi.analysis.cells.summary import varying
from venturi.analysis.results import Results, load
from venturi.analysis.search.best import speed_of, values
from venturi.analysis.statistics.intervals import median_interval
from venturi.report.text.search import setting

QUIET = ("--no-ceilings", "--quiet")


@dataclass(frozen=True)
class Try:
    """What one try came to."""

    target: Target
    number: int
    load: float
    """Average before it."""
    swept: int
    """Trials of the sweep, and of the search."""
    tuned: int
    allowed: int
    optimum: str
    answer: str
    scatter: float
    """Median over cells of the standard deviation of repeats' logarithms."""
    ratio: float
    """Throughput of the search's answer over that of the sweep's, with 95 %."""
    low: float
    high: float
    pairs: int

    @property
    def same(self) -> bool:
        return self.pairs == 0

    def line(self) -> str:
        ratio = "the same setting" if self.same else f"{self.ratio:.3f} [{self.low:.3f}..{self.high:.3f}]"
        verdict = "yes" if self.same or self.ratio >= WANTED else "no"
        if not self.same and self.low < WANTED <= self.high:
            verdict += ", not certain"
        fields = [
            *(self.target.name, str(self.number), f"{self.load:.1f}", f"{100 * self.scatter:.0f} %"),
            *(str(self.swept), f"{self.tuned} of {self.allowed}", self.optimum, self.answer, ratio, verdict),
        ]
        return "| " + " | ".join(fields) + " |"


HEAD = [
    "| target | try | load | repeats scatter | trials of all | of the search | fastest of all | found "
    "| found / fastest, measured again in turns | 97 % |",
    "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | --- | --- |",
]


def attempt(target: Target, number: int, repeats: int, pairs: int, kept: Path) -> Try:
    load_before = os.getloadavg()[0]
    stem = kept / f"{target.name.replace(' ', '-')}-{number:02}"
    axes = [word for pair in target.axes.items() for word in pair]
    with live(target) as server:
        sweep = Path(f"{stem}-all")
        server.venturi(
            *("run", "--target", server.url, *axes, *target.options, "--repeats", str(repeats)),
            *("--shuffle-seed", str(number), "--no-report", "--no-reference", *QUIET, "--out", str(sweep)),
        )
        everything = load(str(sweep))
        trials = sum(len(c.records) for c in everything.cells)
        names = varying(everything.cells)
        fastest = max(everything.cells, key=lambda c: speed_of(c).value or 0.0).parameters
        document: dict[str, Any] = json.loads(
            server.venturi(
                *("tune", server.url, *axes, *target.options, "--trials", str(trials // 4)),
                *("--seed", str(number), "--json", *QUIET, "--out", f"{stem}-search"),
            )
        )
        found = document["best"]["settings"]
        names = [n for n in names if n in found]
        best = {n: fastest.get(n) for n in names}
        ratios: list[float] = []
        if any(best[n] != found[n] for n in names):
            ratios = again(server, target, best, found, pairs, Path(f"{stem}-pair"))
    interval = median_interval(ratios) if ratios else None
    return Try(
        *(target, number, load_before, trials, int(document["trials"]), trials // 4),
        setting(best, names),
        setting(found, names),
        scatter(everything),
        *((interval.median, interval.low, interval.high) if interval else (1.0, 1.0, 1.0)),
        len(ratios),
    )


def again(
    server: Live, target: Target, best: dict[str, Any], found: dict[str, Any], pairs: int, out: Path
) -> list[float]:
    """Measures both settings in turns; throughput of `found` over that of `best`, pair by pair."""
    differing = [n for n in best if best[n] != found[n]]
    matrix = {n: [_typed(best[n]), _typed(found[n])] for n in differing}
    scenario = out.with_suffix(".toml")
    lines = [f"{name} = {json.dumps(pair)}" for name, pair in matrix.items()]
    lines = ['name = "pair"', "[matrix]", *lines, f"zip = [{json.dumps(differing)}]"]
    scenario.write_text("\n".join(lines) + "\n", encoding="utf-8")
    fixed = [
        w for n in best if n not in differing for w in ("--" + n.replace("_", "-"), str(_typed(best[n])))
    ]
    server.venturi(
        *("run", str(scenario), "--target", server.url, *fixed, *target.options, "--repeats", str(pairs)),
        *("--no-report", "--no-reference", *QUIET, "--out", str(out)),
    )
    cells = load(str(out)).cells
    of = {all(c.parameters.get(n) == found[n] for n in differing): values(c) for c in cells}
    return [f / b for f, b in zip(of[True], of[False], strict=True)]


def _typed(value: Any) -> Any:
    return "none" if value is None else value


def scatter(run: Results) -> float:
    """What a repeat deviates by, for the reader to judge the machine by."""
    import math

    spreads = [statistics.stdev(map(math.log, v)) for c in run.cells if len(v := values(c)) > 1]
    return statistics.median(spreads) if spreads else math.nan
