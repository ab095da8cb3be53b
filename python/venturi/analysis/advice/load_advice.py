"""Warnings of batches that a server refused or left without an answer, and of a rate that was not held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from venturi.analysis.advice import Advice
from venturi.analysis.cells.figures import Record, batches_timed, numeric, quotient
from venturi.analysis.cells.summary import Cell
from venturi.analysis.cells.writes import error_lines, latency, trouble_phrases, troubles
from venturi.analysis.verdict.workers import KEPT_UP
from venturi.analysis.wording import listed
from venturi.common.hdr import batches_for
from venturi.common.units import Quantity, count, percent

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
        if (interval := numeric(r, "times", "interval_ns"))
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


def _behind(records: Sequence[Record]) -> tuple[float, float, float, float] | None:
    """Share of the rate that was kept, response and service time (ns), slots never sent: medians; None where
    the rate was held, or nobody knows."""
    if not any(numeric(r, "schedule", "rate") for r in records):
        return None
    figure = _figure(records)
    found = [one for r in records if (one := _of(r, figure)) is not None]
    if not found:
        return None
    kept, response, service, unsent = (median(values) for values in zip(*found, strict=True))
    return (kept, response, service, unsent) if kept < KEPT_UP and response >= BEHIND * service else None


def _figure(records: Sequence[Record]) -> str:
    """By which latency a backlog is told: the tail, where enough batches were timed for one."""
    timed = batches_timed(records)
    return "p99" if timed is None or timed >= batches_for(99.0) else "mean"


def slots(record: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Of an open loop's schedule: share of the slots met late, by how much at most (ns), slots never met.
    None for a closed loop."""
    intended = numeric(record, "schedule", "intended")
    if not intended:
        return None
    late = (numeric(record, "schedule", "late") or 0.0) / intended
    return late, numeric(record, "schedule", "max_lag_ns") or 0.0, _unsent(record)


def _unsent(record: Mapping[str, Any]) -> float:
    failed = troubles([record])
    tried = (numeric(record, "counts", "batches") or 0.0) + failed.refused + failed.in_doubt
    return max(0.0, (numeric(record, "schedule", "intended") or 0.0) - tried)


def _of(record: Mapping[str, Any], figure: str) -> tuple[float, float, float, float] | None:
    rate, batches = numeric(record, "schedule", "rate"), numeric(record, "counts", "batches")
    done = quotient(batches, numeric(record, "times", "interval_ns"), 1e9)
    response, service = (latency(record, kind, figure) for kind in ("response", "service"))
    if not rate or done is None or response is None or not service:
        return None
    return done / rate, response, service, _unsent(record)


def late(measured: Sequence[Mapping[str, Any]]) -> Advice | None:
    """Slots met late, in whatever way: a client or a server that stalled now and then."""
    found = [
        (share, numeric(r, "schedule", "max_lag_ns") or 0.0)
        for r in measured
        if (share := quotient(numeric(r, "schedule", "late"), numeric(r, "schedule", "intended")))
        and share > 0.01
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
