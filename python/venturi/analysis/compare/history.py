"""One cell over many runs: its medians in the order of time, and where they change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import fmean, variance

from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare import likeness
from venturi.analysis.compare.likeness import canonical
from venturi.analysis.compare.runs import METRICS, Metric, measured, metric_for
from venturi.analysis.results import Results, cells_where, load
from venturi.analysis.statistics.difference import change_points
from venturi.analysis.statistics.intervals import median_interval
from venturi.common.errors import VenturiError
from venturi.common.texts import Note
from venturi.common.units import Quantity

LEAST_CHANGE = 0.02
"""Smaller changes are not told: a median moves by as much when a machine is set up again."""
CONFIDENCE = 0.95
_IGNORED = frozenset({"row_bytes", "seed"})


@dataclass(frozen=True)
class Point:
    """A run; without a good trial there is no value."""

    run: str
    path: str
    started: datetime | None
    value: Quantity


@dataclass(frozen=True)
class Change:
    """From one level to the next: the ratio of their geometric means, with its interval (Welch's t on
    logarithms)."""

    at: int
    """The first point of the new level."""
    ratio: float
    low: float
    high: float
    p: float


@dataclass(frozen=True)
class Series:
    cell: Cell
    """As the newest run has it."""
    metric: Metric
    points: tuple[Point, ...]
    changes: tuple[Change, ...]
    machine: str = ""
    """What it was measured on, where runs of several machines have this cell."""
    elsewhere: int = 0
    """Runs that have this cell from other machines."""


def followed(
    directory: Path, metric: str, least: float, where: Sequence[str] | None, note: Note
) -> list[Series]:
    """The series of all runs in a directory, of the cells for which all conditions of `where` hold. `note`
    takes a warning for each run that cannot be read. Raises VenturiError if nothing is left."""
    found = histories(_runs(directory, note), metric, least)
    if not found:
        raise VenturiError(
            f"{directory}: no two runs of one machine have a cell in common",
            hint="the same scenario, run again and again on one machine",
        )
    if where:
        kept = {id(cell) for cell in cells_where([one.cell for one in found], where, str(directory))}
        found = [one for one in found if id(one.cell) in kept]
    return found


def _runs(directory: Path, note: Note) -> list[Results]:
    if not directory.is_dir():
        raise VenturiError(f"{directory}: is no directory", hint="venturi history DIR, with runs in DIR")
    found = []
    for path in sorted(p for p in directory.iterdir() if (p / "trials.jsonl").exists()):
        try:
            found.append(load(path))
        except VenturiError as error:
            note("warning", f"left out: {error.message}")
    if not found:
        raise VenturiError(
            f"{directory}: there is no run in it", hint="a run is a directory with trials.jsonl"
        )
    return found


def histories(
    runs: Sequence[Results], metric: str = "throughput", least: float = LEAST_CHANGE
) -> list[Series]:
    """A series for each cell that several runs of one machine have; changes of at least the share `least`.

    Runs are ordered by when they began; those of which that is not known come first. Cells that a run cannot
    tell apart by what is matched, as two ports of a host, are left out: which is meant is unknown.
    """
    found: dict[tuple[str, ...], dict[int, list[tuple[Results, Cell]]]] = {}
    known: list[dict[tuple[int, str], str]] = []
    for run in sorted(runs, key=lambda r: r.started.timestamp() if r.started else 0.0):
        machine = _place(known, likeness.machine(run))
        for cell in run.cells:
            found.setdefault(_key(cell), {}).setdefault(machine, []).append((run, cell))
    out = []
    for machines in found.values():
        total = sum(map(len, machines.values()))
        for machine, members in machines.items():
            if len({id(run) for run, _ in members}) == len(members) > 1:
                one = _series(members, METRICS[metric], least)
                name = ", ".join(dict.fromkeys(known[machine].values()))
                others = total - len(members)
                out.append(replace(one, machine=name if others else "", elsewhere=others))
    return out


def _place(machines: list[dict[tuple[int, str], str]], facts: dict[tuple[int, str], str]) -> int:
    """The place of the first machine of which no known fact differs, or of a new one; it learns the facts."""
    for number, known in enumerate(machines):
        if all(known.get(name, fact) == fact for name, fact in facts.items()):
            known.update(facts)
            return number
    machines.append(dict(facts))
    return len(machines) - 1


def _key(cell: Cell) -> tuple[str, ...]:
    """What a cell is: ports and folders do not count, nor what is not set, which older builds do not know."""
    known = ((name, value) for name, value in cell.parameters.items() if name not in _IGNORED)
    return tuple(sorted(f"{n}={canonical(n, value)!r}" for n, value in known if value is not None))


def _series(members: Sequence[tuple[Results, Cell]], metric: Metric, least: float) -> Series:
    newest = members[-1][1]
    metric = metric_for(metric, [cell for _, cell in members])
    points = []
    for run, cell in members:
        values = list(measured(cell, metric).values())
        value = median_interval(values).quantity(metric.unit) if values else Quantity(None, unit=metric.unit)
        path = run.directory.path
        points.append(Point(path.name, str(path), run.started, value))
    known = [(i, math.log(p.value.value)) for i, p in enumerate(points) if p.value.value is not None]
    logs = [value for _, value in known]
    cuts = change_points(logs)
    bounds = [0, *(one.at for one in cuts), len(logs)]
    changes = [
        _change(known[one.at][0], logs[bounds[i] : one.at], logs[one.at : bounds[i + 2]], one.p)
        for i, one in enumerate(cuts)
    ]
    told = tuple(one for one in changes if abs(one.ratio - 1) >= least)
    return Series(newest, metric, tuple(points), told)


def _change(at: int, before: Sequence[float], after: Sequence[float], p: float) -> Change:
    from scipy.special import stdtrit

    difference, half = fmean(after) - fmean(before), 0.0
    if len(set(before)) > 1 or len(set(after)) > 1:
        # Welch's interval; scipy.stats has it too, but takes a second to import.
        parts = [(variance(side) / len(side), len(side) - 1) for side in (before, after)]
        square = sum(part for part, _ in parts)
        freedom = square**2 / sum(part**2 / freedom for part, freedom in parts)
        half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * math.sqrt(square)
    return Change(at, math.exp(difference), math.exp(difference - half), math.exp(difference + half), p)
