"""From a cell's evidence to its verdict: the narrowest place, how sure that is, and what to try next.

`rules` has the causes in METHOD's order; `docs/verdicts.md` says what each verdict means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models.batch_cost import Packing
from venturi.analysis.verdict import evidence, machine, network, servers, workers
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.findings import Tried
from venturi.analysis.verdict.remedies import MOST, adds_load, stop_other_load
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.rules import RULES, first
from venturi.analysis.verdict.types import (
    Confidence,
    Diagnosis,
    Evidence,
    Remedy,
    SecondBottleneck,
    Verdict,
    VerdictText,
)
from venturi.analysis.wording import held_back, listed, milliseconds, nouns_of, shares, size, waiting
from venturi.common.units import percent, plural

AGREE = 0.8
"""Share of the repeats that, each for itself, have to give the same verdict for it to be sure: one of five
may have been disturbed."""
DISAGREE = 0.6
CLOSE = 0.25
"""A margin under this lies so near the threshold that another run may fall on its other side."""
STOLEN = 0.05
"""Stolen CPU time from which everything that depends on CPUs is in doubt."""
OTHER_LOAD = 0.10
"""Share of all cores that neither end used. Less are the kernel's threads and daemons."""


def verdicts(
    cells: Sequence[Cell],
    environment: Mapping[str, Any] | None = None,
    packings: Sequence[Packing] = (),
) -> dict[str, Verdict]:
    """The verdict of each cell, by its name. `environment` is the run's environment.json; `packings` what
    codecs do to its data."""
    tried = Tried(cells)
    alone = {cell.name: judge(cell, environment, packings, tried) for cell in cells}
    return servers.refine_by_concurrency(cells, alone)


def judge(
    cell: Cell,
    environment: Mapping[str, Any] | None = None,
    packings: Sequence[Packing] = (),
    tried: Tried | None = None,
) -> Verdict:
    """The narrowest place of one cell, from its good trials alone; `tried` settles what its run has measured
    beside it. Never raises for what is missing."""
    environment = environment or {}
    to_try = partial(_to_try, tried or Tried((cell,)), cell, environment)
    usable = {end: n for end in ("client", "server") if (n := _usable(cell, environment, end))}
    single = [evidence.facts(record, usable) for record in cell.records]
    control = get(environment, "client", "sysctls", "net.ipv4.tcp_congestion_control")
    seen = evidence.seen(cell, evidence.medians(single), len(single), control, packings)
    place = first(seen)
    if place is None:
        return _unknown(seen, to_try)
    second = _second(seen, place)
    places = [it for it in (place, second) if it is not None]

    def write() -> VerdictText:
        agreeing = len(single)
        if len(single) > 1:
            each = [first(evidence.seen(cell, f, 1, control)) for f in single]
            agreeing = sum(it is not None and _where(it) in map(_where, places) for it in each)
        confidence, notes = _confidence(seen, place, agreeing)
        lines = list(RULES[place.cause].lines(seen, place))
        if second is not None:
            head, *rest = RULES[second.cause].lines(seen, second)
            lines += [f"two places, equally narrow: {head}", *rest]
        by_place = [remedies(seen, it) for it in places]
        doubted = agreeing < AGREE * len(single)
        return VerdictText(
            lines=(*lines, *notes),
            evidence=tuple(evidence_lines(seen, place, None if doubted else agreeing)),
            confidence=confidence,
            # The first of each in turn: opening one place alone gains little.
            remedies=to_try([r for turn in zip_longest(*by_place) for r in turn if r]),
        )

    rule = RULES[place.cause]
    return Verdict(
        kind=rule.kind,
        cause=place.cause,
        end=place.end,
        stage=place.stage,
        title=", ".join(RULES[p.cause].titled(seen, p) for p in places),
        write=write,
        flagged=rule.flagged,
        numbers=place.numbers,
        also=SecondBottleneck(
            RULES[second.cause].kind, second.cause, second.end, second.stage, second.numbers
        )
        if second
        else None,
    )


def _where(place: Diagnosis) -> tuple[str, str | None]:
    return RULES[place.cause].kind, place.end


