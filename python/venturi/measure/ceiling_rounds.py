"""The physical limits measured between the trials of each round, so that a trial and what it is held against
meet the same moment of the machine; docs/ceilings.md.

Probes take a fifth of the trials' time at most. Raw sockets and pipes move with the moment, and are probed
right after the first trial of the round that is held against them; what moves slowly (memory, disk, codecs,
the engine) at the end of the round, as far as time is left, in turn.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable

from venturi.analysis.cells.probed import IDENTITY, alone
from venturi.common.units import percent
from venturi.engine.executor import Executor
from venturi.measure import ceilings
from venturi.measure.ceiling_probes import SECONDS, SOCKETS, Probe, Prober, cost, least, probes
from venturi.measure.trial_targets import Endpoints
from venturi.plan.cell import Cell
from venturi.store.writer import RunWriter
from venturi.targets.system import is_shared

__all__ = ["LEAST", "SHARE", "ProbeTime", "RoundProbes"]

SHARE = 0.2
"""Of the trials' time, for probes."""
OVER_LINKS = 0.5
"""Of trials over links: there raw TCP takes its time too until it is as fast as the path."""
LEAST = 0.5
"""Seconds that probes may take in any case: trials of milliseconds would have nothing to be held against."""
FIRST = 0.75
"""Of a trial's part of that time, for the raw TCP that it is held against."""
SHORTEST = 0.045
"""Seconds of a raw TCP probe, of all placements together: 15 ms each, where 1 to 4 connections read within a
few percent of what they do in 50 ms; in 3 ms they read a fifth less."""


class ProbeTime:
    """The seconds that probes may still take: a part of what trials took; all there are of an executor that
    measures nothing."""

    def __init__(self, limited: bool, share: float = SHARE) -> None:
        self.limited, self.share = limited, share
        self.trials = self.probes = 0.0
        """Spent on each."""

    @property
    def left(self) -> float:
        return max(LEAST, self.share * self.trials) - self.probes if self.limited else math.inf


class RoundProbes:
    """Use as a context manager around the trials; which it is told of as they begin and end."""

    def __init__(
        self,
        endpoints: Endpoints,
        executor: Executor,
        writer: RunWriter,
        note: ceilings.Note,
        guard: ceilings.Guard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._stack = contextlib.ExitStack()
        prober = Prober(executor, endpoints, self._stack)
        self._probing = ceilings.Probing(prober, executor.control, writer, note, guard)
        # What a model answers takes no time, and must not depend on any.
        wanted = probes(endpoints.cells, writer.path, endpoints.servers)
        over_links = any(probe.link is not None for probe in wanted)
        self.time = ProbeTime(executor.measures, OVER_LINKS if over_links else SHARE)
        self._others = [probe for probe in wanted if not _follows(probe)]
        self._beside = {
            cell.id: [p for p in probes([cell], writer.path, endpoints.servers) if _follows(p)]
            for cell in endpoints.cells
        }
        self._through_memory = any(is_shared(str(cell.parameters["target"])) for cell in endpoints.cells)
        """Whether copies in memory are what some trials are held against, as others are against sockets."""
        self._done: dict[Probe, int] = dict.fromkeys(self._others, 0)
        self._cost = {probe: cost(probe) for probe in self._others}
        self._there: set[tuple[object, ...]] = set()
        by_key = {probe.key: probe for probe in wanted}
        for line in writer.read().ceiling_records():
            if line.get("round") is not None:
                key = tuple(line.get(name) for name in IDENTITY)
                self._there.add((*key, line["round"]))
                if key in by_key and by_key[key] in self._done:
                    self._done[by_key[key]] += 1
        self._began = 0.0
        self._round: int | None = None
        """That of a good trial since the last one ended."""
        self._late: dict[Probe, None] = {}
        """Wanted by a trial of it, when there was no time."""
        if executor.measures and wanted:
            part = percent(self.time.share)
            note("info", f"ceilings in every round, {part} of the trials' time: {ceilings.listed(wanted)}")

    def __enter__(self) -> RoundProbes:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def trial_begins(self) -> None:
        self._began = self._clock()

    def trial_ended(self, cell: Cell, number: int | None, good: bool) -> None:
        """Probes what the trial is held against; `number` is its round, None for a warm-up."""
        took = self._clock() - self._began
        self.time.trials += took
        if number is None or not good:
            return
        self._round = number
        for probe in self._beside.get(cell.id, ()):
            if (*probe.key, number) in self._there:
                continue
            length = SECONDS[probe.kind]
            if self.time.limited:
                # The round's others need their time as well.
                spare = self.time.left - SHORTEST * (self._wanted(number) - 1)
                length = min(length, max(SHORTEST, min(FIRST * self.time.share * took, spare)))
            if not self._take(probe, number, length, max(length, least(probe))):
                self._late[probe] = None

    def round_ended(self) -> None:
        """Probes what is still to be had of the round: first raw TCP for which there was no time, then what
        was measured least often."""
        number, self._round = self._round, None
        if number is None:
            return
        for probe in self._late:
            self._take(probe, number, SHORTEST, max(SHORTEST, least(probe)))
        self._late.clear()
        for probe in sorted(self._others, key=self._turn):
            if self.time.left < self._cost[probe]:
                # It is saved for: those that take less must not take its time again and again.
                break
            if self._take(probe, number, None, self._cost[probe]):
                self._done[probe] += 1

    def _turn(self, probe: Probe) -> tuple[float, ...]:
        """Where it stands in the order of those that are probed as far as time is left."""
        limits = self._through_memory and probe.kind == "memory"
        return self._done[probe], not limits, self._cost[probe]

    def _wanted(self, number: int) -> int:
        """How many raw TCP probes this round may still ask for."""
        keys = {probe.key for found in self._beside.values() for probe in found}
        return sum((*key, number) not in self._there for key in keys)

    def _take(self, probe: Probe, number: int, length: float | None, needs: float) -> bool:
        """Whether it was probed now; not where it was already, or where that takes longer than may be."""
        at = (*probe.key, number)
        if at in self._there or self.time.left < needs or self._probing.has_failed(probe):
            return False
        began = self._clock()
        line = self._probing.take(probe, 0, length, number)
        took = self._clock() - began
        self.time.probes += took
        if probe in self._cost:
            self._cost[probe] = took
        if line is not None:
            self._there.add(at)
        return line is not None


def _follows(probe: Probe) -> bool:
    """Whether it moves with the moment, and is what a trial is held against."""
    return probe.kind == "pipe" or (probe.kind in SOCKETS and not alone(probe.name))
