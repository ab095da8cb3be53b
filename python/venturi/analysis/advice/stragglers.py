"""Stragglers: of several hosts that run a trial together, one that is well behind the others time and again.

A host is compared with those that are placed as it is, by what each of its streams moved until the host's
last one ended, trial by trial. What trials have in common falls out of that quotient, and what differs by
chance is seldom at the same host each time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from venturi.analysis.cells.figures import Record, by_key, get, numeric, quotient
from venturi.analysis.cells.hosts import counted, server_addresses, servers_are_known
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.workers import KEPT_UP

__all__ = ["BEHIND", "Straggler", "machines", "stragglers"]

BEHIND = 0.8
"""Under this part of the others' rate a host is behind: Hadoop calls a task a straggler that is 20 % behind
the average of its like (Zaharia et al., Improving MapReduce Performance in Heterogeneous Environments, OSDI
2008, section 2.1)."""
MOST = 0.8
"""Of the good trials in which it has to be behind: 4 of 5, all of 3."""
LEAST = 3
"""Good trials: of fewer there is no median that a single disturbance could not move."""
LEAST_OF_TWO = 5
"""Good trials where only two are compared, and it has to be behind in all of them: there are no others whose
spread would tell chance from cause."""
OUTLIER = 3.5
"""How many robust standard deviations of the others it has to lie below them (Iglewicz and Hoaglin, How to
Detect and Handle Outliers, 1993: modified z-scores over 3.5)."""
_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


_STUCK = 1e-6
"""Of the others' rate; stands for hosts that moved nothing, as ratios have to have a logarithm."""


@dataclass(frozen=True)
class Straggler:
    """A host that is behind: a loader, or several that share an address. Figures are medians over trials."""

    names: tuple[str, ...]
    address: str | None
    cell: Cell = field(repr=False)
    ratio: float
    """Its rate per stream over the median of the others'."""
    behind: int
    """Trials in which it was behind."""
    trials: int
    """Good trials in which it took part beside others."""
    others: tuple[str, ...]
    """The loaders that it was compared with."""
    hosts: int
    """How many hosts these are."""
    later_ns: float | None
    """How much later than the median of the others' ends the trial's was; None where the time was fixed."""
    cost: float
    """Of the trial's length, or where the time was fixed of what was moved: what is lost by it."""

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    @property
    def one_of_two(self) -> bool:
        """Whether there is only one other host, so that either may be the odd one."""
        return self.hosts == 1


@dataclass
class _Unit:
    """What has one address, in one trial."""

    names: list[str] = field(default_factory=list)
    address: str | None = None
    machine: str = ""
    amounts: dict[int, float] = field(default_factory=dict)
    streams: dict[int, int] = field(default_factory=dict)
    ends: dict[int, float] = field(default_factory=dict)

    def add(self, server: int, amount: float, end: float) -> None:
        self.amounts[server] = self.amounts.get(server, 0.0) + amount
        self.streams[server] = self.streams.get(server, 0) + 1
        self.ends[server] = max(self.ends.get(server, 0.0), end)

    @property
    def end(self) -> float:
        return max(self.ends.values())

    @property
    def amount(self) -> float:
        return sum(self.amounts.values())

    @property
    def count(self) -> int:
        return sum(self.streams.values())

    def per_stream(self, server: int) -> float:
        return self.amounts[server] / self.streams[server] / self.ends[server]


@dataclass
class _Seen:
    """One of them beside the others in one trial."""

    unit: _Unit
    group: list[_Unit]
    """All that are placed alike, itself too."""
    log_ratio: float
    later_ns: float
    lost: float

    @property
    def rivals(self) -> list[_Unit]:
        return [other for other in self.group if other is not self.unit]


def machines(environment: Mapping[str, Any]) -> dict[str, str]:
    """Loaders to the boot of the machine that each ran on, as far as a run's environment tells."""
    hosts = environment.get("hosts")
    found = hosts.items() if isinstance(hosts, Mapping) else ()
    return {name: str(boot) for name, host in found if (boot := get(host, "boot_id"))}


def stragglers(cell: Cell, boots: Mapping[str, str] | None = None) -> list[Straggler]:
    """Those of a cell, the one furthest behind first. Empty where nothing can be told: too few good trials,
    no two hosts that are placed alike, a schedule that was kept.

    Left out are hosts where a server runs too. Loaders of one address are one; a host is compared with those
    only that have as many loaders, on machines that have as many. `boots`: `machines` of the run.
    """
    seen = by_key(
        pair
        for record in cell.records
        if len(record.get("hosts") or []) > 1 and not _kept_up(record)
        for pair in _compared(record, counted(cell), boots or {}).items()
    )
    fixed_time = bool(cell.parameters.get("duration_ns"))
    found = [
        _straggler(cell, trials, fixed_time)
        for trials in seen.values()
        if _is_behind(trials) and _stands_out(trials)
    ]
    # One fast host of three makes the other two look slow, though they are the usual ones.
    if len(found) > 1 and 2 * len(found) > max(one.hosts for one in found):
        return []
    return sorted(found, key=lambda one: one.ratio)


def _kept_up(record: Record) -> bool:
    """Whether a schedule set the rate: then no host is behind."""
    rate = numeric(record, "schedule", "rate")
    done = quotient(numeric(record, "counts", "batches"), numeric(record, "times", "interval_ns"), 1e9)
    return bool(rate) and (done is None or done >= KEPT_UP * (rate or 0.0))


def _is_behind(trials: Sequence[_Seen]) -> bool:
    needed, part = (LEAST_OF_TWO, 1.0) if min(len(one.group) for one in trials) < 3 else (LEAST, MOST)
    return len(trials) >= needed and _behind(trials) >= part * len(trials)