def _unknown(seen: CellEvidence, to_try: Callable[[Sequence[Remedy]], tuple[Remedy, ...]]) -> Verdict:
    """What is missing for a verdict, and what would settle it."""
    found = servers.unknown(seen)

    def write() -> VerdictText:
        lines = [line for place in found for line in RULES[place.cause].lines(seen, place)]
        own = sum(workers.own_stages(seen).values())
        if own > 0.3:
            lines.append(f"the client's own work takes {percent(own)} of its time")
        return VerdictText(
            lines=tuple(lines),
            evidence=tuple(evidence_lines(seen, None, None)),
            confidence="low",
            remedies=to_try([r for place in found for r in remedies(seen, place)]),
        )

    return Verdict(
        kind="unknown",
        cause=found[0].cause,
        end=None,
        stage=None,
        title=RULES[found[0].cause].titled(seen, found[0]),
        write=write,
        flagged=False,
        numbers={name: value for place in found for name, value in place.numbers.items()},
    )


# ---- two places, equally narrow


def _second(seen: CellEvidence, place: Diagnosis) -> Diagnosis | None:
    """Another place that is proved narrow too; None if there is none.

    A place that works nine tenths of its time is the next limit as soon as the first is opened, which gains a
    ninth at most. Full cores have none: they limit all that runs on them. Nor has the relay of a link,
    for which the others wait.
    """
    kinds = ("load-generator", "stage", "link", "disk")
    if place.cause == "link-relay" or (RULES[place.cause].kind not in kinds and place.cause != "cpu-quota"):
        return None
    quotas = [machine.quota_of(end) for end in (seen.server, seen.client)]
    if any(quotas):
        # What is throttled is slow in every stage.
        found = quotas
    else:
        stages = [workers.stage_of(seen, end) for end in (seen.server, seen.client)]
        found = [workers.pool(seen), *stages, network.link(seen), network.path(seen), machine.disk(seen)]
    return next((it for it in found if it is not None and not _same(it, place)), None)


def _same(one: Diagnosis, other: Diagnosis) -> bool:
    kinds = [RULES[it.cause].kind for it in (one, other)]
    # Whatever puts data away works as long as its disk does.
    stored = set(kinds) == {"disk", "stage"} and "apply" in (one.stage, other.stage)
    # The end, or what lies between.
    first, second = (
        k if k in ("link", "disk") else it.end for k, it in zip(kinds, (one, other), strict=True)
    )
    return stored or first == second


# ---- remedies


def remedies(seen: CellEvidence, place: Diagnosis) -> list[Remedy]:
    """What to try, the most promising first."""
    found: list[Remedy] = []
    held = machine.crowded(seen)
    for remedy in (remedy for propose in RULES[place.cause].remedies for remedy in propose(seen, place)):
        # More in flight would wait for the CPUs that other programs hold.
        found += stop_other_load(seen, place) if held and adds_load(seen, remedy) else [remedy]
    return found


def _to_try(
    tried: Tried, cell: Cell, environment: Mapping[str, Any], found: Sequence[Remedy]
) -> tuple[Remedy, ...]:
    """The remedies with their commands; those that were tried are settled, what was measured comes first."""
    rerun = Rerun.of(cell, environment)
    by_change: dict[tuple[Any, ...], Remedy] = {}
    for remedy in found:
        if (it := tried.settled(remedy, cell)) is not None:
            # One value of a setting is enough; and two that ask for different ones may be measured as one.
            by_change.setdefault((it.why, *it.changes, *it.settings, it.before), it)
    left = sorted(by_change.values(), key=lambda r: r.why != "measured")
    return tuple(r if r.why == "measured" else replace(r, command=rerun.proposed(r)) for r in left[:MOST])


# ---- confidence


def _usable(cell: Cell, environment: Mapping[str, Any], end: str) -> int | None:
    """How many CPUs that end's process may use, as it reported when the run began."""
    described, place = environment.get(end), str(cell.parameters.get("place"))
    if end == "server":
        described = get(environment, "servers", place) or described
        reported = machines.servers_by_place(environment).get(place, {}).values()
        each = [get(one, "cores", "usable") for one in reported if one]
        if len(set(each)) > 1:
            # Which of them was watched is not recorded.
            return None
    found = get(described, "cores", "usable")
    return found if isinstance(found, int) and found > 0 else None


