"""What is missing where no proof holds, each as a hit of its own."""

from __future__ import annotations

from venturi.analysis.cells.figures import CALLS, numeric
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof.cores import embedded
from venturi.analysis.verdict.proof.ends import awaited, server_or_path
from venturi.analysis.verdict.proof.hit import Diagnosis

BRIEF = 100e6
"""Ten of the kernel's ticks (ns): below, shares of a host's CPU time would be chance (docs/format.md)."""
START = 0.3
"""Where the first batches take more of the interval than this, starting is what was measured."""


def unknown(seen: CellEvidence) -> list[Diagnosis]:
    """At least one, the gravest first."""
    cell, client, server = seen.cell, seen.client, seen.server
    found: list[Diagnosis] = []
    # What the other end of a plugin or a driver is, and what lies between, is its own matter.
    plugged = not client.stages.keys().isdisjoint(CALLS)

    def add(cause: Cause, **numbers: float) -> None:
        found.append(Diagnosis(cause, None, None, 0.0, numbers))

    if not seen.trials:
        add(Cause.NO_GOOD_TRIAL)
        return found
    if not client.stages and client.busy is None:
        add(Cause.NOTHING_RECORDED)
        return found
    if seen.start is not None and seen.start > START:
        add(Cause.START_MEASURED, start=seen.start)
    if client.busy is None and client.cpu is not None and (brief := _brief(cell)) is not None:
        add(Cause.TOO_SHORT, interval_ns=brief)
    elif client.busy is None:
        add(Cause.HOSTS_UNSEEN)
    if server_or_path(seen):
        add(Cause.SERVER_OR_PATH, waiting=awaited(client))
    if cell.in_rows and not server.stages and server.cpu is None and not embedded(seen):
        add(Cause.SERVER_UNSEEN)
    elif not cell.in_rows and not server.stages and not plugged:
        add(
            Cause.SERVER_SILENT,
            servers=max((numeric(r, "target", "servers") or 1 for r in cell.records), default=1),
        )
    unmeasured = seen.of("raw TCP") is None and seen.loopback is not True and seen.over is None
    if not cell.in_rows and unmeasured and not plugged:
        add(Cause.RAW_TCP_UNMEASURED)
    if not found:
        add(Cause.NOTHING_AT_ITS_LIMIT)
    return found


def _brief(cell: Cell) -> float | None:
    """The median interval (ns) of trials that were sampled, but for less than the CPUs' clocks tell apart."""
    sampled = [r for r in cell.records if r.get("resources")]
    times = sorted(t for r in sampled if (t := numeric(r, "times", "interval_ns")) is not None)
    return times[len(times) // 2] if times and times[len(times) // 2] < BRIEF else None
