"""The physical limits that results are set against: measured before the trials of a run, and between the
trials of each round, so that a trial and its limit meet the same moment of the machine; docs/ceilings.md.

Only what the run's cells need is probed. What was probed within the last hour, under the same boot and
configuration, is reused. Probes take a fifth of the trials' time at most. Raw sockets and pipes move with
the moment, and are probed right after the first trial of the round that is held against them; what moves
slowly (memory, disk, codecs, the engine) at the end of the round, as far as time is left, in turn.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from venturi.analysis.cells.probes import IDENTITY, is_single_link
from venturi.common.environment import ServerEnvironments
from venturi.common.suffixes import format_duration
from venturi.common.texts import Note
from venturi.common.units import percent
from venturi.engine.executor import Executor, TrialControl
from venturi.measure.ceiling_probes import (
    NAMES,
    REPEATS,
    SECONDS,
    SOCKETS,
    Probe,
    Prober,
    cost,
    foreign,
    least,
    probes,
    seconds,
)
from venturi.measure.machine_cache import CeilingCache
from venturi.measure.trial_targets import Endpoints
from venturi.plan.cell import Cell
from venturi.store.writer import RunWriter
from venturi.targets.system import is_shared
from venturi.targets.urls import split_url

Guard = Callable[[TrialControl | None], bool]
"""Is told of each running probe, and answers whether to go on."""


def cache_key(probe: Probe, peers: Mapping[str, ServerEnvironments]) -> dict[str, Any] | None:
    """What a kept probe must have been measured of. None if that cannot be told: it is measured each time.

    `peers` are the environments that the other ends tell, by place and server.
    """
    key: dict[str, Any] = dict(zip(IDENTITY, probe.key, strict=True))
    key |= {"place": None, "repeats": REPEATS, "seconds": SECONDS[probe.kind]}
    if probe.cell is not None and probe.kind in ("engine", "codec"):
        p = probe.cell.parameters
        key |= {"rows_per_batch": p["rows_per_batch"], "file": _stamp(str(p["data"]))}
    if probe.kind == "disk":
        try:
            key["device"] = os.stat(probe.path or ".").st_dev
        except OSError:
            return None
    if probe.kind in SOCKETS and foreign(probe.url, probe.link is not None):
        peers_there = list((peers.get(str(probe.place)) or {}).values())
        # The address may belong to another machine later, or the machine may have rebooted.
        named_peers = [peer for peer in peers_there if peer and peer.get("boot_id")]
        if not named_peers or len(named_peers) < len(peers_there):
            return None
        address = split_url(probe.url)
        state = [value for peer in named_peers for value in map(peer.get, ("boot_id", "kernel", "software"))]
        key["peer"] = [address.scheme, address.netloc, *state]
    return key


def _stamp(label: str) -> list[int] | None:
    """Size and time of a data file, so that a changed one is measured again."""
    try:
        stat = os.stat(label)
    except (OSError, ValueError):
        return None
    return [stat.st_size, stat.st_mtime_ns]


class Probing:
    """Probes one after the other and stores their lines; what once failed is not tried again."""

    def __init__(
        self, prober: Prober, control: Callable[[], TrialControl], writer: RunWriter, note: Note, guard: Guard
    ) -> None:
        self._prober, self._control, self._writer = prober, control, writer
        self._note, self._guard = note, guard
        self._dropped: set[str] = set()
        self.stopped = False
        """Whether the user wants no more."""

    def has_failed(self, probe: Probe) -> bool:
        return _what(probe) in self._dropped

    def take(
        self, probe: Probe, repeat: int, length: float | None = None, number: int | None = None
    ) -> dict[str, Any] | None:
        """The line of one repeat, in the round of this number; None if nothing is known."""
        if self.stopped or self.has_failed(probe):
            return None
        control = self._control()
        if not self._guard(control):
            self.stopped = True
            return None
        line = self._prober.line(probe, repeat, control, length, number)
        self._guard(None)
        if line["outcome"] == "interrupted":
            self.stopped = True
            return None
        if line["outcome"] != "ok":
            self._dropped.add(_what(probe))
            whose = f"{probe.url}: " if probe.url else ""
            self._note("info", f"{whose}no {_name(probe)} ceiling: {reason(line)}")
            # Our own server should have answered, so its failure is kept too.
            if probe.url and foreign(probe.url, probe.link is not None):
                return None
        self._writer.append_ceiling(line)
        return line


def _what(probe: Probe) -> str:
    return probe.url or f"{probe.kind} {probe.name}"


def measure(
    endpoints: Endpoints,
    executor: Executor,
    writer: RunWriter,
    note: Note,
    guard: Guard,
    peers: Mapping[str, ServerEnvironments] | None = None,
    fresh: bool = False,
) -> None:
    """Probes and stores. `fresh`: nothing is taken from the user's cache."""
    # Other hosts' limits are not kept: another run may be given other hosts.
    on_this_host = executor.measures and not executor.elsewhere
    cache = CeilingCache.of_this_user() if on_this_host else CeilingCache(None, None)
    # A resumed run skips probes already done.
    done = {
        (*(line.get(n) for n in IDENTITY), line["repeat"])
        for line in writer.read().ceiling_records()
        if line.get("round") is None
    }
    wanted = [
        probe
        for probe in probes(endpoints.cells, writer.path, endpoints.servers)
        if any((*probe.key, repeat) not in done for repeat in range(REPEATS))
    ]
    keys = {probe: cache_key(probe, peers or {}) for probe in wanted}
    if not fresh:
        wanted = _from_cache(wanted, keys, cache, writer, done, note)
    if executor.measures and wanted:
        note("info", f"measuring ceilings: {listed(wanted)}; about {format_duration(seconds(wanted) * 1e9)}")
    measured: dict[Probe, list[dict[str, Any]]] = {}
    with contextlib.ExitStack() as stack:
        probing = Probing(Prober(executor, endpoints, stack), executor.control, writer, note, guard)
        for repeat, probe in ((r, p) for r in range(REPEATS) for p in wanted):
            if (*probe.key, repeat) in done:
                continue
            line = probing.take(probe, repeat)
            if probing.stopped:
                return
            if line is not None:
                measured.setdefault(probe, []).append(line)
    for probe, lines in measured.items():
        keep(cache, keys[probe], lines)