def _foreign_load(seen: CellEvidence) -> float | None:
    """Share of the client's host that neither the ends nor Venturi's helpers used."""
    client, server = seen.client, seen.server
    if client.cpu is None or not client.cores or "client.host_busy" not in seen.facts:
        return None
    own = client.cpu + sum(helper.cpu or 0.0 for helper in seen.helpers.values())
    if seen.same_machine is not False and not machine.embedded(seen):
        if server.cpu is None:
            return None
        own += server.cpu
    total = seen.facts.get("client.host_cores") or client.cores
    return max(0.0, seen.facts["client.host_busy"] - own / total)


def _confidence(seen: CellEvidence, place: Diagnosis, agreeing: int) -> tuple[Confidence, list[str]]:
    """How far the verdict can be trusted, and what takes from that, in words."""
    points = 2 - (place.margin < CLOSE) - (place.margin <= 0.0) - bool(place.lacks) - (seen.trials == 1)
    share = agreeing / seen.trials if seen.trials > 1 else 1.0
    points -= 2 if share < DISAGREE else share < AGREE
    notes = []
    if share < AGREE:
        notes.append(f"judged alone, only {agreeing} of {seen.trials} repeats give this verdict")
    if place.lacks:
        notes.append(f"not known: {listed(map(str, place.lacks))}")
    if seen.servers > 1 and RULES[place.cause].kind in ("cores", "disk") and place.end != "client":
        points -= 1
        notes.append(f"of {seen.servers} servers one was watched")
    steal = max(seen.client.steal or 0.0, seen.server.steal or 0.0)
    if steal > STOLEN:
        points -= 1
        notes.append(f"{percent(steal)} of the CPU time was stolen by other virtual machines")
    others = _foreign_load(seen)
    if others is not None and others > OTHER_LOAD and place.cause != "cores-of-others":
        points -= 1
        notes.append(f"other processes used {percent(others)} of this host")
    levels: tuple[Confidence, ...] = ("low", "medium", "high")
    return levels[max(0, min(2, points))], notes


# ---- evidence in words


def evidence_lines(seen: CellEvidence, place: Diagnosis | None, agreeing: int | None) -> list[Evidence]:
    """What was seen beside the place; then both ends' workers, hosts, path and limits."""
    found: dict[str, str] = {}

    def add(name: str, text: str) -> None:
        found.setdefault(name, text)

    if place is not None:
        _of_place(seen, place, RULES[place.cause].kind, add)
    for end in (seen.client, seen.server):
        _of_end(seen, end, add)
    relay = next((t for r in seen.cell.records if (t := r.target.relay)), None)
    if relay:
        add("proxy", f"{relay}: it may be a proxy, so nothing of it is reported as the server's")
    for name, limit in seen.cell.ceilings.items():
        share = seen.facts.get(f"share.{name}")
        if share is not None and limit.measured:
            passed = ": the trial did more than this, so it is not a limit here"
            most = seen.cell.limit(name)
            which = most.text() if most.unit == "commits/s" else f"{name} ({most.text()})"
            add(name, f"{percent(share)} of {which}{passed if name in seen.cell.passed else ''}")
    for role, helper in seen.helpers.items():
        if helper.cpu is not None:
            most_busy = helper.busiest_thread
            thread = f", its busiest thread {percent(most_busy[1])} of one" if most_busy else ""
            add(role, f"the {machine.HELPERS.get(role, role)} uses {helper.cpu:.2f} cores{thread}")
    if seen.cell.answered and seen.service:
        add("service time", f"a batch takes {milliseconds(seen.service)} on average")
    if seen.over is not None:
        add("path", network.path_words(seen, seen.over))
    if seen.round_trip:
        window = seen.cell.parameters.get("window")
        under = f", window {size(window)}" if isinstance(window, int | float) else ""
        add("round trip", f"{milliseconds(seen.round_trip)}{under}")
    if seen.instrument and seen.instrument > 0.01:
        add("instrument", f"reading the clock took {percent(seen.instrument, 1)}")
    if agreeing is not None and seen.trials > 1:
        add("repeats", f"judged alone, {agreeing} of {seen.trials} repeats give this verdict")
    return [Evidence(name, text) for name, text in found.items()]


