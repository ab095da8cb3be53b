"""The warning of a straggler: who, by how much, what it costs, what speaks for which reason, what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.advice.stragglers import BEHIND, Straggler
from venturi.analysis.advice.warning import Advice
from venturi.analysis.cells.figures import get, numeric, quotient
from venturi.analysis.cells.probed import single_links
from venturi.analysis.cells.summary import Cell
from venturi.analysis.words.wording import listed, milliseconds, nouns_of, rate
from venturi.common.units import Quantity, percent, plural

__all__ = ["advise", "told"]

FULL = 0.9
"""CPUs busier than this leave little for another process."""
MORE = 0.1
"""So much more of all CPU time than at the others tells the host from them."""
HELD = 0.05
"""Share of time taken by a quota or by the hypervisor from which it is reported."""
FARTHER = 2.0
"""Its round trip over the others'. Under 0.1 ms more it is the scheduler's, not the way's."""
_LEAST_ROUND_TRIP_NS = 100e3
MANY = 5.0
"""Its lost segments and packets over the others'; fewer than ten a trial are any link's."""
_LEAST_LOST = 10.0
_NAMED = 3
_LEAVE_OUT = (
    "or leave the host out: a resource for the others, and [hosts] loader_resource (docs/scenarios.md)"
)


@dataclass(frozen=True)
class _Sign:
    """What speaks for a reason, and what to do about it."""

    text: str
    next: str


def advise(
    found: Sequence[Straggler], cells: Sequence[Cell], probes: Sequence[Mapping[str, Any]]
) -> Advice | None:
    """Of all cells' stragglers the one that is behind in most of them, at its worst; None where none is.

    `cells`: those of the run, some of which several hosts ran.
    """
    if not found:
        return None
    by_host: dict[str, list[Straggler]] = {}
    for one in found:
        by_host.setdefault(f"{one.address} {one.name}", []).append(one)
    own = max(by_host.values(), key=lambda same: (len(same), -min(one.ratio for one in same)))
    worst = min(own, key=lambda one: (one.one_of_two, one.ratio))
    several = sum(len(r.get("hosts") or []) > 1 for c in cells for r in c.records[:1])
    where = f"; so it is in {len(own)} of {several} cells that several hosts ran" if several > 1 else ""
    more = [f"{others[0].name}{_at(others[0])}" for others in by_host.values() if others is not own]
    if more:
        shown = more[:_NAMED] + ([f"{len(more) - _NAMED} more"] if len(more) > _NAMED else [])
        where += f"; {listed(shown)} {'is' if len(more) == 1 else 'are'} behind too"
    signs = _signs(worst, probes)
    cause = listed(sign.text for sign in signs) or _nothing(worst, probes)
    if worst.one_of_two:
        cause += "; with two hosts nobody can tell whether one is slow or the other one fast"
    following = signs[0].next if signs else _next(worst, probes)
    return Advice("straggler", f"{told(worst)}{where}", cause, f"{following}, {_LEAVE_OUT}")


def told(one: Straggler) -> str:
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


# What speaks for a reason.


def _signs(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> list[_Sign]:
    """What clearly differs at this host from the others, the most telling first."""
    looks = (_link, _quota, _stolen, _busy, _smaller, _slower_port, _lost, _far, _late)
    return [sign for look in looks if (sign := look(one, probes)) is not None]


def _both(
    one: Straggler, ask: Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]
) -> tuple[float, float] | None:
    """A figure of this host and of the others: medians over trials, and over the others; None where either
    was not measured. `ask` is given the host's part of a record, and the record."""
    own: list[float] = []
    rest: dict[str, list[float]] = {}
    for record in one.cell.records:
        for host in record.get("hosts") or []:
            if (value := ask(host, record)) is None:
                continue
            if host["host"] in one.names:
                own.append(value)
            elif host["host"] in one.others:
                rest.setdefault(host["host"], []).append(value)
    if not own or not rest:
        return None
    return median(own), median(median(values) for values in rest.values())


def _of(*path: str) -> Callable[[Mapping[str, Any], Mapping[str, Any]], float | None]:
    return lambda host, _: numeric(host, "resources", *path)


