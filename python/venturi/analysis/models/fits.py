"""From the cells of a run to its models: which parameters are axes, and what is fitted together.

- Over sizes: Hockney's t = a + n/b, one fit for each setting of all other parameters.
- Over every other numeric parameter with four values or more: a scaling law, one fit for each setting of the
  others. Where sizes vary too, the large ones are fitted together besides: those on which, by Hockney's fit,
  start-up costs at most a fifth of the time at every N.
- Whether a parameter matters at all, all others equal.

What is fitted is found when a run is opened; fits, and their margins (bootstrap), are made where they are
asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import geometric_mean, median
from typing import Any

from venturi.analysis.cells import figures, series, summary
from venturi.analysis.cells.series import Series
from venturi.analysis.cells.summary import Cell
from venturi.analysis.statistics import hockney, scaling
from venturi.analysis.statistics.curve import Curve, Shape
from venturi.analysis.statistics.difference import Effect, effect
from venturi.analysis.statistics.hockney import Hockney
from venturi.analysis.statistics.intervals import Interval
from venturi.analysis.statistics.laws import Refused, attempt
from venturi.analysis.statistics.scaling import Scaling
from venturi.common.units import plural

SIZES = ("rows_per_stream", "bytes_per_stream")
NO_AXIS = frozenset(
    {*SIZES, "duration_ns", "rate", "seed", "row_bytes", "window", "send_buffer", "max_message_size", "pin"}
)
"""Parameters that are no parallelism and no grain of work; `over=` asks for one of them all the same."""
MOST_GROUPS = 24
"""Groups fitted over one axis; more would be a page that nobody reads."""
MOST_POOLED = 6
"""Settings for which the large sizes are fitted together."""
MOST_EFFECT_BLOCKS = 200
LEAST_BLOCKS = 5
"""Settings of the others from which "no significant effect" is worth saying instead of a law."""
EXPLAINS = 0.5
"""A law that explains less than this share of the variance explains nothing."""
_NOTHING = object()


@dataclass
class SizeFit:
    """Time over payload at one setting of the other parameters."""

    operation: str
    where: dict[str, Any]
    cells: list[Cell]
    unit: str

    @cached_property
    def _made(self) -> tuple[Hockney | None, str]:
        return attempt(lambda: hockney.fit(times(self.cells, self.unit), self.unit.removesuffix("/s")))

    @property
    def fit(self) -> Hockney | None:
        return self._made[0]

    @property
    def refused(self) -> str:
        """Why there is none."""
        return self._made[1]


@dataclass
class AxisFit:
    """Throughput over one axis at one setting of the others."""

    operation: str
    axis: str
    where: dict[str, Any]
    cells: list[Cell]
    unit: str
    pooled: str = ""
    """The parameter whose settings are taken together ("rows_per_stream", "partitions"), if any."""
    pooled_from: float | None = None
    """Of pooled sizes the smallest that counts as large."""
    rule: str = ""
    """By which rule these sizes are the large ones."""
    series: Series | None = None
    """The same cells as findings, titles of figures and `best` tell of them; None where several settings are
    taken together."""

    @cached_property
    def _made(self) -> tuple[Scaling | None, str]:
        return attempt(lambda: scaling.fit(observations(self)))

    @property
    def fit(self) -> Scaling | None:
        return self._made[0]

    @property
    def refused(self) -> str:
        """Why there is none."""
        return self._made[1]

    @cached_property
    def medians(self) -> dict[float, float]:
        """Median by N: of the trials, or of pooled cells."""
        return {n: median(v) for n, v in sorted(observations(self).items())}

    @cached_property
    def curve(self) -> Curve | None:
        """What may be said of it; None where no round holds every N."""
        if self.series is not None:
            return self.series.curve
        return Curve.of(_blocks(self)) if self.pooled else None

    @property
    def knee_between(self) -> tuple[float | None, float] | None:
        """The measured N between which 90 % of the highest median is first reached, (below, at]."""
        found = self.medians
        if not found:
            return None
        floor = scaling.KNEE * max(found.values())
        at = next(n for n, v in found.items() if v >= floor)
        below = [n for n in found if n < at]
        return (below[-1] if below else None, at)

    @property
    def knee(self) -> Interval | None:
        """Where the law has 90 % of its peak, if that lies where the medians reach 90 % of theirs: else it is
        the law's own and not the measurement's."""
        between = self.knee_between
        if self.fit is None or between is None:
            return None
        below, at = between
        return self.fit.knee if (below or 0.0) < self.fit.knee.median <= at else None

    @property
    def level(self) -> bool:
        """Whether nothing depends on the axis: flat from the smallest N on, and no law that explains."""
        if self.fit is None or self.curve is None or self.curve.shape is not Shape.FLAT_THROUGHOUT:
            return False
        return not self.fit.r_squared >= EXPLAINS

    @property
    def each(self) -> float | None:
        """Throughput of one of N within the linear part: the geometric mean of X/N."""
        until = self.curve.linear if self.curve is not None else None
        part = [v / n for n, v in self.medians.items() if until is not None and n <= until]
        return geometric_mean(part) if part else None


@dataclass
class EffectFit:
    """Whether a parameter matters, others equal."""

    operation: str
    parameter: str
    effect: Effect
    above: Effect | None = None
    """The same without the smallest level, where the whole is significant."""


@dataclass
class Fits:
    """All models of a run."""

    sizes: list[SizeFit] = field(default_factory=list)
    scalings: list[AxisFit] = field(default_factory=list)
    effects: list[EffectFit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was left out, and why."""

    def __bool__(self) -> bool:
        return bool(self.sizes or self.scalings or self.effects)

    def over(self, axis: str) -> list[AxisFit]:
        """The scaling fits over an axis, those of pooled settings first."""
        return [s for s in self.scalings if s.axis == axis]

    @property
    def main(self) -> list[AxisFit]:
        """One fit for each operation and axis, to be shown first: the pooled or else the fastest."""
        groups = figures.by_key(((one.operation, one.axis), one) for one in self.scalings)
        ranked = [sorted(group, key=rank, reverse=True) for group in groups.values()]
        first = (next((one for one in group if one.fit is not None), None) for group in ranked)
        return [one for one in first if one is not None]


