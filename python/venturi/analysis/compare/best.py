"""The best setting: the fastest cell, the cheapest near it, and for each setting how much of it is enough.

Settings are what a user may turn (streams, encoders, rows per batch, compression ...); a workload is what has
to be moved (operation, place, data, amount). Cells are compared within a workload only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean
from typing import Any

from venturi.analysis.cells.figures import (
    by_key,
    cpu_per,
    is_number,
    per_second,
    throughput,
)
from venturi.analysis.cells.series import rounds
from venturi.analysis.cells.summary import Cell, basis, by_setting, varying
from venturi.analysis.statistics.curve import LEAST_ROUNDS, Curve, Shape
from venturi.analysis.statistics.difference import Difference, Effect, Gain, differences, effect, test_gain
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.units import Quantity
from venturi.engine.record import Trial
from venturi.targets.parameters import AMOUNT, PARALLEL, WORKLOAD

WITHIN = 0.05
"""Issue and METHOD: cheapest within 5 % of the fastest."""
NEAR = 0.75
"""A setting is judged where the others are good: in blocks whose best level reaches this share of the fastest
cell. What helps a crippled configuration says little of a good one."""
LEAST_PAIRS = 3
DRAWS = 1999


@dataclass(frozen=True)
class Choice:
    """A cell with what speaks for it. `behind`: it over the fastest, None for the fastest itself."""

    cell: Cell
    speed: Quantity
    cost: Quantity
    behind: Difference | None = None

    @property
    def tied(self) -> bool:
        """Judged, and not told apart from the fastest (corrected p of 5 % and more)."""
        return self.behind is not None and self.behind.adjusted is not None and self.behind.adjusted >= 0.05


@dataclass(frozen=True)
class Level:
    """One value of a setting: mean ratio to the best value over the pairs of cells that differ in nothing
    else."""

    value: object
    ratio: float
    pairs: int
    gain: Gain | None
    """The best value over this one, tested over the pairs; None under three of them."""

    @property
    def worse(self) -> bool:
        """Below the best by more than what counts as near it."""
        return self.ratio < 1 - WITHIN


@dataclass(frozen=True)
class Advised:
    """What a sweep says of one setting."""

    name: str
    numeric: bool
    levels: tuple[Level, ...]
    best: object
    enough: object
    """The smallest value beyond which surely less than `within` is gained; where that cannot be told the
    highest; without margins the smallest within that of the best. Of a setting that is no number the best,
    or the first where it makes no significant difference."""
    effect: Effect | None
    cores: int | None
    """CPUs of the machine, where `enough` is as many."""
    curve: Curve | None
    """What may be said of throughput over it; None of what is no number, and without a whole block."""

    within: float = WITHIN
    alone: bool = False
    """Whether nothing else was varied, so that its figures are those of the cells."""

    def level(self, value: object) -> Level:
        return next(one for one in self.levels if one.value == value)

    @property
    def conclusive(self) -> Curve | None:
        """The curve, where it has rounds enough to say anything."""
        return self.curve if self.curve is not None and self.curve.bounded else None

    @property
    def sure(self) -> bool:
        """Whether more than `enough` surely gains less than `within`."""
        if self.conclusive is not None:
            return self.conclusive.enough(self.within) == self.enough
        gain = self.level(self.enough).gain
        return gain is not None and gain.high < self.within

    @property
    def indifferent(self) -> bool:
        """Whether all values are as good: the first is enough; without a curve, tested without an effect."""
        if self.conclusive is not None:
            return (
                self.sure
                and self.enough == self.levels[0].value
                and self.conclusive.shape is not Shape.FALLING
            )
        return self.effect is not None and self.effect.testable and not self.effect.significant

    @property
    def alike(self) -> bool:
        """Whether it surely does not matter which value is taken: none is better or worse."""
        if self.conclusive is None:
            return self.indifferent and not self.undecided
        lows = [self.conclusive.change(0, i).low for i in range(1, len(self.conclusive.ns))]
        return self.indifferent and all(low is not None and low > -self.within for low in lows)

    @property
    def undecided(self) -> bool:
        """Whether it cannot be told how much is enough, for repeats scatter too much. Without a curve: no
        effect could be shown, but the means lie apart by more than what counts as near."""
        if self.conclusive is not None:
            return not self.sure and self.conclusive.shape is Shape.UNDECIDED
        return self.indifferent and self.effect is not None and self.effect.spread > WITHIN

    @property
    def rising(self) -> bool:
        """Whether the largest value measured is needed, and surely gains: more may give more."""
        return self.conclusive is not None and self.conclusive.shape is Shape.RISING and not self.sure


@dataclass(frozen=True)
class Best:
    """The answer for one workload."""

    workload: dict[str, object]
    settings: list[str]
    fastest: Choice
    cheapest: Choice
    tied: list[Choice]
    front: list[Choice]
    """Pareto: none is both faster and cheaper. By falling throughput."""
    advised: list[Advised]
    cells: int
    cost_name: str
    judged: bool = False
    """Whether any other cell has repeats enough to be told apart from the fastest."""
    within: float = WITHIN
    """How far below the fastest a cheaper one may lie."""
    skipped: int = 0
    """Other workloads that differ only in size and are not shown."""
    failed: list[Cell] = field(default_factory=list)
    p99_ns: float | None = None
    """What 99 % of a cell's batches surely had to stay within; None: no bound."""
    slow: list[Cell] = field(default_factory=list)
    """Cells that may not stay within it, or were not timed."""

    @property
    def is_surely_fastest(self) -> bool:
        """Whether the fastest surely is: no other may be as fast, neither by itself nor along a setting, and
        each of its trials moved something."""
        undecided = self.idle or any(one.undecided for one in self.advised)
        return self.judged and not self.tied and not undecided

    @property
    def idle(self) -> bool:
        """Whether the interval of the fastest begins at 0: a trial of it moved nothing."""
        return self.fastest.speed.low is not None and self.fastest.speed.low <= 0


