"""The physical limits that results are set against, as they are measured once, before the trials of a run;
docs/ceilings.md. `ceiling_rounds` measures them between the trials.

Only what the run's cells need is probed, and what was probed within the last hour, under the same boot and
configuration, is reused.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from venturi.analysis.cells.probed import IDENTITY
from venturi.common.environment import Told
from venturi.common.suffixes import format_duration
from venturi.engine.executor import Executor, TrialControl
from venturi.measure.ceiling_cache import CeilingCache
from venturi.measure.ceiling_probes import (
    NAMES,
    REPEATS,
    SECONDS,
    SOCKETS,
    Probe,
    Prober,
    foreign,
    probes,
    seconds,
)
from venturi.measure.trial_targets import Endpoints
from venturi.store.writer import RunWriter
from venturi.targets.urls import split_url

__all__ = [
    *("Guard", "Note", "Probing", "cache_key", "keep", "listed", "measure", "probes", "reason", "seconds"),
]

Note = Callable[[str, str], None]
"""Takes a line for the user: level and text."""
Guard = Callable[[TrialControl | None], bool]
"""Is told of each running probe, and answers whether to go on."""


def cache_key(probe: Probe, peers: Mapping[str, Told]) -> dict[str, Any] | None:
    """What a kept probe must have been measured of. None where that cannot be told: it is measured each time.

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
        told = list((peers.get(str(probe.place)) or {}).values())
        # The address may belong to another machine later, or the machine may have rebooted.
        known = [peer for peer in told if peer and peer.get("boot_id")]
        if not known or len(known) < len(told):
            return None
        address = split_url(probe.url)
        state = [value for peer in known for value in map(peer.get, ("boot_id", "kernel", "software"))]
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
        """The line of one repeat, in the round of this number; None where nothing is known."""
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
    peers: Mapping[str, Told] | None = None,
    cache: CeilingCache | None = None,
    fresh: bool = False,
) -> None:
    """Probes and stores.

    `cache` None: the user's own, where the executor measures at all. `fresh`: nothing is taken from it.
    """
    if cache is None:
        # Other hosts' limits are not kept: another run may be given other hosts.
        here = executor.measures and not getattr(executor, "elsewhere", False)
        cache = CeilingCache.of_this_user() if here else CeilingCache(None, None)
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