def rank(one: AxisFit) -> tuple[bool, int, float]:
    return bool(one.pooled), len(one.medians), max(one.medians.values(), default=0.0)


@dataclass(frozen=True)
class _Sweep:
    """The measured cells of one operation."""

    operation: str
    cells: list[Cell]
    varying: list[str]
    unit: str

    def values(self, cells: Sequence[Cell], name: str) -> set[Any]:
        return {cell.parameters.get(name) for cell in cells}

    def is_axis(self, name: str, over: str | None) -> bool:
        numbers = {v for c in self.cells if figures.is_number(v := c.parameters.get(name)) and v > 0}
        return (name == over if over is not None else name not in NO_AXIS) and len(numbers) >= 2


def build(cells: Sequence[Cell], over: str | None = None) -> Fits:
    """Fits everything there is to fit. `over` asks for one axis only, be it an unusual one."""
    found = Fits()
    for operation, every in summary.by_operation(cells).items():
        unit = unit_of(every)
        members = [m for m in every if _value(m, unit) is not None]
        if len(members) < 2:
            continue
        sweep = _Sweep(operation, members, summary.varying(members), unit)
        if over is None or over in SIZES:
            _sizes(found, sweep)
        axes = [n for n in sweep.varying if sweep.is_axis(n, over)]
        if over is not None and over not in SIZES:
            # An axis that another one follows (threads = streams) goes by either name.
            axes = axes or ([over] if sweep.is_axis(over, over) else [])
        idle = set() if over is not None else _effects(found, sweep)
        for axis in axes:
            # Of what has no effect there is no law; the effect's own line says so.
            if axis not in idle:
                _scaling(found, sweep, axis)
    return found


def unit_of(cells: Sequence[Cell]) -> str:
    """Of the throughput of cells of one operation."""
    return f"{figures.noun(cells[0].operation)}s/s" if summary.in_rows(cells) else "B/s"


def rates(cell: Cell, unit: str) -> list[float]:
    """Of the good trials of a cell."""
    each = (figures.throughput(r) if unit == "B/s" else figures.per_second(r, "rows") for r in cell.records)
    return [rate for rate in each if rate is not None]


def _value(cell: Cell, unit: str) -> float | None:
    return (cell.throughput if unit == "B/s" else cell.rows).value


def _settings(cells: Sequence[Cell], names: Sequence[str]) -> dict[str, Any]:
    return {n: cells[0].parameters.get(n) for n in names}


