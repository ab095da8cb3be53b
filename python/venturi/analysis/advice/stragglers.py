"""Stragglers: of several hosts that run a trial together, one that is well behind the others time and again.

A host is compared with those that are placed as it is, by what each of its streams moved until the host's
last one ended, trial by trial. What trials have in common falls out of that quotient, and what differs by
chance is seldom at the same host each time.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from venturi.analysis.advice import Advice
from venturi.analysis.cells.figures import by_key, get, quotient
from venturi.analysis.cells.hosts import counted, deals_streams_in_turn, server_addresses
from venturi.analysis.cells.probes import single_links
from venturi.analysis.cells.summary import Cell
from venturi.analysis.verdict.workers import KEPT_UP
from venturi.analysis.wording import listed, milliseconds, nouns_of, rate
from venturi.common.units import Quantity, bit_rate, percent, plural
from venturi.engine.record import Loader, Trial

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
        if len(record.hosts) > 1 and not _kept_up(record)
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


def _kept_up(record: Trial) -> bool:
    """Whether a schedule set the rate: then no host is behind."""
    rate = record.schedule.rate
    done = quotient(record.counts.batches, record.times.interval_ns, 1e9)
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


def _compared(record: Trial, what: str, boots: Mapping[str, str]) -> dict[str, _Seen]:
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


def _units(record: Trial, what: str, boots: Mapping[str, str]) -> dict[str, _Unit]:
    """By address, or where none was told by name."""
    out: dict[str, _Unit] = {}
    owners: dict[int, _Unit] = {}
    for host in record.hosts:
        name, address = host.host or "", host.address
        unit = out.setdefault(str(address or name), _Unit(address=address))
        unit.names.append(name)
        unit.machine = boots.get(name) or host.node or address or name
        first, count = host.streams
        owners |= dict.fromkeys(range(first, first + count), unit)
    apart = len(server_addresses(record)) if deals_streams_in_turn(record) else 1
    for stream in record.streams:
        number, amount = stream.stream, stream[what]
        # A stream that moved nothing has no end.
        end = stream.end_ns or record.times.interval_ns
        if number is not None and number in owners and amount is not None and end:
            owners[number].add(number % apart, amount, end)
    return out


def _key(unit: _Unit) -> str:
    return unit.address or unit.names[0]


_NAMED = 3
_LEAVE_OUT = (
    "or leave the host out: a resource for the others, and [hosts] loader_resource (docs/scenarios.md)"
)
Ask = Callable[[Loader, Trial], float | None]


def advise(
    found: Sequence[Straggler], cells: Sequence[Cell], probes: Sequence[Mapping[str, Any]]
) -> Advice | None:
    """Of all cells' stragglers the one that is behind in most of them, at its worst; None where none is.

    `cells`: those of the run, some of which several hosts ran.
    """
    if not found:
        return None
    by_host = by_key((f"{one.address} {one.name}", one) for one in found)
    own = max(by_host.values(), key=lambda same: (len(same), -min(one.ratio for one in same)))
    worst = min(own, key=lambda one: (one.one_of_two, one.ratio))
    several = sum(len(r.hosts) > 1 for c in cells for r in c.records[:1])
    where = f"; so it is in {len(own)} of {several} cells that several hosts ran" if several > 1 else ""
    more = [f"{others[0].name}{_at(others[0])}" for others in by_host.values() if others is not own]
    if more:
        shown = more[:_NAMED] + ([f"{len(more) - _NAMED} more"] if len(more) > _NAMED else [])
        where += f"; {listed(shown)} {'is' if len(more) == 1 else 'are'} behind too"
    signs = _signs(worst, probes)
    cause = listed(text for text, _ in signs) or _same(worst, probes)
    if worst.one_of_two:
        cause += "; with two hosts nobody can tell whether one is slow or the other one fast"
    following = signs[0][1] if signs else _next(worst, probes)
    return Advice("straggler", f"{describe(worst)}{where}", cause, f"{following}, {_LEAVE_OUT}")


def describe(one: Straggler) -> str:
    """`loader-2 (10.77.0.3) is a straggler: 11 % of the median rate per stream of the 3 others, ...`."""
    streams, stream = one.cell.parameters.get("streams"), nouns_of(one.cell).stream
    cell = f"{one.cell.operation} with {plural(streams, stream)}" if streams else one.cell.operation
    head = f"{one.name}{_at(one)}"
    part = f"{percent(one.ratio)} of the"
    trials = f"behind in {one.behind} of {one.trials} good trials ({cell})"
    if one.one_of_two:
        text = (
            f"{head} is the slower one of two: {part} rate per {stream} of {', '.join(one.others)}, {trials}"
        )
    else:
        text = f"{head} is a straggler: {part} median rate per {stream} of {len(one.others)} others, {trials}"
    if one.later_ns is None:
        return f"{text}; as fast as the others it would have moved {percent(one.cost)} of the trial's more"
    later = f"{Quantity(one.later_ns, unit='ns').text()} ({percent(one.cost)} of it)"
    whom = ", ".join(one.others) if one.one_of_two else "the others' median"
    return f"{text}; a trial ended {later} later than {whom}"


def _at(one: Straggler) -> str:
    return f" ({one.address})" if one.address else ""


# ---- what speaks for a reason


def _of(group: str, name: str) -> Ask:
    return lambda host, _: host.resources[group][name]


def _throttled(host: Loader, _: Trial) -> float | None:
    return quotient(host.resources.cgroup.throttled_ns, host.resources.window_ns)


def _dropped(host: Loader, _: Trial) -> float | None:
    found = [host.resources.network.rx_drops, host.resources.network.tx_drops]
    counted = [value for value in found if value is not None]
    return sum(counted) if counted else None


def _started(host: Loader, record: Trial) -> float | None:
    """When its last stream began, as a share of the trial."""
    first, count = host.streams
    begun = [
        start
        for stream in record.streams
        if first <= (stream.stream or 0) < first + count and (start := stream.start_ns) is not None
    ]
    return quotient(max(begun), record.times.interval_ns) if begun else None


def _less(own: float, usual: float, _: float) -> bool:
    return own <= BEHIND * usual


def _held(own: float, usual: float, _: float) -> bool:
    """5 % of the time, and twice as much as at the others."""
    return own >= max(0.05, 2 * usual)


def _many(own: float, usual: float, _: float) -> bool:
    """Five times the others' losses; fewer than ten a trial are any link's."""
    return own >= max(10.0, 5 * usual)


def _number(value: float) -> str:
    return f"{value:,.0f}"


class _Sign(NamedTuple):
    """What tells a host from the others, and what to do about it."""

    ask: Ask | None
    """Its figure in a record; None: what raw TCP carries from it alone."""
    differs: Callable[[float, float, float], bool]
    """By both figures and its rate over the others'."""
    spell: Callable[[float], str]
    text: str
    next: str