def _of_place(seen: CellEvidence, place: Diagnosis, kind: str, add: Callable[[str, str], None]) -> None:
    sender = seen.sender
    if place.cause == "cpu-quota":
        allowed, used = plural(place.numbers["quota_cores"], "core"), percent(min(place.numbers["used"], 1.0))
        held = held_back(place.numbers["held_back_cpus"])
        text = f"{place.end}: its control group allows {allowed}, of which it used {used}; {held}"
        add(f"{place.end} quota", text)
    elif kind == "cores":
        for end in machine.busy_ends(seen):
            if end.run_delay is not None and end.run_delay > 0.01:
                delay = f"waited for a CPU {percent(end.run_delay)} of the time that they could run"
                add(f"{end.name} run delay", f"the {end.name}'s threads {delay}")
    elif kind == "link":
        if (share := seen.of("raw TCP")) is not None:
            add("raw TCP", f"{percent(share)} of raw TCP, same streams and messages")
        if (use := network.interface_share(seen)) is not None:
            add("interface", f"{percent(use)} of the interface's speed")
        if sender.rtt and sender.min_rtt and sender.rtt > 3 * sender.min_rtt:
            trips = f"{milliseconds(sender.rtt)} under load, {milliseconds(sender.min_rtt)} at best"
            add("queue", f"round trip {trips}: a queue before the narrow place")
        if sender.retransmits:
            add("loss", f"{sender.retransmits:,.0f} segments were sent again")
    elif kind == "flow-control":
        away = place.numbers.get("round_trip_share", 0.0)
        if 0.01 <= away < servers.AWAY:
            add("on the way", f"the round trip is {percent(away)} of a batch's time")


def _of_end(seen: CellEvidence, end: evidence.End, add: Callable[[str, str], None]) -> None:
    for pool in end.pools.values():
        threads = plural(pool.threads, pool.name.removesuffix("s"))
        add(f"{end.name} {pool.name}", f"the {end.name}'s {threads}: busy {percent(pool.busy)}")
    if end.stages:
        # Several streams may share a thread: what one does is less than what its thread does.
        alone = end.of_threads == end.work
        who = "busy" if alone else f"each {nouns_of(seen.cell).stream} is busy"
        stages = f" ({shares(end.work)})" if end.work else ""
        idle = f"; {waiting(end.waiting)}" if end.waiting else ""
        busy = percent(min(1.0, sum(end.work.values())))
        add(f"{end.name} workers", f"{end.name}: {who} {busy}{stages}{idle}")
    same = end is seen.server and seen.same_machine and seen.client.busy is not None
    if end.busy is not None and not same:
        host = "host" if seen.same_machine else f"{end.name}'s host"
        if end is seen.server and seen.servers > 1:
            host = f"host of one of {seen.servers} servers"
        text = f"{host}: {percent(end.busy)} of {end.cores:g} cores busy" if end.cores else f"{host} busy"
        if end.busiest is not None:
            text += f", the busiest {percent(end.busiest)}"
        if end.softirq and end.softirq > 0.01:
            text += f"; softirq {percent(end.softirq)}"
        if end.steal and end.steal > 0.005:
            text += f"; stolen {percent(end.steal, 1)}"
        add(f"{end.name} host", text)
    if end.throttled and end.throttled > 0.01 and end.quota:
        add(
            f"{end.name} quota",
            f"{end.name}: its quota is {plural(end.quota, 'core')}; {held_back(end.throttled)}",
        )
    limited = {
        "receive window": end.receive_window_limited or 0.0,
        "send buffer": end.send_buffer_limited or 0.0,
    }
    if end is seen.sender and max(limited.values()) > 0.01:
        by = listed(f"the {n} {percent(s)}" for n, s in limited.items() if s > 0.01)
        add("sockets", f"the {end.name}'s sockets are limited by {by} of their time")
    if end is seen.server and seen.cell.in_rows and end.cpu is not None:
        text = f"the server process uses {end.cpu:.2f} cores"
        if end.busiest_thread and end.busiest_thread[0]:
            text += f", its busiest thread ({end.busiest_thread[0]}) {percent(end.busiest_thread[1])} of one"
        add("server process", text)
    if end.disk_busy and end.disk_busy > 0.2:
        add(f"{end.name} disk", f"{end.name}: busiest disk {percent(end.disk_busy)} busy")