def speed_of(cell: Cell, measure: str) -> Quantity:
    """Throughput, or rows/s where no bytes are known, or batches/s, as `cells.basis` has it."""
    found: Quantity = getattr(cell, measure)
    return found


def values(cell: Cell, measure: str) -> list[float]:
    """The same of each good trial."""
    return [v for r in cell.records if (v := _speed(r, measure)) is not None]


def _speed(record: Trial, measure: str) -> float | None:
    """None for a trial that moved nothing, as of an empty table: no ratio can be made of it."""
    return (throughput(record) if measure == "throughput" else per_second(record, measure)) or None


def find(
    cells: Sequence[Cell],
    within: float = WITHIN,
    every: bool = False,
    cores: int | None = None,
    p99_ns: float | None = None,
) -> list[Best]:
    """The best setting of each workload; of sizes that differ in nothing else the largest, unless `every`.

    `cores`: CPUs of the machine, for the words only. `p99_ns`: only cells of which 99 % of the batches surely
    took no longer. Workloads without a good trial, or without such a cell, are left out.
    """
    out = []
    for group, alike, skipped in _groups(cells, every):
        measure = basis(group)
        measured = _measured(group)
        good = _within(measured, p99_ns)
        if good:
            settings = [n for n in varying(measured) if n not in WORKLOAD]
            found = _best(good, _within(alike, p99_ns), settings, within, cores, measure)
            failed = [c for c in group if c not in measured]
            slow = [c for c in measured if c not in good]
            out.append(replace(found, skipped=skipped, failed=failed, p99_ns=p99_ns, slow=slow))
    return out


def too_slow(cells: Sequence[Cell], every: bool, p99_ns: float) -> list[list[Cell]]:
    """Of each workload that `find` would have an answer for without that bound, and has none: its cells."""
    groups = (_measured(group) for group, _, _ in _groups(cells, every))
    return [group for group in groups if group and not _within(group, p99_ns)]


