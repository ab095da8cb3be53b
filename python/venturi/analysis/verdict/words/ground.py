"""What a verdict rests on, in words: the evidence, and what takes from its confidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from venturi.analysis.cells.figures import get
from venturi.analysis.verdict.causes import Cause
from venturi.analysis.verdict.evidence import CellEvidence, Evidence
from venturi.analysis.verdict.proof import Diagnosis, cores
from venturi.analysis.verdict.proof.databases import AWAY
from venturi.analysis.verdict.proof.path import interface_share
from venturi.analysis.verdict.words import links
from venturi.analysis.verdict.words.hits import HELPERS, LACKS
from venturi.analysis.words.wording import held_back, listed, milliseconds, nouns_of, shares, size, waiting
from venturi.common.units import percent, plural

__all__ = ["doubts", "ground"]


def doubts(
    hit: Diagnosis,
    trials: int,
    agreeing: int | None,
    watched_of: int,
    steal: float | None,
    others: float | None,
) -> list[str]:
    """What takes from the confidence; what is None does not."""
    found = []
    if agreeing is not None:
        found.append(f"judged alone, only {agreeing} of {trials} repeats give this verdict")
    if hit.lacks:
        found.append(f"not known: {listed(LACKS[lack] for lack in hit.lacks)}")
    if watched_of > 1:
        found.append(f"of {watched_of} servers one was watched")
    if steal is not None:
        found.append(f"{percent(steal)} of the CPU time was stolen by other virtual machines")
    if others is not None:
        found.append(f"other processes used {percent(others)} of this host")
    return found


Beside = Iterator[tuple[str, str]]


def _of_cores(seen: CellEvidence, hit: Diagnosis) -> Beside:
    if hit.cause is Cause.CPU_QUOTA:
        yield from _of_quota(seen, hit)
    elif hit.cause is not Cause.ONE_CORE_FOR_BOTH:
        for end in cores.busy_ends(seen):
            if end.run_delay is not None and end.run_delay > 0.01:
                yield (
                    f"{end.name} run delay",
                    f"the {end.name}'s threads waited for a CPU {percent(end.run_delay)} of the time that "
                    "they could run",
                )


def _of_quota(seen: CellEvidence, hit: Diagnosis) -> Beside:
    if "quota_cores" in hit.numbers:
        yield (
            f"{hit.end} quota",
            f"{hit.end}: its control group allows {plural(hit.numbers['quota_cores'], 'core')}, of which it "
            f"used {percent(min(hit.numbers['used'], 1.0))}; {held_back(hit.numbers['held_back_cpus'])}",
        )


def _of_link(seen: CellEvidence, hit: Diagnosis) -> Beside:
    sender, share, use = seen.sender, seen.of("raw TCP"), interface_share(seen)
    if share is not None:
        yield "raw TCP", f"{percent(share)} of raw TCP, same streams and messages"
    if use is not None:
        yield "interface", f"{percent(use)} of the interface's speed"
    if sender.rtt and sender.min_rtt and sender.rtt > 3 * sender.min_rtt:
        yield (
            "queue",
            f"round trip {milliseconds(sender.rtt)} under load, {milliseconds(sender.min_rtt)} at best: a "
            "queue before the narrow place",
        )
    if sender.retransmits:
        yield "loss", f"{sender.retransmits:,.0f} segments were sent again"


def _of_flow(seen: CellEvidence, hit: Diagnosis) -> Beside:
    away = hit.numbers.get("round_trip_share", 0.0)
    if 0.01 <= away < AWAY:
        yield "on the way", f"the round trip is {percent(away)} of a batch's time"


_BESIDE: dict[str, Callable[[CellEvidence, Diagnosis], Beside]] = defaultdict(
    lambda: lambda seen, hit: iter(()),
    {"cores": _of_cores, "stage": _of_quota, "link": _of_link, "flow-control": _of_flow},
)


def ground(seen: CellEvidence, hit: Diagnosis | None, agreeing: int | None) -> list[Evidence]:
    """What was seen beside the hit; then, whatever it is, both ends' workers, hosts, path and limits."""
    of_hit = [Evidence(name, text) for name, text in _BESIDE[hit.kind](seen, hit)] if hit is not None else []
    found = list(of_hit)

    def add(name: str, text: str) -> None:
        if not any(e.name == name for e in of_hit):
            found.append(Evidence(name, text))

    for end in (seen.client, seen.server):
        for pool in end.pools.values():
            add(
                f"{end.name} {pool.name}",
                f"the {end.name}'s {plural(pool.threads, pool.name.removesuffix('s'))}: "
                f"busy {percent(pool.busy)}",
            )
        if end.stages:
            # Several streams may share a thread: what one does is less than what its thread does.
            alone = end.of_threads == end.work
            who = "busy" if alone else f"each {nouns_of(seen.cell).stream} is busy"
            add(
                f"{end.name} workers",
                f"{end.name}: {who} {percent(min(1.0, sum(end.work.values())))}"
                + (f" ({shares(end.work)})" if end.work else "")
                + (f"; {waiting(end.waiting)}" if end.waiting else ""),
            )
        if end.busy is not None and not (
            end is seen.server and seen.same_machine and seen.client.busy is not None
        ):
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
            add(
                "sockets",
                f"the {end.name}'s sockets are limited by "
                + listed(f"the {n} {percent(s)}" for n, s in limited.items() if s > 0.01)
                + " of their time",
            )
        if end is seen.server and seen.cell.in_rows and end.cpu is not None:
            text = f"the server process uses {end.cpu:.2f} cores"
            if end.busiest_thread and end.busiest_thread[0]:
                text += (
                    f", its busiest thread ({end.busiest_thread[0]}) {percent(end.busiest_thread[1])} of one"
                )
            add("server process", text)
        if end.disk_busy and end.disk_busy > 0.2:
            add(f"{end.name} disk", f"{end.name}: busiest disk {percent(end.disk_busy)} busy")
    relay = next((t for r in seen.cell.records if (t := get(r, "target", "relay"))), None)
    if relay:
        add("proxy", f"{relay}: it may be a proxy, so nothing of it is told as the server's")
    for name, limit in seen.cell.ceilings.items():
        share = seen.facts.get(f"share.{name}")
        if share is not None and limit.known:
            passed = (
                ": the trial did more than this, so it is not a limit here"
                if name in seen.cell.passed
                else ""
            )
            told = seen.cell.limit(name)
            which = told.text() if told.unit == "commits/s" else f"{name} ({told.text()})"
            add(name, f"{percent(share)} of {which}{passed}")
    for role, helper in seen.helpers.items():
        if helper.cpu is not None:
            most = helper.busiest_thread
            thread = f", its busiest thread {percent(most[1])} of one" if most else ""
            add(role, f"the {HELPERS.get(role, role)} uses {helper.cpu:.2f} cores{thread}")
    if seen.cell.answered and seen.service:
        add("service time", f"a batch takes {milliseconds(seen.service)} on average")
    if seen.over is not None:
        add("path", links.path(seen, seen.over))
    if seen.round_trip:
        window = seen.cell.parameters.get("window")
        under = f", window {size(window)}" if isinstance(window, int | float) else ""
        add("round trip", f"{milliseconds(seen.round_trip)}{under}")
    if seen.instrument and seen.instrument > 0.01:
        add("instrument", f"reading the clock took {percent(seen.instrument, 1)}")
    if agreeing is not None and seen.trials > 1:
        add("repeats", f"judged alone, {agreeing} of {seen.trials} repeats give this verdict")
    return found
