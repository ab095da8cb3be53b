"""What a sweep says as a whole: along each numeric axis how far throughput rises, what holds it from there,
and which other parameter of this very sweep opens that place, by how much; and what a run has tried already.

Only what was measured is reported; gains carry the interval of their two medians (crosswise, which is
conservative).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import by_key, is_number
from venturi.analysis.cells.series import Series, figure, followed, numeric, precedence, series
from venturi.analysis.cells.summary import Cell, by_operation, rows_a_batch, varying
from venturi.analysis.statistics.curve import Change, Shape
from venturi.analysis.verdict.remedies import CASSANDRA_MOST, MOST
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.types import (
    Evidence,
    Finding,
    FindingKind,
    Gain,
    ParameterEffect,
    Remedy,
    Verdict,
)
from venturi.analysis.wording import USUAL_REPEATS, Nouns, listed, nouns_of
from venturi.common.units import count, plural
from venturi.targets.parameters import AMOUNT, PARALLEL
from venturi.targets.system import scheme_of, servers_batches

_OPEN_ENDED = ("streams", "threads", "in_flight", "rows_per_batch")
"""Axes along which a command may ask for more than was measured."""


def findings(
    cells: Sequence[Cell], verdicts: Mapping[str, Verdict], environment: Mapping[str, Any] | None = None
) -> list[Finding]:
    """One finding a series, the axes of parallelism first. Empty for a run without a numeric axis."""
    found = []
    tried = Tried(cells)
    for _, group in by_operation([c for c in cells if figure(c).measured]).items():
        names = varying(group)
        for axis in sorted((n for n in names if numeric(group, n)), key=precedence):
            for one in series(group, axis, [n for n in names if n != axis]):
                if axis == "rows_per_batch" and not followed(one.cells):
                    found.append(_unmoved(one))
                    continue
                verdict, levers = verdicts.get(one.place.name), _levers(one, group, names)
                rerun = Rerun.of(one.place, environment or {})
                remedies = _remedies(one, verdict, levers, rerun)
                left = [r for r in remedies if tried.settled(r, one.place) is not None]
                found.append(_finding(one, verdict, levers, left[:MOST]))
    return found


def _remedies(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], rerun: Rerun
) -> Iterator[Remedy]:
    """What to try if nothing that was measured opens the place, and along the axis itself."""
    axis = series.axis
    if axis in AMOUNT:
        return
    opened = any(lever.opens for lever in levers)
    from_verdict = verdict.remedies if verdict is not None and not opened else ()
    open_ended = axis in _OPEN_ENDED
    curve = series.curve
    if curve is not None and curve.rising and open_ended:
        further = Remedy(
            "further", "further, as it still rises", {axis: 2 * int(series.at(series.cells[-1]))}
        )
        new = all(remedy.changes != further.changes for remedy in from_verdict)
        if new and _takes(series.place, axis, further.changes[axis]) and (command := rerun.proposed(further)):
            yield replace(further, command=command, begin="to try: ")
    if curve is not None and series.shape is Shape.UNDECIDED and open_ended:
        repeats = curve.telling if curve.bounded else USUAL_REPEATS
        both = [int(curve.ns[curve.start]), int(curve.ns[-1])]
        again = Remedy(
            "more-repeats", "to decide whether it still rises", {axis: both}, {"repeats": repeats or 0}
        )
        if repeats is not None and (command := rerun.proposed(again)):
            yield replace(again, command=command)
    for remedy in from_verdict:
        yield remedy if remedy.why == "measured" else replace(remedy, begin="to try: ")


def _takes(cell: Cell, axis: str, value: int) -> bool:
    """Whether the target takes so much as it comes: Cassandra refuses large batches."""
    if axis == "rows_per_batch" and servers_batches(cell.parameters):
        return False
    small = scheme_of(str(cell.parameters.get("target") or "")) == "cassandra"
    return not (small and axis == "rows_per_batch" and value > CASSANDRA_MOST)


def _levers(series: Series, group: Sequence[Cell], names: Sequence[str]) -> list[ParameterEffect]:
    """What the other parameters did to the place of this series, each alone, its best value; the largest gain
    first."""
    base, axis = series.place, series.axis
    best: dict[str, ParameterEffect] = {}
    for cell in group if axis not in AMOUNT else ():
        differing = [n for n in names if cell.parameters.get(n) != base.parameters.get(n)]
        if (
            len(differing) != 1
            or differing[0] == axis
            or differing[0] in (*AMOUNT, "data", "place", "target")
        ):
            continue
        name = differing[0]
        if name == "rows_per_batch" and not followed((base, cell)):
            continue
        found = gain(base, cell)
        if found is not None and (name not in best or found.value > best[name].gain.value):
            best[name] = ParameterEffect(name, base.parameters.get(name), cell.parameters.get(name), found)
    return sorted(best.values(), key=lambda lever: -lever.gain.value)


# ---- what the run has tried is not proposed again. A remedy that asks for a setting of this run becomes what
# was measured there, or goes if that was no faster; so does one along an axis on which throughput falls.

_FOLLOWS = ("threads",)
"""Of these a remedy says that they follow another parameter, as `threads` the streams."""


class Tried:
    """The cells of a run, to be found by those that differ in one parameter."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._cells = cells
        self._along: dict[str, dict[str, list[Cell]]] = {}

    @cached_property
    def _names(self) -> list[str]:
        """The run's parameters that vary; threads only if streams do not set their number."""
        names = varying(self._cells)
        pairs = {(c.parameters.get("streams"), c.parameters.get("threads")) for c in self._cells}
        follow = "streams" in names and len({streams for streams, _ in pairs}) == len(pairs)
        return [n for n in names if not (follow and n == "threads")]

    def _key(self, cell: Cell, name: str) -> str:
        """All that a cell shares with those that differ in this parameter alone."""
        return repr([cell.operation, *(cell.parameters.get(n) for n in self._names if n != name)])

    def _alike(self, cell: Cell, name: str) -> list[Cell]:
        """The cells that differ from this one in this parameter alone."""
        groups = self._along.get(name)
        if groups is None:
            groups = self._along[name] = by_key((self._key(one, name), one) for one in self._cells)
        return [c for c in groups[self._key(cell, name)] if c is not cell]

    def settled(self, remedy: Remedy, cell: Cell) -> Remedy | None:
        """The remedy, for this cell; as a measurement if the run has one that is surely faster; None if
        what was tried failed, or gained nothing."""
        changed = {n: v for n, v in remedy.changes.items() if not (n in _FOLLOWS and v == "streams")}
        if len(changed) != 1 or (name := next(iter(changed))) not in self._names:
            return remedy
        now, wanted = cell.parameters.get(name), changed[name]
        along = [(c, c.parameters.get(name)) for c in self._alike(cell, name)]
        if any(c.failed and not c.good and _reaches(wanted, now, value) for c, value in along):
            return None
        good = [(c, value) for c, value in along if figure(c).measured]
        if name == "rows_per_batch" and not followed([cell, *(c for c, _ in good)]):
            return remedy
        if not (is_number(now) and is_number(wanted)):
            return self._measured(remedy, name, cell, [c for c, value in good if value == wanted])
        ahead = [c for c, value in good if _ahead(now, value, wanted)]
        if ahead:
            return self._measured(remedy, name, cell, ahead)
        # None lies further on; those behind may say that it falls towards here.
        falls = any((found := gain(cell, c)) is not None and found.sure for c, _ in good)
        return None if falls else remedy

    def _measured(self, remedy: Remedy, name: str, cell: Cell, ahead: Sequence[Cell]) -> Remedy | None:
        """The best of these as a remedy; itself if there is none."""
        if not ahead:
            return remedy
        best = max(ahead, key=lambda c: figure(c).value or 0.0)
        found = gain(cell, best)
        if found is None or not found.sure:
            return None
        value = best.parameters.get(name)
        effect = change(ParameterEffect(name, cell.parameters.get(name), value, found), nouns_of(cell))
        follow = {n: v for n, v in remedy.changes.items() if n != name}
        return replace(
            remedy,
            why="measured",
            words=f"measured here: {effect}: {found.factor}",
            changes={name: value, **follow},
        )


