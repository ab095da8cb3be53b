"""A run against another, cell by cell: what became slower, what faster, and what nobody can tell."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal

from venturi.analysis.cells.figures import (
    ENDS,
    by_key,
    cpu_ns,
    cpu_per,
    per_second,
    percentile,
    steady_rows,
    steady_throughput,
    throughput,
)
from venturi.analysis.cells.machines import Fact
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.compare import likeness
from venturi.analysis.compare.likeness import implied, match, spelled, why
from venturi.analysis.results import Results
from venturi.analysis.statistics.difference import (
    LEAST_REPEATS,
    LEAST_SHIFT,
    Difference,
    Shift,
    adjust,
    differences,
    shift,
)
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.units import Quantity, plural
from venturi.engine.record import Trial

Verdict = Literal["worse", "better", "no-difference", "unknown", "failed"]


_CPU_PER_ROW, _CPU_PER_BYTE = (partial(cpu_per, counted=counted) for counted in ("rows", "payload_bytes"))


@dataclass(frozen=True)
class Metric:
    """What is compared. `lower` says that less of it is better."""

    name: str
    title: str
    unit: str
    value: Callable[[Trial], float | None]
    lower: bool = False
    worse: str = "slower"
    better: str = "faster"
    note: str = ""
    """What else to know of its figures; empty where there is nothing."""


def _counted(noun: str) -> dict[str, Metric]:
    """What stands for a metric of bytes where cells are counted in rows, or in points, which are rows too."""
    cpu = f"CPU time per {noun}"
    return {
        m.name: m
        for m in (
            Metric("throughput", "throughput", f"{noun}s/s", lambda r: per_second(r, "rows")),
            Metric("steady", "steady throughput", f"{noun}s/s", steady_rows),
            Metric("cpu-per-byte", cpu, f"ns/{noun}", _CPU_PER_ROW, True, "dearer", "cheaper"),
        )
    }


OF_ROWS, OF_POINTS = _counted("row"), _counted("point")
METRICS = {
    m.name: m
    for m in (
        Metric("throughput", "throughput", "B/s", throughput),
        Metric("steady", "steady throughput", "B/s", steady_throughput),
        Metric("latency-p50", "median latency of a batch", "ns", lambda r: percentile(r, 50.0), True),
        Metric("latency-p99", "99 % latency of a batch", "ns", lambda r: percentile(r, 99.0), True),
        Metric(
            "cpu-per-byte",
            "CPU time per GB",
            "ns/B",
            _CPU_PER_BYTE,
            True,
            "dearer",
            "cheaper",
        ),
    )
}


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a run, or the part of one that has a value of a parameter."""

    name: str
    results: Results = field(repr=False)
    cells: list[Cell] = field(repr=False)


@dataclass(frozen=True)
class Row:
    """A cell on both sides. Figures are medians; the ratio is that of geometric means (docs/compare.md)."""

    base: Cell
    run: Cell
    metric: Metric
    before: Quantity
    after: Quantity
    difference: Difference | None
    verdict: Verdict
    beyond: bool
    """Significantly worse, and by more than the threshold: what a gate stops."""
    newly_failing: bool
    reason: str
    """Why it cannot be judged, or what else to know of it; empty where there is nothing."""
    aside: float | None = None
    """Corrected p of no difference from what all cells have in common; None where that is nothing."""

    @property
    def word(self) -> str:
        """The verdict for people."""
        return {
            "worse": self.metric.worse,
            "better": self.metric.better,
            "no-difference": "no difference seen",
            "unknown": "cannot tell",
            "failed": "failed",
        }[self.verdict]

    @property
    def ratio(self) -> Quantity:
        """Run over base."""
        d = self.difference
        return Quantity(d.ratio, d.low, d.high) if d else Quantity(None)

    @property
    def loss(self) -> float:
        """By how much the run is worse, as a share of the base; negative where it is better."""
        if self.difference is None:
            return 0.0
        return (self.difference.ratio - 1.0) * (1.0 if self.metric.lower else -1.0)

    @property
    def detectable(self) -> float | None:
        """The smallest worsening, as a share, that would have been found here, were it the only one."""
        d = self.difference.detectable if self.difference else None
        if d is None:
            return None
        return math.expm1(d) if self.metric.lower else -math.expm1(-d)


