"""What a sweep says as a whole: along each numeric axis how far throughput rises, what holds it from there,
and which other parameter of this very sweep opens that place, by how much.

Only what was measured is said; gains carry the interval of their two medians (crosswise, which is
conservative).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis.cells.series import Series, figure, followed, numeric, precedence, series
from venturi.analysis.cells.summary import Cell, by_operation, varying
from venturi.analysis.statistics.curve import Shape
from venturi.analysis.verdict.causes import RemedyKind
from venturi.analysis.verdict.remedies import MOST
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.tried import Tried, gain
from venturi.analysis.verdict.types import Finding, ParameterEffect, Remedy, Verdict
from venturi.analysis.verdict.upsert_remedies import CASSANDRA_MOST
from venturi.analysis.verdict.words import findings as words
from venturi.analysis.verdict.words.remedies import told
from venturi.analysis.words.curves import USUAL_REPEATS
from venturi.analysis.words.wording import nouns_of
from venturi.targets.parameters import AMOUNT
from venturi.targets.system import scheme_of, servers_batches

_OPEN_ENDED = ("streams", "threads", "in_flight", "rows_per_batch")
"""Axes along which a command may ask for more than was measured."""


def findings(
    cells: Sequence[Cell], verdicts: Mapping[str, Verdict], environment: Mapping[str, Any] | None = None
) -> list[Finding]:
    """One finding a series, the axes of parallelism first. Empty for a run without a numeric axis."""
    found = []
    tried = Tried(cells)
    for _, group in by_operation([c for c in cells if figure(c).known]).items():
        names = varying(group)
        for axis in sorted((n for n in names if numeric(group, n)), key=precedence):
            for one in series(group, axis, [n for n in names if n != axis]):
                if axis == "rows_per_batch" and not followed(one.cells):
                    found.append(words.unmoved(one))
                    continue
                verdict, levers = verdicts.get(one.place.name), _levers(one, group, names)
                rerun = Rerun.of(one.place, environment or {})
                remedies = _remedies(one, verdict, levers, rerun)
                left = [r for r in remedies if tried.settled(r, one.place) is not None]
                found.append(words.told(one, verdict, levers, left[:MOST]))
    return found


def _remedies(
    series: Series, verdict: Verdict | None, levers: Sequence[ParameterEffect], rerun: Rerun
) -> Iterator[Remedy]:
    """What to try where nothing that was measured opens the place, and along the axis itself."""
    nouns, axis = nouns_of(series.place), series.axis
    if axis in AMOUNT:
        return
    opened = any(lever.opens for lever in levers)
    given = verdict.remedies if verdict is not None and not opened else ()
    open_ended = axis in _OPEN_ENDED
    curve = series.curve
    if curve is not None and curve.rising and open_ended:
        further = Remedy(RemedyKind.FURTHER, {axis: 2 * int(series.at(series.cells[-1]))})
        new = all(remedy.changes != further.changes for remedy in given)
        if new and _takes(series.place, axis, further.changes[axis]) and (command := rerun.proposed(further)):
            yield told(replace(further, command=command), nouns, "to try: ")
    if curve is not None and series.shape is Shape.UNDECIDED and open_ended:
        repeats = curve.telling if curve.told else USUAL_REPEATS
        both = [int(curve.ns[curve.start]), int(curve.ns[-1])]
        again = Remedy(RemedyKind.TELLING_REPEATS, {axis: both}, {"repeats": repeats or 0})
        if repeats is not None and (command := rerun.proposed(again)):
            yield told(replace(again, command=command), nouns)
    for remedy in given:
        yield told(remedy, nouns, "" if remedy.why is RemedyKind.MEASURED else "to try: ")


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