def _groups(cells: Sequence[Cell], every: bool) -> Iterator[tuple[list[Cell], list[Cell], int]]:
    """The cells of each workload that is looked at, those of nearly the same size, and how many sizes are
    skipped."""
    groups = by_key((repr(_workload(cell)), cell) for cell in cells).values()
    for family in by_key((repr(_workload(group[0], sizes=False)), group) for group in groups).values():
        chosen = family if every else [max(family, key=_size)]
        for group in chosen:
            alike = [c for other in family if _alike(other, group) for c in other if c not in group]
            yield group, alike, len(family) - len(chosen)


def _measured(group: list[Cell]) -> list[Cell]:
    measure = basis(group)
    return [c for c in group if values(c, measure)]


def _within(cells: list[Cell], p99_ns: float | None) -> list[Cell]:
    """Those of which 99 % of the batches surely took no longer: the whole interval of that."""
    if p99_ns is None:
        return cells
    known = ((c, c.latency.get(99.0, Quantity(None))) for c in cells)
    mosts = ((c, took.value if took.high is None else took.high) for c, took in known)
    return [c for c, most in mosts if most is not None and most <= p99_ns]


def _size(group: list[Cell]) -> tuple[float, ...]:
    # A group of one cell has nothing to choose from, however large.
    return (float(len(group) > 1), *(float(group[0].parameters.get(n) or 0) for n in AMOUNT))


def _alike(one: list[Cell], other: list[Cell]) -> bool:
    """Whether sizes are so near (a factor 2) that start-up weighs alike: then one stands as a repeat of the
    other where settings are tested, which matters for sets with one trial a cell."""
    pairs = zip(_size(one)[1:], _size(other)[1:], strict=True)
    return all(max(a, b) <= 2 * min(a, b) for a, b in pairs)


def _workload(cell: Cell, sizes: bool = True) -> dict[str, object]:
    kept = WORKLOAD - {"row_bytes", "seed"} - (frozenset() if sizes else frozenset(AMOUNT))
    return {k: v for k, v in sorted(cell.parameters.items()) if k in kept and v is not None}


def _best(
    good: list[Cell],
    alike: list[Cell],
    settings: list[str],
    within: float,
    cores: int | None,
    measure: str,
) -> Best:
    costs, cost_name = _costs(good, settings)
    first = max(range(len(good)), key=lambda i: speed_of(good[i], measure).value or 0.0)
    behind: list[Difference | None] = [None] * len(good)
    others = [i for i in range(len(good)) if i != first]
    if others:
        base = values(good[first], measure)
        pairs = [(base, values(good[i], measure)) for i in others]
        for i, found in zip(others, differences(pairs), strict=True):
            behind[i] = found
    choices = [
        Choice(c, speed_of(c, measure), cost, b) for c, cost, b in zip(good, costs, behind, strict=True)
    ]
    fastest = choices[first]
    advised = [
        a for n in settings if (a := _advise(fastest.cell, good, alike, n, settings, within, cores, measure))
    ]
    tied = [c for c in choices if c is not fastest and _tied(c, fastest, advised)]
    floor = (fastest.speed.value or 0.0) * (1 - within)
    near = [c for c in choices if (c.speed.value or 0.0) >= floor]
    cheapest = min(near, key=lambda c: (_number(c.cost), -(c.speed.value or 0.0)))
    return Best(
        workload=_workload(good[0]),
        settings=settings,
        fastest=fastest,
        cheapest=cheapest,
        tied=sorted(tied, key=lambda c: -(c.speed.value or 0.0)),
        front=_front(choices),
        advised=advised,
        cells=len(good),
        cost_name=cost_name,
        judged=any(b is not None and b.judged for b in behind),
        within=within,
    )


