"""What one cell cannot know of itself and its sweep can: whether having more in flight moved more.

Where neither end is busy, batches may be too few, or they may queue before a lock or a log within the server.
A cell with fewer in flight that does as much settles it. A server that uses one core may have one stream to
serve, or may never use more: that it does so with several streams, and moves no more, settles that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from venturi.analysis.cells.figures import numeric
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.proof.cores import ONE_CORE
from venturi.analysis.verdict.types import Remedy, Verdict, VerdictText
from venturi.analysis.verdict.words import databases, hits
from venturi.analysis.verdict.words.remedies import told
from venturi.analysis.words.wording import nouns_of

FEWER = 1.5
"""So many times fewer batches in flight make a cell one to compare with."""
NO_MORE = 0.05
"""A gain up to this share is none: the machine alone may do that."""
IN_PROPORTION = 0.5
"""Of what more in flight would gain in proportion: where it surely gains less, the rest queues."""
NO_MORE_CPU = 0.1
"""A difference of its CPU time up to this share is none: threads that take turns cost a little."""
_LANES = ("streams", "threads", "in_flight")


def against_others(cells: Sequence[Cell], found: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """These verdicts, as far as cells with more or fewer in flight, all else equal, do not correct them."""
    out = dict(found)
    causes = (Cause.LITTLE_IN_FLIGHT, Cause.SERVER_WAITED_FOR)
    asked = [c for c in cells if c.name in out and out[c.name].cause in causes]
    if not asked:
        return out
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(_others(cell), []).append(cell)
    for cell in asked:
        if found[cell.name].cause is Cause.SERVER_WAITED_FOR:
            alike = [c for c in groups[_others(cell)] if lanes(c) != lanes(cell) and _serial(c, cell, found)]
            if alike:
                other = max(alike, key=lambda c: abs(lanes(c) - lanes(cell)))
                out[cell.name] = _one_core(out[cell.name], cell, other, found[other.name])
            continue
        if not cell.answered:
            continue
        fewer = [c for c in groups[_others(cell)] if lanes(c) * FEWER <= lanes(cell) and _queues(c, cell)]
        if fewer:
            out[cell.name] = _limited(out[cell.name], cell, max(fewer, key=lanes))
    return out


def lanes(cell: Cell) -> float:
    """Batches in flight at a time."""
    return float(cell.parameters.get("streams") or 1) * float(cell.parameters.get("in_flight") or 1)


def _others(cell: Cell) -> str:
    return repr(sorted((k, repr(v)) for k, v in cell.parameters.items() if k not in _LANES))


def _as_much(fewer: Cell, more: Cell) -> bool:
    one, two = fewer.main.value, more.main.value
    return one is not None and two is not None and one > 0 and two <= (1 + NO_MORE) * one


def _queues(fewer: Cell, more: Cell) -> bool:
    """Whether most of what more has in flight queues: it does as much, or surely little more."""
    one, two = fewer.main, more.main
    if _as_much(fewer, more):
        return True
    if not one.low or two.high is None:
        return False
    return two.high / one.low - 1 < IN_PROPORTION * (lanes(more) / lanes(fewer) - 1)


def _serial(one: Cell, other: Cell, found: Mapping[str, Verdict]) -> bool:
    """Whether the server uses about one core with either number of streams, and moves as much."""
    fewer, more = sorted((one, other), key=lanes)
    verdicts = [found[c.name] for c in (one, other) if c.name in found]
    used = [v.numbers.get("cpu_cores", 0.0) for v in verdicts if v.cause is Cause.SERVER_WAITED_FOR]
    least, most = ONE_CORE
    alike = len(used) == 2 and least <= min(used) and max(used) <= min(most, (1 + NO_MORE_CPU) * min(used))
    return alike and _as_much(fewer, more)


def _one_core(verdict: Verdict, cell: Cell, other: Cell, others: Verdict) -> Verdict:
    cause = Cause.SERIAL_SERVER
    numbers = {
        "cpu_cores": verdict.numbers["cpu_cores"],
        "streams": lanes(cell),
        "other_cpu_cores": others.numbers["cpu_cores"],
        "other_streams": lanes(other),
    }

    def revise(before: VerdictText) -> VerdictText:
        nouns = nouns_of(cell)
        profile = told(Remedy(RemedyKind.PROFILE_SERVER), nouns)
        return replace(
            before, lines=databases.serial(numbers, nouns), remedies=(profile, *_others_than_lanes(before))
        )

    return verdict.revised(revise, cause=cause, title=hits.TITLES[cause], numbers=numbers)


def _limited(verdict: Verdict, cell: Cell, fewer: Cell) -> Verdict:
    numbers = {"batches_in_flight": lanes(cell), "fewer_in_flight": lanes(fewer)}
    if fewer.main.value and cell.main.value:
        gain = cell.main.value / fewer.main.value - 1
        numbers |= {"gain": gain} if abs(gain) > NO_MORE else {}
    for name, one in (("batch_ns", cell), ("fewer_batch_ns", fewer)):
        took = [t for r in one.records if (t := numeric(r, "latency", "service", "mean")) is not None]
        numbers |= {name: sum(took) / len(took)} if took else {}
    cause = Cause.SERVER_LIMIT

    def revise(before: VerdictText) -> VerdictText:
        lines = databases.limit(numbers, fewer.main)
        return replace(before, lines=lines, remedies=_others_than_lanes(before))

    return verdict.revised(
        revise,
        kind=cause.kind,
        cause=cause,
        end="server",
        stage=None,
        title=hits.TITLES[cause],
        numbers=numbers,
    )


def _others_than_lanes(told: VerdictText) -> tuple[Remedy, ...]:
    """Remedies that put no more and no fewer batches in flight."""
    return tuple(r for r in told.remedies if not set(r.changes) & set(_LANES))
