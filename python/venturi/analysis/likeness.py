"""Whether two runs were made under like conditions: machines, software and settings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from venturi.analysis import servers
from venturi.analysis.advice import noise
from venturi.analysis.cells import get
from venturi.units import Quantity

if TYPE_CHECKING:
    from venturi.analysis.cells import Cell
    from venturi.analysis.results import Results

Weight = Literal["unlike", "matters", "note"]
"""`unlike`: a comparison across it says nothing about a change. `matters`: it moves figures, and may be the
very thing that is compared. `note`: it does not."""
_OTHERS, _STOLEN = "CPU used by others", "stolen CPU time"
_POINTS = {_OTHERS: 0.05, _STOLEN: 0.01}
"""Shares of all CPUs that differ by less are the same: a desktop never stands still."""
MEMORY_TOLERANCE = 0.1
"""A kernel keeps a little more or less of the same memory for itself."""

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
# Settings of the kernel that bulk flows do not feel.
_IDLE_SYSCTLS = frozenset({"net.core.somaxconn", "vm.overcommit_memory", "vm.swappiness"})
# Parameters that change what a figure is, not how large it is.
_MEASURED_OTHERWISE = frozenset({"verify", "include_setup"})
_IDLE_PARAMETERS = frozenset({"seed", "place", "target"})
_DERIVED = frozenset({"row_bytes"})


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
    def known(self) -> bool:
        return self.base is not None and self.run is not None

    @property
    def differs(self) -> bool:
        if not self.known or self.base == self.run:
            return False
        if self.name in _POINTS:
            return bool(abs(self.base - self.run) > _POINTS[self.name])
        return self.name != "memory" or not _same_memory((self.base, self.run))


def facts(base: Results, run: Results) -> list[Fact]:
    """Everything known of both sides, the client first; the server only where it is another host."""
    out: list[Fact] = []
    for end in ("client", "server"):
        pair = [[_mapping(get(r.environment, end))] for r in (base, run)]
        if end == "server":
            clients = [_mapping(get(r.environment, "client")) for r in (base, run)]
            pair = [servers.of_first_place(r.environment) for r in (base, run)]
            both = zip(pair, clients, strict=True)
            if all(s.get("host") == c.get("host") for side, c in both for s in side):
                # On the client's host only its software can differ.
                out += [f for f in _end(end, *pair) if f.name in ("Venturi", "commit") and f.base is not None]
                continue
        out += _end(end, *pair)
    out.append(Fact("server", "software", _peers(base), _peers(run), "matters"))
    numbers = [common("servers", [get(r, "target", "servers") for r in side.records]) for side in (base, run)]
    if any(number not in (None, 1) for number in numbers):
        out.append(Fact("server", "servers", numbers[0], numbers[1], "matters"))
    busy = [_disturbance(r) for r in (base, run)]
    for i, name in enumerate((_STOLEN, _OTHERS)):
        out.append(Fact("client", name, busy[0][i], busy[1][i], "matters"))
    out.append(Fact("run", "started", _started(base), _started(run), "note"))
    return [f for f in out if f.base is not None or f.run is not None]


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, Mapping) else {}


def _end(end: str, base: Sequence[Mapping[str, Any]], run: Sequence[Mapping[str, Any]]) -> list[Fact]:
    def fact(name: str, path: tuple[str, ...], weight: Weight) -> Fact:
        before, after = (common(name, [get(one, *path) for one in side]) for side in (base, run))
        return Fact(end, name, before, after, weight)

    return [fact(*known) for known in properties([*base, *run])]


def properties(ends: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], Weight]]:
    """Of these ends each property's name, its path in a description, and how much a difference weighs."""
    names = dict.fromkeys(str(name) for end in ends for name in _mapping(end.get("sysctls")))
    weights: dict[str, Weight] = dict.fromkeys(_IDLE_SYSCTLS, "note")
    return [*_FACTS, *((name, ("sysctls", name), weights.get(name, "matters")) for name in names)]


