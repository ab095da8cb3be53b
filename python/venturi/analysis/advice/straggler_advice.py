"""The warning of a straggler: who, by how much, what it costs, what speaks for which reason, what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from venturi.analysis.advice import Advice
from venturi.analysis.advice.stragglers import BEHIND, Straggler
from venturi.analysis.cells.figures import by_key, get, numeric, quotient
from venturi.analysis.cells.probes import single_links
from venturi.analysis.cells.summary import Cell
from venturi.analysis.wording import listed, milliseconds, nouns_of, rate
from venturi.common.units import Quantity, bit_rate, percent, plural

__all__ = ["advise", "describe"]

_NAMED = 3
_LEAVE_OUT = (
    "or leave the host out: a resource for the others, and [hosts] loader_resource (docs/scenarios.md)"
)
Ask = Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]


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
    several = sum(len(r.get("hosts") or []) > 1 for c in cells for r in c.records[:1])
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


def _of(*path: str) -> Ask:
    return lambda host, _: numeric(host, "resources", *path)


def _throttled(host: Mapping[str, Any], _: Mapping[str, Any]) -> float | None:
    held = numeric(host, "resources", "cgroup", "throttled_ns")
    return quotient(held, numeric(host, "resources", "window_ns"))


def _dropped(host: Mapping[str, Any], _: Mapping[str, Any]) -> float | None:
    found = [numeric(host, "resources", "network", name) for name in ("rx_drops", "tx_drops")]
    counted = [value for value in found if value is not None]
    return sum(counted) if counted else None


def _started(host: Mapping[str, Any], record: Mapping[str, Any]) -> float | None:
    """When its last stream began, as a share of the trial."""
    first, count = host["streams"]
    begun = [
        start
        for stream in record.get("streams") or []
        if first <= (stream.get("stream") or 0) < first + count
        and (start := numeric(stream, "start_ns")) is not None
    ]
    return quotient(max(begun), numeric(record, "times", "interval_ns")) if begun else None


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
            (host["host"], value)
            for record in one.cell.records
            for host in record.get("hosts") or []
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
    probed = get(one.cell.parameters, "on") != "spark"
    if _figures(one, None, probes) is None and probed and not one.cell.in_rows:
        return "Measure each host's link alone: `venturi run ... --ceilings once --fresh-ceilings`"
    return "Run `venturi doctor` there and on another one and compare"