def gain(base: Cell, other: Cell) -> Gain | None:
    """The gain of `other` over `base`; None if either was not measured."""
    one, two = figure(base), figure(other)
    if not (one.measured and two.measured) or not one.value or two.value is None or one.unit != two.unit:
        return None
    low = two.low / one.high - 1 if two.low is not None and one.high else None
    high = two.high / one.low - 1 if two.high is not None and one.low else None
    return Gain(two.value / one.value - 1, low, high)


def _ahead(now: Any, value: Any, wanted: Any) -> bool:
    """Whether a value lies from now on the side of what is wanted."""
    return is_number(value) and bool(now < value if now < wanted else value < now)


def _reaches(wanted: Any, now: Any, value: Any) -> bool:
    """Whether a step from now to what is wanted comes to that value or passes it."""
    if all(map(is_number, (wanted, now, value))):
        return bool(now < value <= wanted or wanted <= value < now)
    return bool(wanted == value)


# ---- in words

_WORDS = {
    "streams": ("{stream}", "{stream}s"),
    "rows_per_batch": ("{row} per batch", "{row}s per batch"),
    "rows_per_stream": ("{row} per {stream}", "{row}s per {stream}"),
    "window": ("byte of window", "bytes of window"),
    "rate": ("batch/s offered", "batches/s offered"),
    "in_flight": ("batch in flight per {stream}", "batches in flight per {stream}"),
    "working_set": ("row of working set", "rows of working set"),
}