def _tied(one: Choice, fastest: Choice, advised: Sequence[Advised]) -> bool:
    """Whether a cell is not told apart from the fastest: where they differ in one setting whose curve is
    known, by that curve, so that no two tests answer one question."""
    pair = [c.cell.parameters for c in (one, fastest)]
    differing = [a for a in advised if pair[0].get(a.name) != pair[1].get(a.name)]
    if len(differing) == 1 and (curve := differing[0].conclusive) is not None and differing[0].alone:
        at = [curve.ns.index(float(p[differing[0].name])) for p in pair if p[differing[0].name] in curve.ns]
        if len(at) == 2:
            change = curve.change(*at)
            return change.low is not None and change.high is not None and change.low <= 0 <= change.high
    return one.tied


def _number(quantity: Quantity) -> float:
    return quantity.value if quantity.value is not None else math.inf


def _costs(cells: list[Cell], settings: list[str]) -> tuple[list[Quantity], str]:
    """CPU time per GB or row where every cell has it of both ends; else the product of the parallel
    settings."""
    # Per byte of payload (ns/B is s/GB), or per row of what is counted in rows.
    counted = ["rows" if c.in_rows else "payload_bytes" for c in cells]
    by_cell = [
        [v for r in c.records if (v := cpu_per(r, what)) is not None]
        for c, what in zip(cells, counted, strict=True)
    ]
    if all(by_cell):
        of_rows = all(c.in_rows for c in cells)
        noun = cells[0].noun if cells else "row"
        unit, name = (f"ns/{noun}", noun) if of_rows else ("ns/B", "GB")
        return [median_interval(v).quantity(unit) for v in by_cell], f"CPU time per {name}, both ends"
    # Loaders share the streams, and hosts of metrics are dealt to them.
    shared = ("hosts", "loaders") if "streams" in settings else ()
    factors = [
        n
        for n in PARALLEL
        if n in settings
        and n not in shared
        and any(isinstance(c.parameters.get(n), int | float) for c in cells)
    ]
    out = []
    for cell in cells:
        values = [v for n in factors if isinstance(v := cell.parameters.get(n), int | float)]
        out.append(Quantity(math.prod(values) if values else None))
    return out, " x ".join(factors)


def _front(choices: list[Choice]) -> list[Choice]:
    """Those that no other beats in both; ties in both keep the first."""
    kept: list[Choice] = []
    for one in sorted(choices, key=lambda c: (-(c.speed.value or 0.0), _number(c.cost))):
        if one.cost.known and (not kept or _number(one.cost) < _number(kept[-1].cost)):
            kept.append(one)
    return kept


def _advise(
    fastest: Cell,
    cells: list[Cell],
    alike: list[Cell],
    name: str,
    settings: list[str],
    within: float,
    cores: int | None,
    measure: str,
) -> Advised | None:
    """What the pairs of cells that differ in this setting alone say of it; None where there are none. What
    they do not tell apart from the value of the fastest cell is no better than that."""
    groups = _blocks(cells, name, settings, measure)
    pooled = bool(alike) and sum(map(len, groups)) < LEAST_ROUNDS
    if pooled:
        groups = _blocks([*cells, *alike], name, settings, measure)
    if not groups:
        return None
    highest = [max(_means(group).values()) for group in groups]
    blocks = [block for group in groups for block in group]
    near = [b for g, most in zip(groups, highest, strict=True) if most >= NEAR * max(highest) for b in g]
    levels = list(dict.fromkeys(v for b in near for v in b))
    numbers = all(map(is_number, levels))
    levels.sort(key=lambda v: (float(v), "") if numbers and isinstance(v, int | float) else (0.0, str(v)))
    alone = len(settings) == 1 and not pooled
    figures = {_hashable(c.parameters.get(name)): speed_of(c, measure).value or 0.0 for c in cells if alone}
    best = max(levels, key=lambda v: figures[v]) if alone else _best_level(near, levels)
    own = _hashable(fastest.parameters.get(name))
    if own in levels and own != best:
        ahead = _level(near, own, best, figures).gain
        best = best if ahead is not None and ahead.significant else own
    found = tuple(_level(near, value, best, figures) for value in levels)
    matters = effect(blocks, draws=DRAWS)
    rounds = [{float(v): x for v, x in b.items() if isinstance(v, int | float)} for b in near if numbers]
    failing = {float(c.parameters[name]) for c in cells if c.good < c.trials} if numbers else ()
    curve = Curve.of(rounds, failing, repeats=alone)
    if curve is not None and isinstance(best, int | float) and best in curve.ns:
        curve = replace(curve, peak=curve.ns.index(best))
    enough = best
    if curve is not None and curve.bounded:
        at = curve.enough(within)
        # Beyond the highest nothing is enough, if more loses in the end.
        beyond = at is None or (curve.shape is Shape.FALLING and at > curve.ns[curve.peak])
        enough = best if beyond else next(v for v in levels if v == at)
    elif matters is not None and matters.testable and not matters.significant:
        enough = levels[0]
    elif numbers:
        enough = next(one.value for one in found if one.ratio >= 1 - within)
    as_cores = cores if cores is not None and enough == cores else None
    return Advised(name, numbers, found, best, enough, matters, as_cores, curve, within, alone)