def listed(wanted: Sequence[Probe]) -> str:
    """`raw TCP (6), memory copy (2), disk`."""
    kinds = {NAMES[p.kind]: sum(q.kind == p.kind for q in wanted) for p in wanted}
    return ", ".join(f"{name} ({n})" if n > 1 else name for name, n in kinds.items())


def _name(probe: Probe) -> str:
    return (
        f"{NAMES[probe.kind]} {probe.name}"
        if probe.kind == "disk"
        else {"codec": probe.name or ""}.get(probe.kind, NAMES[probe.kind])
    )


def keep(cache: CeilingCache, key: Mapping[str, Any] | None, lines: list[dict[str, Any]]) -> None:
    """Keeps the repeats of a probe where all of them went well."""
    if key is not None and len(lines) == REPEATS and all(line["outcome"] == "ok" for line in lines):
        cache.put(key, lines)


def _from_cache(
    wanted: list[Probe],
    keys: Mapping[Probe, Mapping[str, Any] | None],
    cache: CeilingCache,
    writer: RunWriter,
    done: set[tuple[Any, ...]],
    note: Callable[[str, str], None],
) -> list[Probe]:
    """Stores what is known from before; returns what is still to be measured."""
    missing, ages = [], []
    for probe in wanted:
        key = keys[probe]
        lines = cache.get(key) if key is not None else []
        # Old and new repeats together would mix two states of the machine.
        if len(lines) != REPEATS or any((*probe.key, repeat) in done for repeat in range(REPEATS)):
            missing.append(probe)
            continue
        for repeat, line in enumerate(lines):
            identity = dict(zip(IDENTITY, probe.key, strict=True))
            writer.append_ceiling({**line, **identity, "repeat": repeat, "cached": True})
        ages.append(time.time_ns() - min(line["measured_unix_ns"] for line in lines))
    if ages:
        age = format_duration(max(ages))
        text = f"{len(ages)} of {len(wanted)} limits are used again, measured up to {age} ago"
        note("info", f"{text}; --fresh-ceilings measures them now")
    return missing


def reason(line: Mapping[str, Any]) -> str:
    """Why a probe failed, in one line."""
    error = line["error"]
    return str(error.get("message")) if isinstance(error, Mapping) else str(error)


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
        note: Note,
        guard: Guard,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._stack = contextlib.ExitStack()
        prober = Prober(executor, endpoints, self._stack)
        self._probing = Probing(prober, executor.control, writer, note, guard)
        # What a model answers takes no time, and must not depend on any.
        wanted = probes(endpoints.cells, writer.path, endpoints.servers)
        over_links = any(probe.link is not None for probe in wanted)
        self.time = ProbeTime(executor.measures, OVER_LINKS if over_links else SHARE)
        self._slow_probes = [probe for probe in wanted if not _follows(probe)]
        self._beside = {
            cell.id: [p for p in probes([cell], writer.path, endpoints.servers) if _follows(p)]
            for cell in endpoints.cells
        }
        self._through_memory = any(is_shared(str(cell.parameters["target"])) for cell in endpoints.cells)
        """Whether copies in memory are what some trials are held against, as others are against sockets."""
        self._done: dict[Probe, int] = dict.fromkeys(self._slow_probes, 0)
        self._cost = {probe: cost(probe) for probe in self._slow_probes}
        self._measured: set[tuple[object, ...]] = set()
        by_key = {probe.key: probe for probe in wanted}
        for line in writer.read().ceiling_records():
            if line.get("round") is not None:
                key = tuple(line.get(name) for name in IDENTITY)
                self._measured.add((*key, line["round"]))
                if key in by_key and by_key[key] in self._done:
                    self._done[by_key[key]] += 1
        self._began = 0.0
        self._round: int | None = None
        """That of a good trial since the last one ended."""
        self._late: dict[Probe, None] = {}
        """Wanted by a trial of it, when there was no time."""
        if executor.measures and wanted:
            part = percent(self.time.share)
            note("info", f"ceilings in every round, {part} of the trials' time: {listed(wanted)}")

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
            if (*probe.key, number) in self._measured:
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
        for probe in sorted(self._slow_probes, key=self._turn):
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
        return sum((*key, number) not in self._measured for key in keys)

    def _take(self, probe: Probe, number: int, length: float | None, needs: float) -> bool:
        """Whether it was probed now; not where it was already, or where that takes longer than may be."""
        at = (*probe.key, number)
        if at in self._measured or self.time.left < needs or self._probing.has_failed(probe):
            return False
        began = self._clock()
        line = self._probing.take(probe, 0, length, number)
        took = self._clock() - began
        self.time.probes += took
        if probe in self._cost:
            self._cost[probe] = took
        if line is not None:
            self._measured.add(at)
        return line is not None


def _follows(probe: Probe) -> bool:
    """Whether it moves with the moment, and is what a trial is held against."""
    return probe.kind == "pipe" or (probe.kind in SOCKETS and not is_single_link(probe.name))