@dataclass(frozen=True)
class Comparison:
    """One run against the base. Ratios are run over base; `confidence` holds for every interval and p."""

    base: Side
    run: Side
    metric: Metric
    confidence: float
    threshold: float
    rows: list[Row]
    only_base: list[Cell]
    only_run: list[Cell]
    facts: list[Fact]
    """The environments side by side."""
    settings: list[Fact]
    """What was asked for differently, throughout."""
    shift: Shift | None
    """What all cells have in common, where that is more than nothing."""
    apart: float | None
    """Seconds between the starts of the two runs; None for parts of one run, and where nobody knows."""
    within: bool
    """Whether both sides are parts of one run, their trials interleaved."""
    gone: list[Cell]
    """Cells with figures in the base that the run lacks; not within one run, and not with `--force`."""

    @cached_property
    def varying(self) -> list[str]:
        """The parameters that tell the cells of the base apart."""
        return varying([r.base for r in self.rows] + self.only_base)

    @cached_property
    def operations(self) -> set[str]:
        return {c.operation for c in [r.base for r in self.rows] + self.only_base}

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict == verdict for row in self.rows)

    @property
    def exit_code(self) -> ExitCode:
        """For scripts. A cell that began to fail, or vanished, comes first: its figures are not worth
        comparing."""
        if self.gone or any(row.newly_failing for row in self.rows):
            return ExitCode.TRIALS_FAILED
        return ExitCode.SLOWER if any(row.beyond for row in self.rows) else ExitCode.OK

    @property
    def detectable(self) -> tuple[float, float, float] | None:
        """Of the cells' smallest detectable worsenings the median, the least and the greatest."""
        known = sorted(d for row in self.rows if (d := row.detectable) is not None)
        if not known:
            return None
        return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2, known[0], known[-1]


def compare(
    base: Results,
    run: Results,
    metric: str = "throughput",
    confidence: float = 0.95,
    threshold: float = 0.03,
    force: bool = False,
) -> Comparison:
    """One run against another. Shares for `confidence` and `threshold`.

    Raises `VenturiError` where no cell matches, and for unlike environments unless `force` is given.
    """
    facts = likeness.facts(base, run)
    apart = abs((run.started - base.started).total_seconds()) if base.started and run.started else None
    sides = Side(_plain(base.name), base, base.cells), Side(_plain(run.name), run, run.cells)
    return _compare(*sides, METRICS[metric], confidence, threshold, force, facts, apart, frozenset(), False)


def worst(found: Sequence[Comparison]) -> ExitCode:
    """The exit code of several comparisons."""
    rank = (ExitCode.OK, ExitCode.SLOWER, ExitCode.TRIALS_FAILED)
    return max((one.exit_code for one in found), key=rank.index)