def _finding(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], remedies: Sequence[Remedy]
) -> Finding:
    """The finding of a series: its shape, the verdict at its place, what is faster, and what to try."""
    nouns = nouns_of(series.cells[0])
    amount = series.axis in AMOUNT
    where = [] if not (operation := series.cells[0].parameters.get("operation")) else [str(operation)]
    where += [spelled(n, v, nouns) for n, v in series.fixed if n != "operation" and v is not None]
    if amount:
        # What is moved in a trial is no setting that opens anything.
        late = series.shape is Shape.FLAT
        lines = (
            *_shape(series, nouns),
            *(["below that, starting takes a visible part of the trial"] if late else []),
        )
    else:
        lines = _lines(series, verdict, levers, nouns)
    ends = (series.cells[0], series.knee, series.place, series.peak, series.cells[-1])
    evidence = [
        Evidence(spelled(series.axis, c.parameters[series.axis], nouns), figure(c).text()) for c in ends
    ]
    evidence += [Evidence(change(lever, nouns), str(lever.gain)) for lever in levers[:4]]
    evidence += verdict.evidence if verdict is not None else ()
    return Finding(
        kind=FindingKind(series.shape.value),  # type: ignore[call-arg]
        axis=series.axis,
        at=series.claimed_at,
        cause=verdict.cause if verdict is not None and not amount else None,
        levers=tuple(levers),
        title=": ".join(filter(None, (", ".join(where), _title(series, nouns)))),
        lines=lines,
        evidence=tuple(dict.fromkeys(evidence)),
        remedies=tuple(remedies),
        cells=tuple(cell.name for cell in series.cells),
    )


def _lines(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], nouns: Nouns
) -> tuple[str, ...]:
    lines, curve = _shape(series, nouns), series.curve
    for cell in series.left_out:
        good = f"{cell.good} of {plural(cell.trials, 'trial')} went well"
        lines.append(f"{spelled(series.axis, series.at(cell), nouns)} left out: {good}")
    if series.pooled:
        lines.append(f"changes are those of {series.pooled} like sizes together, as each has few trials")
    level = series.shape.level
    if level and curve is not None:
        lines.append(f"more {_words(series.axis, nouns)[1]} {_gained(curve.rest)}")
    if verdict is not None:
        place = spelled(series.axis, series.at(series.place), nouns)
        known = verdict.kind != "unknown"
        why = f"why, {'from' if level else 'at'} {place}" if known else "why is not known"
        first, *rest = verdict.lines
        lines += [f"{why}: {first}", *rest]
    fixes = [f"fix: {change(lever, nouns)}, {lever.gain.factor}" for lever in levers if lever.opens]
    doubtful = [f"{change(lever, nouns)} ({lever.gain})" for lever in levers if lever.gain.value > 0]
    if fixes:
        lines += fixes[:2]
    elif doubtful:
        lines.append(f"perhaps faster, not surely: {listed(doubtful[:2])}")
    return tuple(lines)


def _gained(rest: Change | None) -> str:
    """What more gains beyond the point from which it is flat, at most."""
    if rest is None or rest.value > 0:
        return f"gained {rest} at most"
    return f"lost ({rest})" if rest.high is not None and rest.high < 0 else f"gained nothing ({rest})"


