"""All advice about a run, also an imported one: backlogs, stalls, notes and servers that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from venturi.analysis.advice import Advice, trials
from venturi.analysis.advice.stragglers import Straggler
from venturi.analysis.advice.stragglers import advise as slow_hosts
from venturi.analysis.advice.trials import Warnings, cell_label, good_trials
from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import batches_timed, by_key, get, quotient
from venturi.analysis.cells.machines import common, in_words, properties
from venturi.analysis.cells.summary import Cell
from venturi.analysis.cells.writes import error_lines, latency, trouble_phrases, troubles
from venturi.analysis.verdict.workers import KEPT_UP
from venturi.analysis.wording import listed
from venturi.common.hdr import batches_for
from venturi.common.units import Quantity, count, percent
from venturi.engine.record import Trial, is_imported

MOST_NOTES = 5
MOST_SOURCES = 3
STALL_NS, STALL_TIMES, STALL_PART = 200e6, 20.0, 0.1
"""A batch stood still that took so long (ns: TCP's shortest time-out), so many times what half of all took,
and such a part of the trial."""
BEHIND = 2.0
"""Response over service time from which batches wait longer for their turn than for the answer."""
_NAMED = 3
"""More properties, or servers with a value, are counted and not named."""


def advise(
    cells: Sequence[Cell],
    records: Sequence[Trial],
    probes: Sequence[Mapping[str, Any]],
    stragglers: Sequence[Straggler] = (),
    command: Sequence[str] | None = None,
) -> list[Advice]:
    """All warnings of a run that `command` made, the gravest first."""
    measured = [r for r in records if not r.warmup]
    if measured and all(map(is_imported, measured)):
        return [*_imported(cells, measured)]
    behind = slow_hosts(stragglers, cells, probes)
    return [
        *trials.failures(measured, command),
        *errors(cells),
        *stalled(cells),
        *trials.unverified(cells),
        *trials.weaker(cells),
        *trials.disturbances(cells, measured),
        *trials.unbalanced(measured),
        *trials.instrument(cells),
        *trials.over_ceiling(cells),
        *([behind] if behind else []),
        *trials.steady(cells),
        *trials.too_short(cells),
        *trials.cut_short(cells),
        *trials.skew(cells),
        *trials.two_speeds(cells),
        *trials.too_wide(cells),
        *([*backlog(cells)] or late(measured)),
        *trials.no_ceiling(cells, probes),
        *trials.few(cells),
    ]


# ---- imported runs, which `venturi run` cannot repeat: the next step is another one


def _imported(cells: Sequence[Cell], measured: Sequence[Trial]) -> Iterator[Advice]:
    if failed := sum(r.outcome != "ok" for r in measured):
        yield Advice(
            "failed",
            f"{failed} of {len(measured)} imported trials failed",
            "their tool says so, or its output ends early; no figure counts them",
            "See the messages under failed trials",
        )
    sources = list(dict.fromkeys(str(r.imported.source or "another tool") for r in measured))
    more = f" and {len(sources) - MOST_SOURCES} more" if len(sources) > MOST_SOURCES else ""
    yield Advice(
        "imported",
        f"measured by {', '.join(sources[:MOST_SOURCES])}{more}, not by Venturi",
        "nothing is known of verification, ceilings and stages, and of the hosts only what the source tells",
        "What each figure means to its tool is in docs/import.md",
    )
    yield from _notes(cells)
    for warnings, step in (
        (trials.too_short, "Read them as the cost of starting as much as of moving"),
        (trials.two_speeds, "Look at when and where each was made"),
        (trials.too_wide, "Compare medians of many cells, not one cell with another"),
        (trials.few, "A margin needs repeats made with that tool"),
    ):
        yield from (replace(advice, next=step) for advice in warnings(cells))


def _notes(cells: Sequence[Cell]) -> Warnings:
    """What the importer had to say of single figures."""
    seen = by_key(
        (note, (record, cell)) for record, cell in good_trials(cells) if (note := record.imported.note)
    )
    for note, found in list(seen.items())[:MOST_NOTES]:
        record, cell = found[0]
        line = record.imported.line
        source = str(record.imported.from_ or "the source") + (f":{line}" if line else "")
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        yield Advice(
            "note", f"{cell_label(cell, cells)}: {note}", f"from {source}{more}", "Copied as written"
        )
    if len(seen) > MOST_NOTES:
        yield Advice(
            "note",
            f"{len(seen) - MOST_NOTES} more figures have a note",
            "only the first are shown",
            'All: `venturi sql RUN "select cell, note from trials where note is not null"`',
        )


# ---- errors, stalls and backlogs


def errors(cells: Sequence[Cell]) -> Warnings:
    """Batches that failed in trials that count all the same, because their budget allowed it."""
    good = [r for r, _ in good_trials(cells)]
    if found := troubles(good):
        kinds = "; ".join(error_lines(found))
        yield Advice(
            "errors",
            f"in {found.trials} of {len(good)} good trials {listed(trouble_phrases(found))}",
            f"their kinds, with the first message of each: {kinds}" if kinds else "they went well then",
            "Figures count acknowledged rows only; what is in doubt was allowed for in the verification",
        )


def stalled(cells: Sequence[Cell]) -> Warnings:
    """Trials that count although a batch of them waited for a large part of the trial."""
    good = list(good_trials(cells))
    found = [
        (longest, usual, interval, c, half is not None)
        for r, c in good
        if (interval := r.times.interval_ns)
        and (longest := latency(r, "service", "max")) is not None
        and (usual := (half := latency(r, "service", "p50")) or latency(r, "service", "mean")) is not None
        and longest >= max(STALL_NS, STALL_TIMES * usual, STALL_PART * interval)
    ]
    if found:
        *times, cell, by_half = max(found, key=lambda one: one[0])
        took, usually, whole = (Quantity(ns, unit="ns").text() for ns in times)
        most = (
            f"half of the batches took {usually} or less" if by_half else f"a batch took {usually} on average"
        )
        yield Advice(
            "stalled",
            f"in {len(found)} of {len(good)} good trials a batch stood still for a large part of the trial "
            f"(most: {took} of {whole}, while {most}, {cell.operation})",
            "the server, the path or this machine stopped for that time: a checkpoint, a collection of "
            "garbage, a packet that was sent again after a time-out",
            "The figures hold that time. When it was: `venturi report`, throughput within a trial",
        )


def backlog(cells: Sequence[Cell]) -> Warnings:
    """The cell of an open loop that fell furthest behind its schedule, unless every rate was held."""
    behind = [(b, c) for c in cells if (b := _behind(c.records)) is not None]
    if not behind:
        return
    (kept, response, service, unsent), cell = min(behind, key=lambda pair: pair[0][0])
    rate = cell.parameters.get("rate")
    asked = f" of {count(rate)} batches/s" if isinstance(rate, int | float) else ""
    times = [Quantity(v, unit="ns").text() for v in (response, service)]
    yield Advice(
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
    figure = _figure(records)
    found = [one for r in records if (one := _schedule_kept(r, figure)) is not None]
    if not found:
        return None
    kept, response, service, unsent = (median(values) for values in zip(*found, strict=True))
    return (kept, response, service, unsent) if kept < KEPT_UP and response >= BEHIND * service else None


def _figure(records: Sequence[Trial]) -> str:
    """By which latency a backlog is reported: the tail, where enough batches were timed for one."""
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


def _schedule_kept(record: Trial, figure: str) -> tuple[float, float, float, float] | None:
    rate, batches = record.schedule.rate, record.counts.batches
    done = quotient(batches, record.times.interval_ns, 1e9)
    response, service = (latency(record, kind, figure) for kind in ("response", "service"))
    if not rate or done is None or response is None or not service:
        return None
    return done / rate, response, service, _unsent(record)


def late(measured: Sequence[Trial]) -> Warnings:
    """Slots met late, in whatever way: a client or a server that stalled now and then."""
    found = [met[:2] for r in measured if (met := slots(r)) is not None and met[0] > 0.01]
    if found:
        share, lag = max(found)
        yield Advice(
            "late",
            f"up to {percent(share)} of the batches were sent late (by {lag / 1e6:,.1f} ms at most)",
            "the rate asked for is above what this setting can do",
            "Read response times as overload, or lower --rate",
        )


# ---- several servers


def several_servers(environment: Mapping[str, Any]) -> list[Advice]:
    """Warnings about each place with several servers: hosts that differ, servers that report nothing."""
    places = machines.servers_by_place(environment).items()
    return [advice for place, it in places for advice in (*_unlike(place, it), *_silent(place, it))]


def _unlike(place: str, servers: Mapping[str, Mapping[str, Any] | None]) -> Warnings:
    known = {address: one for address, one in servers.items() if one}
    # What is compared: as of two runs, and the settings that servers were started with.
    settings = dict.fromkeys(name for one in known.values() for name in one.get("settings") or {})
    compared = [*properties(list(known.values())), *((n, ("settings", n), "matters") for n in settings)]
    differing = []
    for name, path, weight in compared:
        values = [(address, v) for address, one in known.items() if (v := get(one, *path)) is not None]
        if weight == "note" or not isinstance(common(name, [value for _, value in values]), tuple):
            continue
        groups = by_key((in_words(name, value), address) for address, value in values)
        differing.append(f"{name} " + ", ".join(f"{value} ({_few(at)})" for value, at in groups.items()))
    if differing:
        more = len(differing) - _NAMED
        shown = differing[:_NAMED] + ([f"and {more} more"] if more > 0 else [])
        yield Advice(
            "unlike-servers",
            f"the servers of {place} differ: {'; '.join(shown)}",
            "streams take them in turn, so each has as many, whatever its host can do",
            "Read such figures as those of unlike hosts, or run again with servers on hosts that are alike",
        )


def _silent(place: str, servers: Mapping[str, Mapping[str, Any] | None]) -> Warnings:
    if silent := [address for address, one in servers.items() if not one]:
        tell = "tells nothing of itself" if len(silent) == 1 else "tell nothing of themselves"
        yield Advice(
            "silent-servers",
            f"{len(silent)} of {len(servers)} servers of {place} {tell} ({_few(silent)})",
            "no `venturi serve` answered there when the run began",
            "What the servers' CPUs and stages did is known only where all of them tell it: "
            "start `venturi serve` on each",
        )


def _few(addresses: Sequence[str]) -> str:
    return listed(addresses) if len(addresses) <= _NAMED else f"{len(addresses)} servers"
