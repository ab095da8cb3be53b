"""What a sweep says as a whole: along each numeric axis how far throughput rises, what holds it from there,
and which other parameter of this very sweep opens that place, by how much.

Only what was measured is said; gains carry the interval of their two medians (crosswise, which is
conservative).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis.cells.summary import Cell, by_operation, rows_a_batch, varying
from venturi.analysis.statistics.intervals import RANGE_BELOW
from venturi.analysis.verdict.evidence import Evidence
from venturi.analysis.verdict.failed import Failed
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.types import Finding, Verdict
from venturi.analysis.verdict.upsert_remedies import CASSANDRA_MOST
from venturi.analysis.words.wording import listed, named
from venturi.common.units import Quantity, count
from venturi.targets.system import servers_batches

PARALLEL = (
    *("streams", "in_flight", "encoders", "decoders", "hosts", "loaders", "clients", "partitions"),
    "threads",
)
"""Axes along which twice as much should move twice as much, until something is full."""
_OPEN_ENDED = ("streams", "threads", "in_flight", "rows_per_batch")
"""Axes along which a command may ask for more than was measured."""
AMOUNT = ("rows_per_stream", "bytes_per_stream", "duration_ns", "rows", "bytes")
"""Axes that only say how much was moved: they show what starting costs."""
LINEAR = 0.9
"""A point is on the line while it reaches this share of it, counting from the first point."""
KNEE = 0.9
"""METHOD: the knee is where 90 % of the peak is reached."""
ALIKE = 1.1
"""Batches whose mean sizes lie within this ratio are of one size: last ones are shorter."""
UNCERTAIN = 0.1
"""Single repeats of one thing on one machine lie this far apart at times."""
MOST_REPEATS = 50
"""More repeats than this are not proposed: something else is wrong with the measurement."""
SERIES = 3
"""Series shown of one axis and operation; a large matrix has hundreds, which say the same again and again."""
_WORDS = {
    "streams": ("stream", "streams"),
    "threads": ("thread", "threads"),
    "encoders": ("encoder", "encoders"),
    "decoders": ("decoder", "decoders"),
    "partitions": ("partition", "partitions"),
    "hosts": ("host", "hosts"),
    "loaders": ("loader", "loaders"),
    "rows_per_batch": ("row a batch", "rows a batch"),
    "rows_per_stream": ("row a stream", "rows a stream"),
    "window": ("byte of window", "bytes of window"),
    "rate": ("batch/s offered", "batches/s offered"),
    "columns": ("column", "columns"),
    "in_flight": ("batch in flight a stream", "batches in flight a stream"),
    "working_set": ("row of working set", "rows of working set"),
}


@dataclass(frozen=True)
class Gain:
    """From one cell to another: the ratio of their medians less one, with what both intervals allow."""

    value: float
    low: float | None
    high: float | None

    @property
    def counts(self) -> bool:
        """Whether the intervals leave no doubt of its sign; without margins, whether it is beyond a tenth."""
        if self.low is None or self.high is None:
            return abs(self.value) > UNCERTAIN
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        text = f"{self.value * 100:+.0f} %"
        if self.low is None or self.high is None:
            return f"{text} (no margin known)"
        return f"{text} [{self.low * 100:+.0f}..{self.high * 100:+.0f}]"


def figure(cell: Cell) -> Quantity:
    """What is compared: bytes/s; rows/s of upserts, and where an import has no bytes."""
    return cell.main


def gain(base: Cell, other: Cell) -> Gain | None:
    """How much more `other` moves than `base`; None where either was not measured."""
    one, two = figure(base), figure(other)
    if not (one.known and two.known) or not one.value or two.value is None or one.unit != two.unit:
        return None
    low = two.low / one.high - 1 if two.low is not None and one.high else None
    high = two.high / one.low - 1 if two.high is not None and one.low else None
    return Gain(two.value / one.value - 1, low, high)


@dataclass(frozen=True)
class Series:
    """Cells that differ in one numeric parameter only, in its order."""

    axis: str
    cells: tuple[Cell, ...]
    fixed: tuple[tuple[str, Any], ...]

    @property
    def peak(self) -> Cell:
        return max(self.cells, key=lambda c: figure(c).value or 0.0)

    def at(self, cell: Cell) -> float:
        return float(cell.parameters[self.axis])

    @property
    def linear(self) -> Cell | None:
        """The last cell on the straight line through the first one; None where the second is off already."""
        first = self.cells[0]
        slope = (figure(first).value or 0.0) / self.at(first) if self.at(first) > 0 else 0.0
        last = None
        for cell in self.cells[1:]:
            found = figure(cell)
            # The upper end of its interval: a point that may lie on the line is not said to have left it.
            if slope <= 0 or (found.high or found.value or 0.0) < LINEAR * slope * self.at(cell):
                break
            last = cell
        return last

    @property
    def undecided(self) -> bool:
        """Whether the most was reached at the last point alone, and its interval allows that nothing was
        gained there: then nobody knows whether more would gain, and it is flat nowhere yet."""
        return self.knee is self.cells[-1] and not _rises(self)

    @property
    def knee(self) -> Cell:
        """The first cell with 90 % of the peak."""
        most = figure(self.peak).value or 0.0
        return next(c for c in self.cells if (figure(c).value or 0.0) >= KNEE * most)


def findings(
    cells: Sequence[Cell], verdicts: Mapping[str, Verdict], environment: Mapping[str, Any] | None = None
) -> list[Finding]:
    """One finding a series, the axes of parallelism first. Empty for a run without a numeric axis."""
    found = []
    failed = Failed(cells)
    for _, group in by_operation([c for c in cells if figure(c).known]).items():
        names = varying(group)
        for axis in sorted((n for n in names if _numeric(group, n)), key=_precedence):
            for series in _series(group, axis, [n for n in names if n != axis]):
                unmoved = _unmoved(series)
                told = unmoved or _finding(series, group, names, verdicts, environment or {}, failed)
                found.append(told)
    return found


def _precedence(axis: str) -> tuple[int, str]:
    rank = PARALLEL.index(axis) if axis in PARALLEL else 50 if axis not in AMOUNT else 99
    return rank, axis


def _numeric(cells: Sequence[Cell], name: str) -> bool:
    values = [c.parameters.get(name) for c in cells]
    good = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return good and len(set(values)) > 1


def _series(cells: Sequence[Cell], axis: str, others: Sequence[str]) -> list[Series]:
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(repr(cell.parameters.get(n)) for n in others), []).append(cell)
    made = []
    for group in groups.values():
        distinct: dict[float, Cell] = {}
        for cell in group:
            distinct.setdefault(float(cell.parameters[axis]), cell)
        if len(distinct) > 1:
            ordered = tuple(distinct[x] for x in sorted(distinct))
            made.append(Series(axis, ordered, tuple((n, ordered[0].parameters.get(n)) for n in others)))
    return _chosen(made, axis)


def _chosen(made: list[Series], axis: str) -> list[Series]:
    """The series worth telling: with the most data moved, of the others the best and the most modest."""
    for name in AMOUNT:
        sizes = [v for s in made if isinstance(v := dict(s.fixed).get(name), int | float)]
        if name != axis and len(set(sizes)) > 1:
            made = [s for s in made if dict(s.fixed).get(name) == max(sizes)]
    if axis not in PARALLEL and made:
        # Of sizes one series is enough: the best.
        return [max(made, key=lambda s: figure(s.peak).value or 0.0)]
    # A series of two points beside one of ten repeats less of the same.
    longest = max((len(s.cells) for s in made), default=0)
    made = [s for s in made if len(s.cells) > longest / 2]
    if len(made) <= SERIES:
        return made
    ordered = sorted(made, key=lambda s: figure(s.peak).value or 0.0)
    kept = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    return [s for s in made if s in kept]


def spelled(axis: str, value: object) -> str:
    """`4 streams`, `8,192 rows a batch`, `compression lz4`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = count(int(value) if float(value).is_integer() else value)
        one, many = _WORDS.get(axis, (axis.replace("_", " "),) * 2)
        return f"{number} {one if value == 1 else many}"
    return f"{axis.replace('_', ' ')} {'none' if value is None else value}"