Block = dict[object, float]


def _blocks(cells: list[Cell], name: str, settings: list[str], measure: str) -> list[list[Block]]:
    """Throughput by the setting's value, all others equal: of each setting of the others a block a repeat,
    because repeats are interleaved rounds and a round's state is common to its cells."""
    groups = by_setting(cells, [n for n in (*settings, *AMOUNT) if n != name])
    every = (
        rounds(group, lambda c: _hashable(c.parameters.get(name)), lambda r: _speed(r, measure))
        for group in groups
    )
    whole = ([block for block in blocks if len(block) > 1] for blocks in every)
    return [blocks for blocks in whole if blocks]


def _means(blocks: Sequence[Block]) -> Block:
    """Geometric mean of each level."""
    each = by_key(pair for block in blocks for pair in block.items())
    return {level: geometric_mean(speeds) for level, speeds in each.items()}


def _hashable(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _best_level(blocks: list[Block], levels: list[object]) -> object:
    """The value whose mean log deviation from its blocks' best is least. A value met only beside poor ones
    does not win by that: deviations are from what the block could do."""

    def lack(value: object) -> float:
        off = [math.log(max(b.values()) / b[value]) for b in blocks if value in b]
        return sum(off) / len(off)

    return min(levels, key=lack)


def _level(blocks: list[Block], value: object, best: object, figures: Block) -> Level:
    """`figures`: those of the cells, where each level is one; the ratio is then theirs, unless one is 0."""
    pairs = [math.log(b[best] / b[value]) for b in blocks if value in b and best in b]
    if not pairs:
        # Never beside the best value: against the best of its own blocks, which may flatter it.
        pairs = [math.log(max(b.values()) / b[value]) for b in blocks if value in b]
    mean = sum(pairs) / len(pairs)
    judged = test_gain(pairs) if len(pairs) >= LEAST_PAIRS and value != best else None
    if not figures.get(best) or not figures.get(value):
        return Level(value, math.exp(-mean), len(pairs), judged)
    told = figures[best] / figures[value] - 1
    if judged is not None:
        judged = replace(judged, change=told, low=min(told, judged.low), high=max(told, judged.high))
    return Level(value, 1 / (1 + told), len(pairs), judged)


def cores(environment: Mapping[str, Any]) -> int | None:
    """CPUs of the server's machine, else of the client's, as far as the run knows them."""
    for end in ("server", "client"):
        cores = (environment.get(end) or {}).get("cores") or {}
        for name in ("usable", "logical", "physical"):
            if isinstance(cores.get(name), int):
                return int(cores[name])
    return None