def common(name: str, values: Sequence[Any]) -> Any:
    """The value of a property that all have who know it; where they differ, each once."""
    distinct: list[Any] = []
    for value in values:
        if value is not None and value not in distinct:
            distinct.append(value)
    if len(distinct) < 2 or (name == "memory" and _same_memory(distinct)):
        return distinct[0] if distinct else None
    # In whichever order they were named, they are the same servers.
    return tuple(sorted(distinct, key=str))


def _same_memory(sizes: Sequence[Any]) -> bool:
    """Whether these sizes (bytes) are one, but for what a kernel keeps."""
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


def _disturbance(results: Results) -> tuple[float, float] | tuple[None, None]:
    """Medians over the trials of the shares of the host's CPU time that were stolen and that others used."""
    from statistics import median

    found = [n for r in results.records if not r.get("warmup") and (n := noise(r)) is not None]
    return (median(s for s, _ in found), median(o for _, o in found)) if found else (None, None)


def _started(results: Results) -> str | None:
    return f"{results.started:%Y-%m-%d %H:%M} UTC" if results.started else None


def _peers(results: Results) -> str | None:
    """The software of all servers that answered, addresses left out: ports differ from run to run."""
    names = {str(s) for r in results.records if (s := get(r, "target", "software"))}
    return ", ".join(sorted(names)) or None


def settings(base: Sequence[Cell], run: Sequence[Cell]) -> list[Fact]:
    """Parameters that have one value throughout each side, and not the same: what the runs differ in."""
    out = []
    for name in dict.fromkeys(n for c in (*base, *run) for n in c.parameters):
        sides = [_only(name, cells) for cells in (base, run)]
        if name in _DERIVED or sides[0] is None or sides[1] is None or sides[0] == sides[1]:
            continue
        weight: Weight = (
            "unlike" if name in _MEASURED_OTHERWISE else "note" if name in _IDLE_PARAMETERS else "matters"
        )
        before, after = (_shown(cells[0].parameters[name]) for cells in (base, run))
        out.append(Fact("run", name, before, after, weight))
    return out


def _shown(value: Any) -> Any:
    # "none" is a value of a setting; None would be one that nobody wrote down.
    return "none" if value is None else value


def _only(name: str, cells: Sequence[Cell]) -> set[Any] | None:
    """The one value of a parameter in these cells; None where there are several, or where one lacks it."""
    if not all(name in c.parameters for c in cells):
        return None
    values = {canonical(name, c.parameters[name]) for c in cells}
    return values if len(values) == 1 else None


def canonical(name: str, value: Any) -> Any:
    """A parameter's value as it is matched: ports, folders and the type of a number do not count."""
    if name in ("target", "place") and isinstance(value, str):
        return without_port(value)
    if name == "data" and isinstance(value, str):
        return value.rsplit("/", 1)[-1]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def without_port(address: str) -> str:
    """`flight://host:31337/x` -> `flight://host/x`, `[::1]:80` -> `[::1]`: a port tells no cells apart."""
    import re

    # Only after the host: a path or a command may hold colons of its own.
    return re.sub(r"^((?:[a-z0-9+.-]+://)?(?:\[[^\]]*\]|[^/?:\[\]]+)):\d{1,5}(?=$|[/?])", r"\1", address)


def refusal(found: Sequence[Fact]) -> str | None:
    """What makes a comparison senseless, in a line; None where nothing does."""
    unlike = [f for f in found if f.weight == "unlike" and f.differs]
    if not unlike:
        return None
    first = unlike[0]
    where = "" if first.end == "run" else f"the {first.end}'s "
    more = f", and {len(unlike) - 1} more differences of this kind" if len(unlike) > 1 else ""
    before, after = (in_words(first.name, value) for value in (first.base, first.run))
    return f"{where}{first.name} differs ({before} | {after}){more}"