def _finding(
    series: Series,
    group: Sequence[Cell],
    names: Sequence[str],
    verdicts: Mapping[str, Verdict],
    environment: Mapping[str, Any],
    failed: Failed,
) -> Finding:
    axis, first, last, peak, knee = series.axis, series.cells[0], series.cells[-1], series.peak, series.knee
    value = series.cells[0].parameters
    where = [str(value.get("operation"))] if value.get("operation") else []
    where += [spelled(n, v) for n, v in series.fixed if n != "operation" and v is not None]
    fixed = ", ".join(where)
    head, rising = _shape(series)
    undecided = series.undecided
    place = last if rising else knee
    verdict = verdicts.get(place.name)
    parts = [head]
    levers: list[tuple[str, Gain]] = []
    following: list[str] = []
    if axis in AMOUNT:
        # What is moved in a trial is no setting that opens anything.
        parts.append("below that, starting takes a visible part of the trial" if knee is not first else "")
    else:
        if verdict is not None and verdict.kind != "unknown":
            parts.append(("there " if rising or undecided else "from there ") + verdict.sentence)
        if not rising and knee is not last:
            parts.append(_beyond(series))
        if verdict is not None and verdict.kind == "unknown":
            parts.append(f"why is not known: {verdict.sentence}")
        levers = _levers(place, group, names, axis)
        opening = [
            f"{change} measured {found}" for change, found in levers if found.counts and found.value > 0
        ]
        idle = [f"{change} {found}" for change, found in levers if not found.counts and found.value > 0]
        if opening:
            parts.append(f"what opens it: {listed(opening[:2])}")
        elif levers and idle:
            parts.append(f"no significant gain from {listed(idle[:2])}")
        if rising:
            top = int(series.at(last))
            rerun = Rerun.of(last, environment)
            further = rerun.but(**{axis: 2 * top})
            told = verdict.next if verdict is not None and not opening else ()
            if (
                axis in _OPEN_ENDED
                and _takes(last, axis, 2 * top)
                and not any(further in text for text in told)
            ):
                following.append(f"to try: further, as it still rises: {further}")
        if undecided and axis in _OPEN_ENDED and (repeats := _telling(series)) is not None:
            both = f"{int(series.at(series.cells[-2]))},{int(series.at(last))}"
            again = Rerun.of(last, environment).but(repeats=repeats, **{axis: both})
            following.append(f"to tell whether it still rises: {again}")
        if verdict is not None and not opening and (verdict.kind != "unknown" or verdict.evidence):
            following += [f"to try: {text}" for text in verdict.next if not _measured(text, group, names)]
    evidence = [
        Evidence(named(spelled(axis, c.parameters[axis]), c), figure(c).text())
        for c in (first, knee, peak, last)
    ]
    evidence += [Evidence(change, str(found)) for change, found in levers[:4]]
    if verdict is not None:
        evidence += verdict.evidence
    return Finding(
        title=named(f"{fixed}: {_title(series, rising)}" if fixed else _title(series, rising), first),
        sentence=named("; ".join(p for p in parts if p), first),
        evidence=tuple(dict.fromkeys(evidence)),
        next=tuple(dict.fromkeys(t for t in following if not failed.asked_for(t, place)))[:3],
    )


