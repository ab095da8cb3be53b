"""The machines of a run as environment.json describes them: facts, servers, the self-test, and the load of
other processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from venturi.analysis.cells.figures import get, quotient, total_ns
from venturi.common.units import Quantity
from venturi.engine.record import EndResources, Trial

Weight = Literal["unlike", "matters", "note"]
"""`unlike`: a comparison across it says nothing about a change. `matters`: it moves figures, and may be the
very thing that is compared. `note`: it does not."""
OTHERS, STOLEN = "CPU used by others", "stolen CPU time"
_POINTS = {OTHERS: 0.05, STOLEN: 0.01}
"""CPU shares that differ by less count as equal: a desktop is never idle."""
MEMORY_TOLERANCE = 0.1
"""Kernels reserve slightly different amounts of the same memory."""

# name shown, path in an end of environment.json, weight of a difference
_FACTS: tuple[tuple[str, tuple[str, ...], Weight], ...] = (
    ("architecture", ("architecture",), "unlike"),
    ("system", ("system",), "unlike"),
    ("CPU", ("cpu",), "unlike"),
    ("cores", ("cores", "logical"), "unlike"),
    ("usable cores", ("cores", "usable"), "unlike"),
    ("physical cores", ("cores", "physical"), "unlike"),
    ("virtualised", ("virtualised",), "unlike"),
    ("memory", ("memory", "total"), "matters"),
    ("swap", ("memory", "swap_total"), "note"),
    ("kernel", ("kernel",), "matters"),
    ("governor", ("governor",), "matters"),
    ("least frequency", ("frequency", "min_khz"), "matters"),
    ("highest frequency", ("frequency", "max_khz"), "matters"),
    ("clock source", ("clock_source",), "matters"),
    ("huge pages", ("transparent_huge_pages",), "matters"),
    ("page size", ("page_size",), "matters"),
    ("Venturi", ("software", "venturi"), "matters"),
    ("commit", ("software", "commit"), "matters"),
    ("pyarrow", ("software", "pyarrow"), "note"),
    ("Python", ("software", "python"), "note"),
    ("host", ("host",), "note"),
    ("load before", ("loadavg",), "note"),
    ("open files", ("open_files",), "note"),
)
# Kernel settings that do not affect bulk flows.
_IDLE_SYSCTLS = frozenset({"net.core.somaxconn", "vm.overcommit_memory", "vm.swappiness"})


@dataclass(frozen=True)
class Fact:
    """One property of both runs. `end` is client, server or run; None is a value that nobody wrote down, a
    tuple those of several servers that differ."""

    end: str
    name: str
    base: Any
    run: Any
    weight: Weight

    @property
    def share(self) -> bool:
        """Whether the values are shares, to be shown in percent."""
        return self.name in _POINTS

    @property
    def complete(self) -> bool:
        return self.base is not None and self.run is not None

    @property
    def differs(self) -> bool:
        if not self.complete or self.base == self.run:
            return False
        if self.name in _POINTS:
            return bool(abs(self.base - self.run) > _POINTS[self.name])
        return self.name != "memory" or not _same_memory((self.base, self.run))


def mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def facts_of_end(end: str, base: Sequence[Mapping[str, Any]], run: Sequence[Mapping[str, Any]]) -> list[Fact]:
    def fact(name: str, path: tuple[str, ...], weight: Weight) -> Fact:
        before, after = (common(name, [get(one, *path) for one in side]) for side in (base, run))
        return Fact(end, name, before, after, weight)

    return [fact(*known) for known in properties([*base, *run])]


def properties(ends: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], Weight]]:
    """Of these ends each property's name, its path in a description, and how much a difference weighs."""
    names = dict.fromkeys(str(name) for end in ends for name in mapping(end.get("sysctls")))
    weights: dict[str, Weight] = dict.fromkeys(_IDLE_SYSCTLS, "note")
    return [*_FACTS, *((name, ("sysctls", name), weights.get(name, "matters")) for name in names)]


def common(name: str, values: Sequence[Any]) -> Any:
    """The value shared by all that report the property; where they differ, each value once."""
    distinct: list[Any] = []
    for value in values:
        if value is not None and value not in distinct:
            distinct.append(value)
    if len(distinct) < 2 or (name == "memory" and _same_memory(distinct)):
        return distinct[0] if distinct else None
    # The order in which servers are named does not matter.
    return tuple(sorted(distinct, key=str))