def _unmoved(series: Series) -> Finding:
    """Of batches that arrived alike whatever was asked for."""
    first, last, nouns = series.cells[0], series.cells[-1], nouns_of(series.cells[0])
    asked = f"{count(int(series.at(first)))} to {spelled(series.axis, last.parameters[series.axis], nouns)}"
    rows = [c.parameters.get("rows_per_stream") for c in series.cells]
    known = max((n for n in rows if isinstance(n, int)), default=0)
    if None not in rows and known <= series.at(first):
        kind, title = FindingKind.ONE_BATCH, f"a {nouns.stream} fits into one batch"
        only = f"a {nouns.stream} has only {known:,} {nouns.row}s"
        sentence = f"{asked} were asked for, but {only}, so no batch is larger"
    else:
        kind, title = FindingKind.BATCHES_NOT_OURS, f"{nouns.row}s per batch are not ours to choose"
        came = f"{rows_a_batch(first) or 0:,.0f} {nouns.row}s per batch"
        sentence = f"{asked} were asked for and {came} came each time"
    evidence = tuple(
        Evidence(spelled(series.axis, c.parameters[series.axis], nouns), f"{rows_a_batch(c) or 0:,.0f} came")
        for c in (first, last)
    )
    title, lines = f"{first.operation}: {title}", (f"{sentence}: nothing is compared",)
    return Finding(kind, series.axis, series.at(first), None, (), title, lines, evidence, ())


def _words(axis: str, nouns: Nouns) -> tuple[str, str]:
    """One and several of an axis."""
    if (words := _WORDS.get(axis)) is None:
        own = {"stream": nouns.stream, "rows": f"{nouns.row}s"}
        many = " ".join(own.get(part, part) for part in axis.split("_"))
        return (axis.removesuffix("s") if axis.isalpha() else many), many
    one, many = (text.format(row=nouns.row, stream=nouns.stream) for text in words)
    return one, many


def _counted(value: float) -> str:
    return count(int(value) if float(value).is_integer() else value)


def spelled(axis: str, value: object, nouns: Nouns) -> str:
    """`4 streams`, `8,192 rows per batch`, `compression lz4`."""
    one, many = _words(axis, nouns)
    if is_number(value):
        return f"{_counted(value)} {one if value == 1 else many}"
    return f"{axis.replace('_', ' ')} {'none' if value is None else value}"


def change(lever: ParameterEffect, nouns: Nouns) -> str:
    """`1,024 -> 8,192 rows per batch`, `compression none -> lz4`."""
    name, before, after = lever.parameter, lever.before, lever.after
    if all(map(is_number, (before, after))):
        return f"{_counted(before)} -> {spelled(name, after, nouns)}"
    return f"{name.replace('_', ' ')} {'none' if before is None else before} -> " + (
        "none" if after is None else str(after)
    )


def _shape(series: Series, nouns: Nouns) -> list[str]:
    """How throughput goes along the axis, in words; `_lines` says what more gained if it is flat."""
    axis, peak, knee, shape, curve = series.axis, series.peak, series.knee, series.shape, series.curve

    def spell(value: float) -> str:
        return spelled(axis, value, nouns)

    reached = f"90 % of the highest is reached with {spell(series.at(knee))} ({figure(knee).text()})"
    if below := [n for n in map(series.at, series.cells) if n < series.at(knee)]:
        reached += f", not with {_counted(below[-1])}"
    if knee is peak:
        reached = _moved(series.at(peak), spell, peak)
    if curve is None:
        return [reached, "no repeat went well at every point, so nothing more can be said"]
    words = [wording.linear_part(curve, spell)] if axis in PARALLEL else []
    place = series.place
    if shape is Shape.FLAT:
        same = bool(words) and curve.linear == curve.flat
        moved = figure(place).text()
        words = [f"{words[0]} ({moved})"] if same else [*words, _moved(series.at(place), spell, place)]
    elif shape is Shape.FLAT_THROUGHOUT:
        verb = "moves" if series.at(place) == 1 else "move"
        words = [f"{spell(series.at(place))} already {verb} {_share(place, peak)} of the most"]
    elif shape is Shape.UNDECIDED:
        return [*filter(None, [*words, reached]), wording.undecided_part(curve, spell)]
    else:
        words.append(wording.curve_end(curve, spell, figure(place).text()))
    return [", ".join(filter(None, words))]


def _moved(at: float, spell: Callable[[float], str], cell: Cell) -> str:
    """`5 streams move 2,859 MB/s`."""
    return f"{spell(at)} {'moves' if at == 1 else 'move'} {figure(cell).text()}"


def _share(cell: Cell, of: Cell) -> str:
    return f"{100 * (figure(cell).value or 0.0) / (figure(of).value or 1.0):.0f} %"


def _title(series: Series, nouns: Nouns) -> str:
    place = spelled(series.axis, series.place.parameters[series.axis], nouns)
    titles = {
        Shape.RISING: f"rising up to {place}",
        Shape.FLAT: f"flat from {place}",
        Shape.FLAT_THROUGHOUT: f"flat over {_words(series.axis, nouns)[1]}",
        Shape.FALLING: f"falling beyond {place}",
    }
    return titles.get(series.shape, f"highest with {place}")