def _links(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """What raw TCP carries from this host alone, and the median of what it does from each other one (B/s)."""
    alone = single_links(probes, one.cell.parameters)
    own = [alone[name] for name in one.names if name in alone]
    rest = [alone[name] for name in one.others if name in alone]
    return (median(own), median(rest)) if own and rest else None


def _link(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _links(one, probes)
    if found is None or found[0] >= BEHIND * found[1]:
        return None
    return _Sign(
        f"raw TCP from it alone carries {rate(found[0])}, from the others {rate(found[1])}: its link is slow",
        "Look at that host's link: its speed (ethtool), errors and drops (ip -s link), a limit set on it "
        "(tc qdisc), the port of the switch",
    )


def _quota(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(
        one,
        lambda host, _: quotient(
            numeric(host, "resources", "cgroup", "throttled_ns"), numeric(host, "resources", "window_ns")
        ),
    )
    if found is None or found[0] < HELD or found[0] < FARTHER * found[1]:
        return None
    return _Sign(
        f"the quota of its control group held it back {percent(found[0])} of the time, the others "
        f"{percent(found[1])}",
        "Give its container or slice as many CPUs as the others have",
    )


def _stolen(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _of("host", "steal_share"))
    if found is None or found[0] < HELD or found[0] < FARTHER * found[1]:
        return None
    return _Sign(
        f"{percent(found[0])} of its CPU time was stolen, {percent(found[1])} of the others'",
        "It is a virtual machine whose host has too much to do: repeat at a quieter time",
    )


def _busy(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _of("host", "busy_share"))
    if found is None or found[0] < FULL or found[0] < found[1] + MORE:
        return None
    text = f"its host's CPUs were busy {percent(found[0])}, the others' {percent(found[1])}"
    own = _both(one, _own_share)
    others = found[0] - own[0] if own is not None else None
    if others is not None and others > MORE:
        text += f"; {percent(others)} was not the loader"
        return _Sign(text, "See what else runs there (top), and end it")
    return _Sign(text, f"Give it fewer {nouns_of(one.cell).stream}s, or a host with more CPU")


def _own_share(host: Mapping[str, Any], _: Mapping[str, Any]) -> float | None:
    """Of all CPU time of its host what the loader's process took."""
    user, system = (numeric(host, "cpu", name) for name in ("user_ns", "system_ns"))
    if user is None or system is None:
        return None
    cores = quotient(user + system, numeric(host, "interval_ns"))
    return quotient(cores, numeric(host, "resources", "host", "cores"))


def _smaller(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _of("host", "cores"))
    if found is None or found[0] > BEHIND * found[1]:
        return None
    return _Sign(
        f"its host has {plural(found[0], 'CPU')}, the others {found[1]:g}",
        "Compare hosts that are alike",
    )


def _slower_port(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _of("network", "speed_bits_per_second"))
    if found is None or found[0] > BEHIND * found[1]:
        return None
    return _Sign(
        f"its interface runs at {found[0] / 1e6:,.0f} Mbit/s, the others' at {found[1] / 1e6:,.0f}",
        "Look at its cable and the port of the switch: ethtool says what both ends agreed on",
    )


def _lost(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    for what, ask in (
        ("segments were sent again", _of("sockets", "retransmits")),
        ("packets were dropped by its interface", _dropped),
    ):
        found = _both(one, ask)
        if found is not None and found[0] >= _LEAST_LOST and found[0] >= MANY * found[1]:
            return _Sign(
                f"{found[0]:,.0f} {what} in a trial, {found[1]:,.0f} at the others",
                "Look for errors on its way: ip -s link, ethtool -S, the switch's counters",
            )
    return None


def _dropped(host: Mapping[str, Any], _: Mapping[str, Any]) -> float | None:
    found = [numeric(host, "resources", "network", name) for name in ("rx_drops", "tx_drops")]
    known = [value for value in found if value is not None]
    return sum(known) if known else None


def _far(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _of("sockets", "rtt_ns"))
    if found is None or found[0] < FARTHER * found[1] or found[0] - found[1] < _LEAST_ROUND_TRIP_NS:
        return None
    return _Sign(
        f"its connections' round trip was {milliseconds(found[0])}, the others' {milliseconds(found[1])}",
        "It is further away, or a queue on its way is full: ping it when nothing runs",
    )


def _late(one: Straggler, _: Sequence[Mapping[str, Any]]) -> _Sign | None:
    found = _both(one, _started)
    if found is None or found[0] - found[1] < (1.0 - one.ratio) / 2:
        return None
    nouns = nouns_of(one.cell)
    return _Sign(
        f"its last {nouns.stream} began {percent(found[0])} of the trial after the start, the others' "
        f"{percent(found[1])}",
        f"Move more {nouns.row}s per {nouns.stream}, or measure longer; clocks that differ are in the table "
        "of loaders",
    )


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


def _nothing(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> str:
    """What was measured and does not differ from the others."""
    same = []
    if (links := _links(one, probes)) is not None:
        same.append(
            f"its link alone carries as much ({rate(links[0])} of raw TCP, the others' {rate(links[1])})"
        )
    if (busy := _both(one, _of("host", "busy_share"))) is not None:
        same.append(f"its CPUs were no busier ({percent(busy[0])}, the others' {percent(busy[1])})")
    text = "nothing that was measured tells why"
    return f"{text}: {listed(same)}" if same else text


def _next(one: Straggler, probes: Sequence[Mapping[str, Any]]) -> str:
    probed = get(one.cell.parameters, "on") != "spark"
    if _links(one, probes) is None and probed and not one.cell.in_rows:
        return "Measure each host's link alone: `venturi run ... --ceilings once --fresh-ceilings`"
    return "Run `venturi doctor` there and on another one and compare"
