"""All advice about a run; that of imported runs and of upserts and ingests stands here too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

from venturi.analysis.advice import Advice, straggler_advice
from venturi.analysis.advice import trials as own
from venturi.analysis.advice.trials import (
    cut_short,
    disturbances,
    failures,
    few,
    instrument,
    no_ceiling,
    over_ceiling,
    skew,
    steady,
    too_short,
    too_wide,
    two_speeds,
    unbalanced,
    unverified,
    weaker,
)
from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import batches_timed, get, quotient
from venturi.analysis.cells.machines import common, in_words, properties
from venturi.analysis.cells.summary import Cell
from venturi.analysis.cells.writes import error_lines, latency, trouble_phrases, troubles
from venturi.analysis.verdict.workers import KEPT_UP
from venturi.analysis.wording import listed
from venturi.common.hdr import batches_for
from venturi.common.units import Quantity, count, percent
from venturi.engine.record import Trial

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.advice.stragglers import Straggler

__all__ = ["advise", "several_servers"]

MOST_NOTES = 5
MOST_SOURCES = 3


def advise_imported(cells: Sequence[Cell], measured: Sequence[Trial]) -> list[Advice]:
    """All warnings of an imported run, the gravest first.

    `venturi run` cannot repeat it, so the next step is another one than for Venturi's own.
    """
    found = [
        _failed(measured),
        _known(measured),
        *_notes(cells),
        _next(own.too_short(cells), "Read them as the cost of starting as much as of moving"),
        _next(own.two_speeds(cells), "Look at when and where each was made"),
        _next(own.too_wide(cells), "Compare medians of many cells, not one cell with another"),
        _next(own.few(cells), "A margin needs repeats made with that tool"),
    ]
    return [advice for advice in found if advice is not None]


def _next(advice: Advice | None, text: str) -> Advice | None:
    return None if advice is None else replace(advice, next=text)


def _failed(measured: Sequence[Trial]) -> Advice | None:
    failed = [r for r in measured if r.outcome != "ok"]
    if not failed:
        return None
    return Advice(
        "failed",
        f"{len(failed)} of {len(measured)} imported trials failed",
        "their tool says so, or its output ends early; no figure counts them",
        "See the messages under failed trials",
    )


def _known(measured: Sequence[Trial]) -> Advice:
    sources = list(dict.fromkeys(r.imported.source or "another tool" for r in measured))
    named = ", ".join(sources[:MOST_SOURCES])
    if len(sources) > MOST_SOURCES:
        named += f" and {len(sources) - MOST_SOURCES} more"
    return Advice(
        "imported",
        f"measured by {named}, not by Venturi",
        "nothing is known of verification, ceilings and stages, and of the hosts only what the source tells",
        "What each figure means to its tool is in docs/import.md",
    )


def _notes(cells: Sequence[Cell]) -> list[Advice]:
    """What the importer had to say of single figures."""
    seen: dict[str, tuple[Cell, Trial, int]] = {}
    for cell in cells:
        for record in cell.records:
            if note := record.imported.note:
                first = seen.get(note, (cell, record, 0))
                seen[note] = (first[0], first[1], first[2] + 1)
    out = []
    for note, (cell, record, times) in list(seen.items())[:MOST_NOTES]:
        line = record.imported.line
        where = (record.imported.from_ or "the source") + (f":{line}" if line else "")
        again = f" and {times - 1} more" if times > 1 else ""
        out.append(
            Advice("note", f"{own._label(cell, cells)}: {note}", f"from {where}{again}", "Copied as written")
        )
    if len(seen) > MOST_NOTES:
        out.append(
            Advice(
                "note",
                f"{len(seen) - MOST_NOTES} more figures have a note",
                "only the first are shown",
                'All: `venturi sql RUN "select cell, note from trials where note is not null"`',
            )
        )
    return out


STALL_NS, STALL_TIMES, STALL_PART = 200e6, 20.0, 0.1
"""A batch stood still that took so long (ns: TCP's shortest time-out), so many times what half of all took,
and such a part of the trial."""
BEHIND = 2.0
"""Response over service time from which batches wait longer for their turn than for the answer."""


def errors(cells: Sequence[Cell]) -> Advice | None:
    """Batches that failed in trials that count all the same, because their budget allowed it."""
    good = [r for c in cells for r in c.records]
    found = troubles(good)
    if not found:
        return None
    kinds = error_lines(found)
    cause = (
        f"their kinds, with the first message of each: {'; '.join(kinds)}" if kinds else "they went well then"
    )
    return Advice(
        "errors",
        f"in {found.trials} of {len(good)} good trials {listed(trouble_phrases(found))}",
        cause,
        "Figures count acknowledged rows only; what is in doubt was allowed for in the verification",
    )


def stalled(cells: Sequence[Cell]) -> Advice | None:
    """Trials that count although a batch of them waited for a large part of the trial."""
    good = [(r, c) for c in cells for r in c.records]
    found = [
        (longest, usual, interval, c, half is not None)
        for r, c in good
        if (interval := r.times.interval_ns)
        and (longest := latency(r, "service", "max")) is not None
        and (usual := (half := latency(r, "service", "p50")) or latency(r, "service", "mean")) is not None
        and longest >= max(STALL_NS, STALL_TIMES * usual, STALL_PART * interval)
    ]
    if not found:
        return None
    *times, cell, by_half = max(found, key=lambda one: one[0])
    took, other, whole = (Quantity(ns, unit="ns").text() for ns in times)
    most = f"half of the batches took {other} or less" if by_half else f"a batch took {other} on average"
    return Advice(
        "stalled",
        f"in {len(found)} of {len(good)} good trials a batch stood still for a large part of the trial "
        f"(most: {took} of {whole}, while {most}, {cell.operation})",
        "the server, the path or this machine stopped for that time: a checkpoint, a collection of garbage, "
        "a packet that was sent again after a time-out",
        "The figures hold that time. When it was: `venturi report`, throughput within a trial",
    )


def backlog(cells: Sequence[Cell]) -> Advice | None:
    """The cell of an open loop that fell furthest behind its schedule; None where every rate was held."""
    behind = [(b, c) for c in cells if (b := _behind(c.records)) is not None]
    if not behind:
        return None
    (kept, response, service, unsent), cell = min(behind, key=lambda pair: pair[0][0])
    rate = cell.parameters.get("rate")
    asked = f" of {count(rate)} batches/s" if isinstance(rate, int | float) else ""
    times = [Quantity(v, unit="ns").text() for v in (response, service)]
    return Advice(
        "backlog",
        f"the rate was not held: {percent(kept)}{asked} were done"
        + (f" in {len(behind)} of {len(cells)} cells, at worst" if len(behind) > 1 else "")
        + f", and the response time grew with the backlog ({_figure(cell.records)} {times[0]}, the server's "
        f"part {times[1]})"
        + (f"; {unsent:,.0f} batches of the schedule were never sent" if unsent >= 1 else ""),
        "the rate asked for is above what this setting can do",
        "Response times are those of an overload and grow with the trial's length: lower --rate, or leave it "
        "out to find the most",
    )


def _behind(records: Sequence[Trial]) -> tuple[float, float, float, float] | None:
    """Share of the rate that was kept, response and service time (ns), slots never sent: medians; None where
    the rate was held, or nobody knows."""
    if not any(r.schedule.rate for r in records):
        return None
    figure = _figure(records)
    found = [one for r in records if (one := _of(r, figure)) is not None]
    if not found:
        return None
    kept, response, service, unsent = (median(values) for values in zip(*found, strict=True))
    return (kept, response, service, unsent) if kept < KEPT_UP and response >= BEHIND * service else None


def _figure(records: Sequence[Trial]) -> str:
    """By which latency a backlog is told: the tail, where enough batches were timed for one."""
    timed = batches_timed(records)
    return "p99" if timed is None or timed >= batches_for(99.0) else "mean"


def slots(record: Trial) -> tuple[float, float, float] | None:
    """Of an open loop's schedule: share of the slots met late, by how much at most (ns), slots never met.
    None for a closed loop."""
    intended = record.schedule.intended
    if not intended:
        return None
    late = (record.schedule.late or 0.0) / intended
    return late, record.schedule.max_lag_ns or 0.0, _unsent(record)


def _unsent(record: Trial) -> float:
    failed = troubles([record])
    tried = (record.counts.batches or 0.0) + failed.refused + failed.in_doubt
    return max(0.0, (record.schedule.intended or 0.0) - tried)


def _of(record: Trial, figure: str) -> tuple[float, float, float, float] | None:
    rate, batches = record.schedule.rate, record.counts.batches
    done = quotient(batches, record.times.interval_ns, 1e9)
    response, service = (latency(record, kind, figure) for kind in ("response", "service"))
    if not rate or done is None or response is None or not service:
        return None
    return done / rate, response, service, _unsent(record)


def late(measured: Sequence[Trial]) -> Advice | None:
    """Slots met late, in whatever way: a client or a server that stalled now and then."""
    found = [
        (share, r.schedule.max_lag_ns or 0.0)
        for r in measured
        if (share := quotient(r.schedule.late, r.schedule.intended)) and share > 0.01
    ]
    if not found:
        return None
    share, lag = max(found)
    return Advice(
        "late",
        f"up to {percent(share)} of the batches were sent late (by {lag / 1e6:,.1f} ms at most)",
        "the rate asked for is above what this setting can do",
        "Read response times as overload, or lower --rate",
    )


def advise(
    cells: Sequence[Cell],
    records: Sequence[Trial],
    probes: Sequence[Mapping[str, Any]],
    samples: Callable[[str], pa.Table] | None = None,
    stragglers: Sequence[Straggler] = (),
    command: Sequence[str] | None = None,
) -> list[Advice]:
    """All warnings of a run that `command` made, the gravest first.

    `samples` reads the counters of a trial; it is asked only where the records hold no summary of them.
    """
    measured = [r for r in records if not r.warmup]
    if measured and all(r.imported.source for r in measured):
        return advise_imported(cells, measured)
    found = [
        *failures(measured, command),
        errors(cells),
        stalled(cells),
        unverified(cells),
        weaker(cells),
        *disturbances(cells, measured, samples),
        unbalanced(measured),
        instrument(cells),
        over_ceiling(cells),
        straggler_advice.advise(stragglers, cells, probes),
        steady(cells),
        too_short(cells),
        cut_short(cells),
        skew(cells),
        two_speeds(cells),
        too_wide(cells),
        backlog(cells) or late(measured),
        no_ceiling(cells, probes),
        few(cells),
    ]
    return [advice for advice in found if advice is not None]


# ---- several servers

_NAMED = 3
"""More properties, or servers with a value, are counted and not named."""


def several_servers(environment: Mapping[str, Any]) -> list[Advice]:
    """Warnings about each place with several servers: hosts that differ, servers that report nothing."""
    found = []
    for place, told in machines.servers_by_place(environment).items():
        found += [a for a in (_unlike(place, told), _silent(place, told)) if a is not None]
    return found


def _unlike(place: str, told: Mapping[str, Mapping[str, Any] | None]) -> Advice | None:
    known = {address: one for address, one in told.items() if one}
    differing = []
    for name, path, weight in _properties(list(known.values())):
        values = [(address, v) for address, one in known.items() if (v := get(one, *path)) is not None]
        if weight == "note" or not isinstance(common(name, [value for _, value in values]), tuple):
            continue
        groups: dict[str, list[str]] = {}
        for address, value in values:
            groups.setdefault(in_words(name, value), []).append(address)
        differing.append(f"{name} " + ", ".join(f"{value} ({_few(at)})" for value, at in groups.items()))
    if not differing:
        return None
    more = len(differing) - _NAMED
    shown = differing[:_NAMED] + ([f"and {more} more"] if more > 0 else [])
    return Advice(
        "unlike-servers",
        f"the servers of {place} differ: {'; '.join(shown)}",
        "streams take them in turn, so each has as many, whatever its host can do",
        "Read such figures as those of unlike hosts, or run it again with servers on hosts that are alike",
    )


def _properties(known: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], str]]:
    """What is compared: as of two runs, and the settings that servers were started with."""
    settings = dict.fromkeys(name for one in known for name in one.get("settings") or {})
    return [*properties(known), *((name, ("settings", name), "matters") for name in settings)]


def _silent(place: str, told: Mapping[str, Mapping[str, Any] | None]) -> Advice | None:
    silent = [address for address, one in told.items() if not one]
    if not silent:
        return None
    tell = "tells nothing of itself" if len(silent) == 1 else "tell nothing of themselves"
    return Advice(
        "silent-servers",
        f"{len(silent)} of {len(told)} servers of {place} {tell} ({_few(silent)})",
        "no `venturi serve` answered there when the run began",
        "What the servers' CPUs and stages did is known only where all of them tell it: "
        "start `venturi serve` on each",
    )


def _few(addresses: Sequence[str]) -> str:
    return listed(addresses) if len(addresses) <= _NAMED else f"{len(addresses)} servers"