def _sizes(found: Fits, sweep: _Sweep) -> None:
    """Hockney fits for each setting of what is no size."""
    size = next((n for n in SIZES if n in sweep.varying), None)
    if size is None:
        return
    names = [n for n in sweep.varying if n not in SIZES]
    groups = [g for g in summary.by_setting(sweep.cells, names) if len(sweep.values(g, size)) > 1]
    for group in groups[:MOST_GROUPS]:
        found.sizes.append(SizeFit(sweep.operation, _settings(group, names), group, sweep.unit))
    if len(groups) > MOST_GROUPS:
        found.notes.append(
            f"{sweep.operation}: {len(groups) - MOST_GROUPS} of {len(groups)} fits over sizes were not made; "
            "choose by --where"
        )


def times(cells: Sequence[Cell], unit: str = "B/s") -> dict[float, list[float]]:
    """Times (ns) of all good trials by payload (bytes, or rows)."""
    counted = "payload_bytes" if unit == "B/s" else "rows"
    # Fixed work: all repeats of a cell move the same, so they meet at one key.
    return figures.by_key(
        (amount, spent)
        for cell in cells
        for r in cell.records
        if (amount := r.counts[counted]) and (spent := r.times.interval_ns)
    )


def _scaling(found: Fits, sweep: _Sweep, axis: str) -> None:
    # What follows the axis (threads = streams) was left out of `varying`; where the axis is the follower
    # itself, the one it follows is no other condition.
    operation, cells, least = sweep.operation, sweep.cells, scaling.LEAST_POINTS
    others = [n for n in sweep.varying if n != axis and not summary.follows(cells, n, axis)]
    along = [m for m in cells if isinstance(m.parameters.get(axis), int | float)]
    levels = sorted(map(float, sweep.values(along, axis)))
    if len(levels) < least:
        shown = ", ".join(f"{v:g}" for v in levels)
        found.notes.append(
            f"{operation}: no law over {axis}: only {len(levels)} different values ({shown}), "
            f"{least} are needed"
        )
        return
    every = series.every(along, axis, others)
    thin = sum(len(s.cells) < least for s in every)
    # The fullest and fastest first, so that what is left out matters least.
    single = sorted(
        (
            AxisFit(operation, axis, _settings(s.cells, others), list(s.cells), sweep.unit, series=s)
            for s in every
            if len(s.cells) >= least
        ),
        key=rank,
        reverse=True,
    )
    found.scalings += [*_pooled(sweep, axis, others), *single[:MOST_GROUPS]]
    if len(single) > MOST_GROUPS:
        found.notes.append(
            f"{operation}: {len(single) - MOST_GROUPS} of {len(single)} fits over {axis} were not made "
            "(the slower settings); choose by --where"
        )
    if thin:
        found.notes.append(
            f"{operation}: no law over {axis} for {plural(thin, 'setting')} of the other parameters: under "
            f"{least} different values"
        )


def _pooled(sweep: _Sweep, axis: str, others: Sequence[str]) -> Iterator[AxisFit]:
    """Fits of several settings together: the large sizes; or, where every cell is one trial, the settings of
    a parameter that has no significant effect."""
    cells, unit, least = sweep.cells, sweep.unit, scaling.LEAST_POINTS
    size = next((n for n in SIZES if n in others), None)
    if size is not None:
        rest = [n for n in others if n not in SIZES]
        groups = sorted(
            summary.by_setting(cells, rest),
            key=lambda g: (len(sweep.values(g, axis)), max(_value(m, unit) or 0.0 for m in g)),
            reverse=True,
        )
        for group in groups[:MOST_POOLED]:
            if (chosen := large_sizes(group, size, axis, unit)) is not None:
                smallest, rule = chosen
                kept = [m for m in group if (m.parameters.get(size) or 0) >= smallest]
                if len(sweep.values(kept, axis)) >= least:
                    where = _settings(kept, rest)
                    yield AxisFit(sweep.operation, axis, where, kept, unit, size, smallest, rule)
    elif all(m.good <= 1 for m in cells) or _single(cells):
        for name in others:
            tested = _effect(sweep, name)
            if tested is None or tested.significant:
                continue
            rest = [n for n in others if n != name]
            for group in summary.by_setting(cells, rest):
                if len(sweep.values(group, axis)) >= least and len(sweep.values(group, name)) > 1:
                    yield AxisFit(sweep.operation, axis, _settings(group, rest), group, unit, name)