_SIGNS = (
    _Sign(
        None, _less, rate, "raw TCP from it alone carries {own}, from the others {usual}: its link is slow",
        "Look at that host's link: its speed (ethtool), errors and drops (ip -s link), a limit set on it "
        "(tc qdisc), the port of the switch",
    ),
    _Sign(
        _throttled, _held, percent,
        "the quota of its control group held it back {own} of the time, the others {usual}",
        "Give its container or slice as many CPUs as the others have",
    ),
    _Sign(
        _of("host", "steal_share"), _held, percent,
        "{own} of its CPU time was stolen, {usual} of the others'",
        "It is a virtual machine whose host has too much to do: repeat at a quieter time",
    ),
    _Sign(
        _of("host", "busy_share"), lambda own, usual, _: own >= max(0.9, usual + 0.1), percent,
        "its host's CPUs were busy {own}, the others' {usual}",
        "See what else runs there (top) and end it, or give it fewer streams",
    ),
    _Sign(
        _of("host", "cores"), _less, _number, "its host has {own} CPUs, the others {usual}",
        "Compare hosts that are alike",
    ),
    _Sign(
        _of("network", "speed_bits_per_second"), _less, bit_rate,
        "its interface runs at {own}, the others' at {usual}",
        "Look at its cable and the port of the switch: ethtool says what both ends agreed on",
    ),
    _Sign(
        _of("sockets", "retransmits"), _many, _number,
        "{own} segments were sent again in a trial, {usual} at the others",
        "Look for errors on its way: ip -s link, ethtool -S, the switch's counters",
    ),
    _Sign(
        _dropped, _many, _number,
        "{own} packets were dropped by its interface in a trial, {usual} at the others",
        "Look for errors on its way: ip -s link, ethtool -S, the switch's counters",
    ),
    _Sign(
        # Under 0.1 ms more it is the scheduler's, not the way's.
        _of("sockets", "rtt_ns"), lambda own, usual, _: own >= max(2 * usual, usual + 100e3), milliseconds,
        "its connections' round trip was {own}, the others' {usual}",
        "It is further away, or a queue on its way is full: ping it when nothing runs",
    ),
    _Sign(
        _started, lambda own, usual, rate: own - usual >= (1 - rate) / 2, percent,
        "its last stream began {own} of the trial after the start, the others' {usual}",
        "Move more per stream, or measure longer; clocks that differ are in the table of loaders",
    ),
)  # fmt: skip


def _figures(
    one: Straggler, ask: Ask | None, probes: Sequence[Mapping[str, Any]]
) -> tuple[float, float] | None:
    """A figure of this host and of the others: medians over trials, and over the others; None if either was
    not measured."""
    if ask is None:
        alone = single_links(probes, one.cell.parameters)
        values = {name: [alone[name]] for name in (*one.names, *one.others) if name in alone}
    else:
        values = by_key(
            (host.host or "", value)
            for record in one.cell.records
            for host in record.hosts
            if (value := ask(host, record)) is not None
        )
    own = [value for name in one.names for value in values.get(name, ())]
    rest = [median(values[name]) for name in one.others if name in values]
    return (median(own), median(rest)) if own and rest else None


def _signs(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """What clearly differs at this host from the others, the most telling first, each with what to do."""
    found = [(sign, _figures(one, sign.ask, probes)) for sign in _SIGNS]
    return [
        (sign.text.format(own=sign.spell(figures[0]), usual=sign.spell(figures[1])), sign.next)
        for sign, figures in found
        if figures is not None and sign.differs(*figures, one.ratio)
    ]


def _same(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> str:
    """What was measured and does not differ from the others."""
    same = []
    if (links := _figures(one, None, probes)) is not None:
        same.append(f"its link carries as much ({rate(links[0])} of raw TCP, the others' {rate(links[1])})")
    if (busy := _figures(one, _of("host", "busy_share"), probes)) is not None:
        same.append(f"its CPUs were no busier ({percent(busy[0])}, the others' {percent(busy[1])})")
    text = "nothing that was measured shows why"
    return f"{text}: {listed(same)}" if same else text


def _next(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> str:
    probed = one.cell.parameters.get("on") != "spark"
    if _figures(one, None, probes) is None and probed and not one.cell.in_rows:
        return "Measure each host's link alone: `venturi run ... --ceilings once --fresh-ceilings`"
    return "Run `venturi doctor` there and on another one and compare"