def _behind(trials: Sequence[_Seen]) -> int:
    return sum(one.log_ratio < math.log(BEHIND) for one in trials)


def _stands_out(trials: Sequence[_Seen]) -> bool:
    """Whether it is further from the others than they are from one another, and than trials explain."""
    own = median(one.log_ratio for one in trials)
    swings = [abs(one.log_ratio - own) for one in trials]
    others = by_key((name, math.log(ratio)) for one in trials for name, ratio in _ratios(one.rivals).items())
    usual = {name: median(values) for name, values in others.items()}
    swings += [abs(value - usual[name]) for name, values in others.items() for value in values]
    # Of few values the median deviation is too small (Croux and Rousseeuw, Time-Efficient Algorithms for Two
    # Highly Robust Estimators of Scale, 1992); a median's variance is pi / 2 of that of a mean.
    n = len(trials)
    chance = _NORMAL * median(swings) * n / (n - 0.8) * math.sqrt(math.pi / 2 / n)
    between = 0.0
    if len(usual) > 1:
        middle = median(usual.values())
        # Each was compared with the rest, whose median is no more certain than it is.
        few = math.sqrt((len(usual) - 1) / len(usual))
        between = _NORMAL * few * median(abs(value - middle) for value in usual.values())
    return own <= -OUTLIER * math.hypot(chance, between)


def _straggler(cell: Cell, trials: Sequence[_Seen], fixed_time: bool) -> Straggler:
    last, rivals = trials[-1], trials[-1].rivals
    later = median(one.later_ns for one in trials)
    return Straggler(
        tuple(last.unit.names),
        last.unit.address,
        cell,
        math.exp(median(one.log_ratio for one in trials)),
        _behind(trials),
        len(trials),
        tuple(name for rival in rivals for name in rival.names),
        len(rivals),
        None if fixed_time else later,
        median(one.lost for one in trials) if fixed_time else _part_of(later, cell),
    )


def _part_of(later: float, cell: Cell) -> float:
    return (quotient(later, cell.interval.value) or 0.0) if cell.interval.known else 0.0


def _compared(record: Record, what: str, boots: Mapping[str, str]) -> dict[str, _Seen]:
    """Each host of a trial with those that it may be compared with; without those that have none."""
    units = _units(record, what, boots)
    crowd = Counter(unit.machine for unit in units.values() for _ in unit.names)
    serving = {address.rpartition(":")[0].strip("[]") for address in server_addresses(record)}
    # Beside a server the way is shorter and the cores are shared; it is no measure of the others either.
    alike = by_key(
        ((len(unit.names), crowd[unit.machine]), unit)
        for unit in units.values()
        if unit.ends and unit.address not in serving
    )
    out = {}
    last = max((unit.end for unit in units.values() if unit.ends), default=0.0)
    whole = sum(unit.amount for unit in units.values())
    for group in alike.values():
        ratios = _ratios(group)
        # A host without peers is no measure for others either.
        judged = [unit for unit in group if _key(unit) in ratios]
        ends = sorted(unit.end for unit in judged)
        amounts = sorted(unit.amount / unit.count for unit in judged)
        for unit in judged if len(judged) > 1 else ():
            usual = _median_without(amounts, unit.amount / unit.count) * unit.count
            later, lost = last - _median_without(ends, unit.end), (usual - unit.amount) / whole
            out[_key(unit)] = _Seen(unit, judged, math.log(ratios[_key(unit)]), later, lost)
    return out


def _ratios(group: Sequence[_Unit]) -> dict[str, float]:
    """Each one's rate over the median of the others'; without those that compare with nobody.

    Of the rate per stream, and of all that the host moved where that is more: one that has more streams than
    the others is not behind because each of them gets less. Only streams at the same server compare.
    """
    by_server = by_key((server, unit.per_stream(server)) for unit in group for server in unit.amounts)
    ordered = {server: sorted(rates) for server, rates in by_server.items()}
    wholes = sorted(unit.amount / unit.end for unit in group)
    out = {}
    for unit in group:
        rates = {server: unit.per_stream(server) for server in unit.amounts}
        usual = {s: _median_without(ordered[s], rate) for s, rate in rates.items() if len(ordered[s]) > 1}
        found = [rates[server] / value for server, value in usual.items() if value]
        whole = unit.amount / unit.end
        if found and (others := _median_without(wholes, whole)):
            out[_key(unit)] = max(_STUCK, median(found), whole / others)
    return out


def _median_without(ordered: Sequence[float], value: float) -> float:
    """The median of sorted values without one of them that is `value`; two values or more."""
    at, left = bisect_left(ordered, value), len(ordered) - 1

    def other(index: int) -> float:
        return ordered[index + (index >= at)]

    return (other((left - 1) // 2) + other(left // 2)) / 2


def _units(record: Record, what: str, boots: Mapping[str, str]) -> dict[str, _Unit]:
    """By address, or where none was told by name."""
    out: dict[str, _Unit] = {}
    owners: dict[int, _Unit] = {}
    for host in record.get("hosts") or []:
        name, address = str(host["host"]), host.get("address")
        unit = out.setdefault(str(address or name), _Unit(address=address))
        unit.names.append(name)
        unit.machine = boots.get(name) or str(host.get("node") or address or name)
        first, count = host["streams"]
        owners |= dict.fromkeys(range(first, first + count), unit)
    apart = len(server_addresses(record)) if servers_are_known(record) else 1
    for stream in record.get("streams") or []:
        number, amount = stream.get("stream"), numeric(stream, what)
        # A stream that moved nothing has no end.
        end = numeric(stream, "end_ns") or numeric(record, "times", "interval_ns")
        if number in owners and amount is not None and end:
            owners[number].add(number % apart, amount, end)
    return out


def _key(unit: _Unit) -> str:
    return unit.address or unit.names[0]