def _same_memory(sizes: Sequence[Any]) -> bool:
    """Whether these sizes (bytes) are equal but for what a kernel reserves."""
    known = [size for size in sizes if isinstance(size, int | float)]
    return len(known) == len(sizes) and max(known) - min(known) <= MEMORY_TOLERANCE * max(known)


def in_words(name: str, value: Any) -> str:
    """A property's value as it is read: sizes and frequencies with their units."""
    if isinstance(value, tuple):
        return ", ".join(in_words(name, one) for one in value)
    if name in ("memory", "swap") and isinstance(value, int | float):
        return Quantity(float(value), unit="B").text()
    if name.endswith("frequency") and isinstance(value, int | float):
        return f"{value / 1e6:g} GHz"
    return " ".join(str(value).split())


@dataclass(frozen=True)
class Balance:
    """CPU time of the client's host in a trial, in cores."""

    cores: float
    busy: float
    parts: Mapping[str, float]
    """Of the run's own processes, by role: `client`, `server` where it is known to share the host, and
    Venturi's helpers, as `relay`."""

    @property
    def foreign(self) -> float:
        """What is left for processes that are not the run's. Below 0 where the parts are more than the whole,
        by what the kernel's ticks round, if the record is right."""
        return self.busy - sum(self.parts.values())


def cpu_balance(record: Trial) -> Balance | None:
    """From the summary in the record (`resources`, docs/format.md); None where it lacks the host's busy time,
    or that of the client's process."""
    resources = record.resources
    client = resources.client
    busy, cores = client.host.busy_share, client.host.cores
    own = _process_cores(client)
    if busy is None or not cores or own is None:
        return None
    parts = {"client": own}
    if resources.same_machine and (served := _process_cores(resources.server)) is not None:
        parts["server"] = served
    helpers = resources.helpers.items()
    parts |= {role: used for role, helper in helpers if (used := _process_cores(helper)) is not None}
    return Balance(cores, busy * cores, parts)


def host_noise(record: Trial) -> tuple[float, float] | None:
    """Shares of all CPU time of the client's host in a trial that others stole and that other processes used.

    None where the trial has no such summary.
    """
    found = cpu_balance(record)
    if found is None:
        return None
    steal = record.resources.client.host.steal_share or 0.0
    return steal, max(0.0, found.foreign / found.cores)


def _process_cores(end: EndResources) -> float | None:
    """Cores that the process of an end kept busy over its window."""
    return quotient(total_ns(end.process), end.window_ns)


Environment = Mapping[str, Any]


def servers_by_place(environment: Environment) -> dict[str, dict[str, Mapping[str, Any] | None]]:
    """Of each place that has several servers: by HOST:PORT what each tells of itself, None where nothing."""
    return {place: dict(told) for place, told in mapping(environment.get("server_hosts")).items()}


def first_place_servers(environment: Environment) -> list[Mapping[str, Any]]:
    """All servers that tell of themselves of the place that `server` is of."""
    apart, first = servers_by_place(environment), environment.get("server")
    if not isinstance(first, Mapping):
        return []
    place = next(iter(mapping(environment.get("servers")) or apart), None)
    told = [one for one in apart.get(str(place), {}).values() if one]
    return told or [first]


def environment_ends(environment: Environment) -> dict[str, Mapping[str, Any]]:
    """Client and servers by the names of their columns; of several places and of several servers each."""
    apart, places = servers_by_place(environment), mapping(environment.get("servers"))
    found: dict[str, Any] = {"client": environment.get("client")}
    if places:
        for place, first in places.items():
            names = {f"server {place} {address}": one for address, one in apart.get(place, {}).items()}
            found |= names or {f"server {place}": first}
    else:
        (told,) = apart.values() if len(apart) == 1 else ({},)
        names = {f"server {address}": one for address, one in told.items()}
        found |= names or {"server": environment.get("server")}
    return {name: mapping(one) for name, one in found.items()}


def proof(environment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None for imported, older and modelled runs."""
    found = environment.get("proof")
    return found if isinstance(found, Mapping) else None


def unproven(environment: Mapping[str, Any]) -> bool:
    """Whether it failed, and the run went on."""
    found = proof(environment)
    return found is not None and found.get("outcome") == "failed"