def _plain(name: str) -> str:
    """A run's name without what a terminal would obey: it stands in errors, too."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)


def compare_by(
    results: Results,
    by: str,
    base_value: str | None = None,
    metric: str = "throughput",
    confidence: float = 0.95,
    threshold: float = 0.03,
) -> list[Comparison]:
    """Within one run: the cells with each value of parameter `by` against those with the base value.

    Their trials were interleaved, so a machine that drifts does not pass for a change. The base value is the
    one measured first unless `base_value` names it, spelled as in the run. Raises `VenturiError` where the
    parameter does not vary or has no such value.
    """
    order = {r.cell: i for i, r in reversed(list(enumerate(results.records)))}
    cells = sorted(results.cells, key=lambda c: order.get(c.name, 0))
    found = by_key((spelled(c.parameters[by]), c) for c in cells if by in c.parameters)
    if len(found) < 2:
        others = sorted(
            n for n in {n for c in results.cells for n in c.parameters}
            if len({spelled(c.parameters.get(n)) for c in results.cells}) > 1 and n != "row_bytes"
        )  # fmt: skip
        raise VenturiError(
            f"--by {by}: {results.name} has only one value of it"
            if found
            else f"--by {by}: {results.name} has no such parameter",
            hint=f"these vary: {', '.join(others)}" if others else "the run has one setting only",
        )
    values = list(found)
    first = values[0] if base_value is None else base_value
    if first not in found:
        raise VenturiError(
            f"--by {by}={first}: {results.name} has no such value", hint=f"it has: {', '.join(values)}"
        )
    ignored = frozenset({by}) | implied(by, results.cells)
    return [
        _compare(
            Side(f"{by}={first}", results, found[first]),
            Side(f"{by}={value}", results, found[value]),
            METRICS[metric], confidence, threshold, True, [], None, ignored, True,
        )
        for value in values
        if value != first
    ]  # fmt: skip


def _compare(
    base: Side,
    run: Side,
    metric: Metric,
    confidence: float,
    threshold: float,
    force: bool,
    facts: list[Fact],
    apart: float | None,
    ignored: frozenset[str],
    within: bool,
) -> Comparison:
    differing = [f for f in likeness.settings(base.cells, run.cells) if f.name not in ignored]
    refused = likeness.refusal([*facts, *differing])
    if refused and not force:
        raise VenturiError(
            f"{base.name} and {run.name} are not alike: {refused}",
            hint="compare runs of one machine, measured alike; or go on all the same with --force",
        )
    pairs, only_base, only_run = match(base.cells, run.cells, ignored | {f.name for f in differing})
    if not pairs:
        raise VenturiError(
            f"no cell of {run.name} is a cell of {base.name}",
            hint=why((base.name, base.cells), (run.name, run.cells)),
        )
    rows = _judge(pairs, metric, confidence, threshold)
    rows, common = _common(rows, confidence)
    return Comparison(
        base, run, metric, confidence, threshold, rows, only_base, only_run, facts, differing, common,
        apart, within, [] if force else [cell for cell in only_base if cell.good],
    )  # fmt: skip


def measured(cell: Cell, metric: Metric) -> dict[int, float]:
    """The metric of each good trial by its repeat; trials without it, or with nothing moved, are left out."""
    found = [(r, v) for r in cell.records if (v := metric.value(r)) is not None and v > 0]
    repeats = [r.repeat for r, _ in found]
    if len(set(repeats)) < len(repeats):
        repeats = list(range(len(found)))
    return {n: v for n, (_, v) in zip(repeats, found, strict=True)}


def metric_for(metric: Metric, cells: Sequence[Cell]) -> Metric:
    """Rows for bytes where cells are counted in them, and where bytes were not counted in each; CPU time of
    those ends of which all cells know it."""
    # A cell without a good trial says nothing of what is counted.
    cells = [cell for cell in cells if cell.good] or cells
    counted = "payload_bytes"
    if all(cell.in_rows for cell in cells):
        metric = (OF_POINTS if all(cell.noun == "point" for cell in cells) else OF_ROWS).get(
            metric.name, metric
        )
        counted = "rows"
    elif metric.name == "throughput" and not all(measured(cell, metric) for cell in cells):
        rows = OF_ROWS["throughput"]
        return rows if all(measured(cell, rows) for cell in cells) else metric
    if metric.name != "cpu-per-byte":
        return metric
    records = [r for cell in cells for r in cell.records]
    known = [end for end in ENDS if all(cpu_ns(r, end) is not None for r in records)]
    if len(known) != 1:
        return metric
    (end,), (other,) = known, [e for e in ENDS if e not in known]
    note = f"the {end}'s CPU time alone: the {other}'s is not known of every trial"
    return replace(metric, value=partial(cpu_per, counted=counted, ends=known), note=note)


def _judge(
    pairs: Sequence[tuple[Cell, Cell]], metric: Metric, confidence: float, threshold: float
) -> list[Row]:
    chosen = [metric_for(metric, pair) for pair in pairs]
    values = [tuple(measured(c, m) for c in pair) for pair, m in zip(pairs, chosen, strict=True)]
    usable = [i for i, (b, r) in enumerate(values) if b and r]
    found = differences(
        [(list(values[i][0].values()), list(values[i][1].values())) for i in usable], confidence
    )
    by_row = dict(zip(usable, found, strict=True))
    out = []
    for i, ((base, run), m) in enumerate(zip(pairs, chosen, strict=True)):
        before, after = (
            median_interval(list(v.values())).quantity(m.unit) if v else Quantity(None, unit=m.unit)
            for v in values[i]
        )
        row = Row(base, run, m, before, after, by_row.get(i), "unknown", False, False, "")
        out.append(_verdict(row, values[i], 1.0 - confidence, threshold))
    return out


def _verdict(row: Row, values: Sequence[dict[int, float]], alpha: float, threshold: float) -> Row:
    # Without a good trial, whether they failed or were interrupted, nothing is left of a cell that went well.
    newly = bool(row.base.good and (not row.run.good or (row.run.failed and not row.base.failed)))
    reasons = [f"{row.run.failed} of {row.run.trials} trials failed in the run"] if row.run.failed else []
    if row.base.failed:
        reasons.append(f"{row.base.failed} of {row.base.trials} trials failed in the base")
    if row.metric.note:
        reasons.append(row.metric.note)
    if row.run.failed and not row.run.good:
        return replace(row, verdict="failed", newly_failing=newly, reason=reasons[0])
    d = row.difference
    if d is None or d.adjusted is None:
        for side, found in zip(("base", "run"), values, strict=True):
            if len(found) < LEAST_REPEATS:
                many = plural(len(found), "repeat") if found else "no repeats"
                reasons.append(f"{many} in the {side}, {LEAST_REPEATS} are needed")
        return replace(row, verdict="unknown", newly_failing=newly, reason="; ".join(reasons))
    if d.low is not None and d.high is not None and row.before.value and row.after.value:
        medians = row.after.value / row.before.value
        if not d.low <= medians <= d.high:
            reasons.append(
                f"the quotient of the medians is {medians:.3f}: some repeats differ much from the others"
            )
    verdict: Verdict = "no-difference"
    if d.adjusted < alpha:
        verdict = "worse" if row.loss > 0 else "better"
    beyond = verdict == "worse" and row.loss > threshold
    return replace(row, verdict=verdict, beyond=beyond, newly_failing=newly, reason="; ".join(reasons))


def _common(rows: list[Row], confidence: float) -> tuple[list[Row], Shift | None]:
    """What all rows have in common, and which of them stand out from it."""
    usable = [r for r in rows if r.difference]
    found = shift(
        [measured(r.base, r.metric) for r in usable], [measured(r.run, r.metric) for r in usable], confidence
    )
    if found is None or found.p >= 1.0 - confidence or abs(math.log(found.ratio)) < LEAST_SHIFT:
        return rows, None
    from scipy.special import ndtri, stdtr

    middle = math.log(found.ratio)
    # Half the interval is near enough two standard errors; the middle is known far better than any cell.
    error = math.log(found.high / found.low) / 2 / float(ndtri((1 + confidence) / 2))
    judged = [(i, r.difference) for i, r in enumerate(rows) if r.difference and r.difference.judged]
    p = [
        2.0 * float(stdtr(d.df, -abs(math.log(d.ratio) - middle) / math.hypot(d.error or 0.0, error)))
        for _, d in judged
    ]
    aside = {i: q for (i, _), q in zip(judged, adjust(p), strict=True)}
    return [replace(row, aside=aside.get(i)) for i, row in enumerate(rows)], found