def _unmoved(series: Series) -> Finding | None:
    """A series of batches that arrived alike whatever was asked for, which compares nothing; None: they
    followed."""
    if series.axis != "rows_per_batch" or _followed(series.cells):
        return None
    first, last = series.cells[0], series.cells[-1]
    asked = f"{count(int(series.at(first)))} to {spelled(series.axis, last.parameters[series.axis])}"
    rows = [c.parameters.get("rows_per_stream") for c in series.cells]
    known = max((n for n in rows if isinstance(n, int)), default=0)
    if None not in rows and known <= series.at(first):
        title = "a stream fits into one batch"
        sentence = f"{asked} were asked for, but a stream has only {known:,} rows, so no batch is larger"
    else:
        title = "rows a batch are not ours to choose"
        came = f"{rows_a_batch(first) or 0:,.0f} rows a batch"
        sentence = f"{asked} were asked for and {came} came each time"
    return Finding(
        title=f"{first.operation}: {title}",
        sentence=f"{sentence}: nothing is compared",
        evidence=tuple(
            Evidence(spelled(series.axis, c.parameters[series.axis]), f"{rows_a_batch(c) or 0:,.0f} came")
            for c in (first, last)
        ),
        next=(),
    )


def _followed(cells: Sequence[Cell]) -> bool:
    """Whether the batches that came differ where those asked for do; so taken where they were not counted."""
    came = [n for c in cells if (n := rows_a_batch(c))]
    return len(came) < len(cells) or max(came) > ALIKE * min(came)


def _takes(cell: Cell, axis: str, value: int) -> bool:
    """Whether the target takes so much as it comes: Cassandra refuses large batches."""
    if axis == "rows_per_batch" and servers_batches(cell.parameters):
        return False
    small = str(cell.parameters.get("target") or "").startswith("cassandra")
    return not (small and axis == "rows_per_batch" and value > CASSANDRA_MOST)


def _beyond(series: Series) -> str:
    """What lies beyond the knee, by the figures alone."""
    axis, knee, peak = series.axis, series.knee, series.peak
    more = f"more {_WORDS.get(axis, ('', axis.replace('_', ' ')))[1]}"
    found = gain(knee, peak) if peak is not knee else None
    if found is None or found.value <= 0 or not found.counts:
        return f"{more} gained nothing"
    return f"{more} gained {found} at most ({spelled(axis, peak.parameters[axis])})"


def _measured(text: str, group: Sequence[Cell], names: Sequence[str]) -> bool:
    """Whether a proposal only asks for a point of a numeric axis that the sweep has."""
    for name in names:
        _, flag, after = text.partition("--" + name.replace("_", "-") + " ")
        value = after.split(" ")[0]
        if flag and value.isdigit() and any(_reaches(c.parameters.get(name), float(value)) for c in group):
            return True
    return False


def _reaches(value: object, wanted: float) -> bool:
    return isinstance(value, int | float) and value >= wanted


