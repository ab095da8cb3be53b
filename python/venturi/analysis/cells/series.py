"""Cells along one axis, all else equal: how far throughput rises, where its knee is, what it gains."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from venturi.analysis.cells.figures import K, is_number, main_rate
from venturi.analysis.cells.summary import Cell, by_setting, rows_a_batch
from venturi.analysis.statistics.curve import Curve, Shape
from venturi.common.units import Quantity
from venturi.engine.record import Trial
from venturi.targets.parameters import AMOUNT, PARALLEL

FIRST = ("streams", "in_flight", "encoders", "decoders")
"""Axes shown before the others."""
KNEE = 0.9
"""METHOD: the knee is where 90 % of the peak is reached."""
ALIKE = 1.1
"""Batches whose mean sizes lie within this ratio are of one size: last ones are shorter."""
SERIES = 3
"""Series shown of one axis and operation; a large matrix has hundreds, which say the same again and again."""


def figure(cell: Cell) -> Quantity:
    """What is compared: bytes/s; rows/s of upserts, and where an import has no bytes."""
    return cell.main


def followed(cells: Sequence[Cell]) -> bool:
    """Whether the batches that came differ where those asked for do; so taken where they were not counted."""
    came = [n for c in cells if (n := rows_a_batch(c))]
    return len(came) < len(cells) or max(came) > ALIKE * min(came)


@dataclass(frozen=True, eq=False)
class Series:
    """Cells that differ in one numeric parameter only, in its order."""

    axis: str
    cells: tuple[Cell, ...]
    fixed: tuple[tuple[str, Any], ...]

    @cached_property
    def left_out(self) -> tuple[Cell, ...]:
        """Cells with too few good trials for the curve: they failed where the others went well."""
        return tuple(c for c in self.cells if self.curve is not None and self.at(c) not in self.curve.ns)

    @cached_property
    def peak(self) -> Cell:
        """The highest of those that the curve speaks of."""
        spoken_of = [c for c in self.cells if c not in self.left_out]
        return max(spoken_of, key=lambda c: figure(c).value or 0.0)

    def at(self, cell: Cell) -> float:
        return float(cell.parameters[self.axis])

    alike: tuple[tuple[Cell, ...], ...] = ()
    """The same where only the amount differs, by a factor of 2 at most: where a cell has one trial they stand
    for repeats."""

    @cached_property
    def curve(self) -> Curve | None:
        """What may be said of it; None where no round holds a trial of every cell."""
        failing = {self.at(c) for c in self.cells if c.good < c.trials}
        found = Curve.of(rounds(self.cells, self.at, main_rate), failing, repeats=True)
        if self.alike and (found is None or not found.bounded):
            every = [one for cells in (self.cells, *self.alike) for one in rounds(cells, self.at, main_rate)]
            found = Curve.of(every, failing)
        if found is None:
            return None
        known = [c for c in self.cells if self.at(c) in found.ns]
        highest = self.at(max(known, key=lambda c: figure(c).value or 0.0))
        return replace(found, peak=found.ns.index(highest))

    @property
    def pooled(self) -> int:
        """How many like sizes the curve is of; 0 if it is of these cells alone, whose figures it then has."""
        return 0 if self.curve is None or self.curve.repeats else len(self.alike) + 1

    @property
    def knee(self) -> Cell:
        """The first cell with 90 % of the peak: a figure, no claim."""
        most = figure(self.peak).value or 0.0
        return next(
            c for c in self.cells if c not in self.left_out and (figure(c).value or 0.0) >= KNEE * most
        )

    def cell(self, n: float | None) -> Cell | None:
        """The cell at this value."""
        return next((c for c in self.cells if self.at(c) == n), None)

    @property
    def shape(self) -> Shape:
        return self.curve.shape if self.curve is not None else Shape.UNDECIDED

    @property
    def claimed_at(self) -> float | None:
        """As `Curve.at`."""
        return self.curve.at if self.curve is not None else None

    @property
    def place(self) -> Cell:
        """The cell whose verdict is that of the series: where it is flat from, else the highest; by medians,
        as tables have it, where nothing is claimed."""
        return self.cell(self.claimed_at) or self.peak


def precedence(axis: str) -> tuple[int, str]:
    """Where an axis comes among those that are shown: how many work at once first, how much is moved last."""
    rank = (*FIRST, *PARALLEL).index(axis) if axis in PARALLEL else 50 if axis not in AMOUNT else 99
    return rank, axis


def numeric(cells: Sequence[Cell], name: str) -> bool:
    values = [c.parameters.get(name) for c in cells]
    return all(map(is_number, values)) and len(set(values)) > 1


def rounds(
    cells: Iterable[Cell], level: Callable[[Cell], K], rate: Callable[[Trial], float | None]
) -> list[dict[K, float]]:
    """What each level reached in each repeat, as far as it moved something."""
    found: dict[Any, dict[K, float]] = {}
    for cell in cells:
        for record in cell.records:
            if value := rate(record):
                found.setdefault(record.repeat, {})[level(cell)] = value
    return [found[repeat] for repeat in sorted(found, key=lambda r: (r is None, r))]


def series(cells: Sequence[Cell], axis: str, others: Sequence[str]) -> list[Series]:
    """The series over an axis that are worth telling, one a setting of `others`."""
    return _chosen(every(cells, axis, others), axis)


def every(cells: Sequence[Cell], axis: str, others: Sequence[str]) -> list[Series]:
    """All series over an axis, one a setting of `others`."""
    made = []
    for group in by_setting(cells, others):
        distinct: dict[float, Cell] = {}
        for cell in group:
            distinct.setdefault(float(cell.parameters[axis]), cell)
        if len(distinct) > 1:
            ordered = tuple(distinct[x] for x in sorted(distinct))
            made.append(Series(axis, ordered, tuple((n, ordered[0].parameters.get(n)) for n in others)))
    # Only those of one bucket can be alike: to hold each against each is slow where there are hundreds.
    keys = [_but_amount(one) for one in made]
    buckets: dict[Any, list[Series]] = {}
    for key, one in zip(keys, made, strict=True):
        buckets.setdefault(key, []).append(one)
    return [
        replace(one, alike=tuple(o.cells for o in buckets[key] if _alike(o, one)))
        for key, one in zip(keys, made, strict=True)
    ]


def _but_amount(one: Series) -> tuple[Any, ...]:
    """Its points and all that is fixed but for amounts; equal for equal ones."""
    fixed = [value for name, value in one.fixed if name not in AMOUNT]
    return tuple(map(one.at, one.cells)), *(v if isinstance(v, Hashable) else repr(v) for v in fixed)


def _alike(one: Series, other: Series) -> bool:
    """Whether two series over the same points differ in the amount alone, and by a factor of 2 at most."""
    if one is other:
        return False
    pairs = [(name, a, b) for (name, a), (_, b) in zip(one.fixed, other.fixed, strict=True) if a != b]
    return all(
        name in AMOUNT
        and isinstance(a, int | float)
        and isinstance(b, int | float)
        and max(a, b) <= 2 * min(a, b)
        for name, a, b in pairs
    )


def _chosen(made: list[Series], axis: str) -> list[Series]:
    """The series worth telling: with the most data moved, of the others the best and the most modest."""
    for name in AMOUNT:
        sizes = [v for s in made if isinstance(v := dict(s.fixed).get(name), int | float)]
        if name != axis and len(set(sizes)) > 1:
            made = [s for s in made if dict(s.fixed).get(name) == max(sizes)]
    if axis not in PARALLEL and made:
        # One series over sizes is enough: the best.
        return [max(made, key=lambda s: figure(s.peak).value or 0.0)]
    # A series of two points adds nothing to one of ten.
    longest = max((len(s.cells) for s in made), default=0)
    made = [s for s in made if len(s.cells) > longest / 2]
    if len(made) <= SERIES:
        return made
    ordered = sorted(made, key=lambda s: figure(s.peak).value or 0.0)
    kept = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    return [s for s in made if s in kept]