def _single(cells: Sequence[Cell]) -> bool:
    """Whether cells are mostly of one trial: imported tables, where a few settings were tried twice."""
    return sum(m.good == 1 for m in cells) >= 0.8 * len(cells)


def large_sizes(cells: Sequence[Cell], size: str, axis: str, unit: str = "B/s") -> tuple[float, str] | None:
    """The smallest size that counts as large, and by which rule; None under four sizes.

    Large is a size on which start-up, by Hockney's fit at that N, costs at most a fifth of the time at every
    N (n >= 4 n_half). Where that leaves under two sizes or no fit could be made, the largest quarter.
    """
    sizes = sorted({m.parameters[size] for m in cells if m.parameters.get(size)})
    if len(sizes) < 4:
        return None
    threshold: float = 0.0
    try:
        for group in summary.by_setting(cells, [axis]):
            if len({m.parameters.get(size) for m in group}) < hockney.LEAST_POINTS:
                continue
            fitted = hockney.fit(times(group, unit))
            payload = {m.parameters[size]: payload_of(m, unit) for m in group if m.parameters.get(size)}
            fitting = [s for s, p in payload.items() if p is not None and p >= fitted.large]
            threshold = max(threshold, min(fitting, default=float("inf")))
    except Refused:
        threshold = float("inf")
    if sum(s >= threshold for s in sizes) >= 2:
        return max(threshold, sizes[0]), "start-up takes at most a fifth of the time at every N"
    return sizes[
        -max(2, len(sizes) // 4)
    ], "the largest quarter; start-up is over a fifth of the time even there"


def payload_of(cell: Cell, unit: str) -> float | None:
    """What each trial of a cell moves."""
    if unit == "B/s":
        return cell.payload_bytes
    return cell.records[0].counts.rows if cell.records else None


def observations(one: AxisFit) -> dict[float, list[float]]:
    """Throughputs by N: of trials, or medians of cells where several settings are taken together."""
    out: dict[float, list[float]] = {}
    for cell in one.cells:
        n = cell.parameters.get(one.axis)
        if not isinstance(n, int | float):
            continue
        value = _value(cell, one.unit) if one.pooled else None
        values = [value] if value is not None else [] if one.pooled else rates(cell, one.unit)
        if values:
            out.setdefault(float(n), []).extend(values)
    return out


def _blocks(one: AxisFit) -> list[dict[float, float]]:
    """Throughput by N of each size, or setting, that is taken together with others."""
    blocks: dict[Any, dict[float, float]] = {}
    for cell in one.cells:
        n, value = cell.parameters.get(one.axis), _value(cell, one.unit)
        if isinstance(n, int | float) and value is not None:
            blocks.setdefault(cell.parameters.get(one.pooled), {})[float(n)] = value
    return [blocks[k] for k in sorted(blocks, key=lambda k: (k is None, k if k is not None else 0))]


def _effects(found: Fits, sweep: _Sweep) -> set[str]:
    """Adds the effects; answers the parameters that have none."""
    idle = set()
    for name in sweep.varying:
        if name in SIZES or (tested := _effect(sweep, name)) is None:
            continue
        if not tested.significant and tested.pairs >= LEAST_BLOCKS:
            idle.add(name)
        above = None
        levels = [v for v in tested.levels if isinstance(v, int | float)]
        if tested.significant and len(levels) == len(tested.levels) > 2:
            above = _effect(sweep, name, min(levels))
        found.effects.append(EffectFit(sweep.operation, name, tested, above))
    return idle


def _effect(sweep: _Sweep, name: str, without: object = _NOTHING) -> Effect | None:
    """The effect of a parameter, `without` one of its values."""
    others = [n for n in sweep.varying if n != name and not summary.follows(sweep.cells, n, name)]
    blocks: dict[Any, dict[object, float]] = {}
    for cell in sweep.cells:
        level, value = cell.parameters.get(name), _value(cell, sweep.unit)
        if value is not None and level != without:
            key = summary.setting(cell, others)
            blocks.setdefault(key, {})[level if isinstance(level, Hashable) else repr(level)] = value
    whole = [b for b in blocks.values() if len(b) > 1][:MOST_EFFECT_BLOCKS]
    return effect(whole, draws=1999)