def _rises(series: Series) -> bool:
    """Whether the last step is still a gain beyond doubt, or, without margins, of a tenth or more."""
    step = gain(series.cells[-2], series.cells[-1])
    if step is None or series.peak is not series.cells[-1]:
        return False
    return step.counts and step.value > 0


def _shape(series: Series) -> tuple[str, bool]:
    """How throughput goes along the axis, in words, and whether it still rises at the end."""
    axis, last, peak, knee, linear = series.axis, series.cells[-1], series.peak, series.knee, series.linear
    rising = _rises(series)
    words = [f"linear up to {spelled(axis, linear.parameters[axis])}"] if linear and axis in PARALLEL else []
    if rising:
        step = gain(series.cells[-2], last)
        words.append(
            f"still rising at {spelled(axis, last.parameters[axis])} ({figure(last).text()}; "
            f"{step} from {spelled(axis, series.cells[-2].parameters[axis])})"
        )
        return ", ".join(words), True
    if linear is knee and axis in PARALLEL:
        words = [f"{words[0]} ({figure(knee).text()})"]
    elif knee is series.cells[0]:
        verb = "moves" if knee.parameters[axis] == 1 else "move"
        words = [f"{spelled(axis, knee.parameters[axis])} already {verb} {_share(knee, peak)} of the most"]
    else:
        words.append(
            f"90 % of the most is reached with {spelled(axis, knee.parameters[axis])} ({figure(knee).text()})"
        )
    if series.undecided:
        before = series.cells[-2]
        repeats = _telling(series)
        words.append(
            f"whether it still rises there cannot be told ({gain(before, last)} from "
            f"{spelled(axis, before.parameters[axis])}"
            + (f"; {repeats} repeats would tell)" if repeats is not None else ")")
        )
    loss = gain(peak, last)
    if peak is not last and loss is not None and loss.counts and loss.value < -0.05:
        words.append(f"{spelled(axis, last.parameters[axis])} lose {str(loss).lstrip('-')} of the peak at "
                     f"{spelled(axis, peak.parameters[axis])}")  # fmt: skip
    return ", ".join(words), False


def _telling(series: Series) -> int | None:
    """How many repeats would narrow the last step's interval to one side of nothing, were their spread the
    same: it shrinks with their square root. None over `MOST_REPEATS`."""
    one, two = (figure(c) for c in series.cells[-2:])
    step = (two.value or 0.0) - (one.value or 0.0)
    width = sum((q.high - q.low) / 2 for q in (one, two) if q.high is not None and q.low is not None)
    done = min(c.good for c in series.cells[-2:])
    wanted = (
        max(RANGE_BELOW, done + 1, math.ceil(done * (width / step) ** 2)) if step > 0 else MOST_REPEATS + 1
    )
    return wanted if wanted <= MOST_REPEATS else None


def _share(cell: Cell, of: Cell) -> str:
    return f"{100 * (figure(cell).value or 0.0) / (figure(of).value or 1.0):.0f} %"


def _title(series: Series, rising: bool) -> str:
    axis = series.axis
    if rising:
        return f"rising up to {spelled(axis, series.cells[-1].parameters[axis])}"
    if series.knee is series.cells[0]:
        return f"flat over {_WORDS.get(axis, ('', axis.replace('_', ' ')))[1]}"
    if series.undecided:
        return f"highest at {spelled(axis, series.cells[-1].parameters[axis])}, the last point"
    return f"flat from {spelled(axis, series.knee.parameters[axis])}"


def _levers(base: Cell, group: Sequence[Cell], names: Sequence[str], axis: str) -> list[tuple[str, Gain]]:
    """What the other parameters did to this cell, each alone, its best value; the largest gain first."""
    best: dict[str, tuple[str, Gain]] = {}
    for cell in group:
        differing = [n for n in names if cell.parameters.get(n) != base.parameters.get(n)]
        if (
            len(differing) != 1
            or differing[0] == axis
            or differing[0] in (*AMOUNT, "data", "place", "target")
        ):
            continue
        name = differing[0]
        if name == "rows_per_batch" and not _followed((base, cell)):
            continue
        found = gain(base, cell)
        if found is not None and (name not in best or found.value > best[name][1].value):
            before, after = base.parameters.get(name), cell.parameters.get(name)
            best[name] = (_change(name, before, after), found)
    return sorted(best.values(), key=lambda pair: -pair[1].value)


def _change(name: str, before: object, after: object) -> str:
    """`1,024 -> 8,192 rows a batch`, `compression none -> lz4`."""
    if all(isinstance(v, int | float) and not isinstance(v, bool) for v in (before, after)):
        return f"{spelled(name, before).split(' ')[0]} -> {spelled(name, after)}"
    return f"{name.replace('_', ' ')} {'none' if before is None else before} -> " + (
        "none" if after is None else str(after)
    )
