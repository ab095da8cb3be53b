"""Verdicts: the narrowest place of each cell, with its numbers, how sure that is, and what to try next.

METHOD's order of proof (`venturi.analysis.verdict.proof`); `docs/verdicts.md` says what each verdict means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from venturi.analysis.cells import servers
from venturi.analysis.cells.summary import Cell, ends_by_itself, get, numeric
from venturi.analysis.verdict import crowding, evidence
from venturi.analysis.verdict.evidence import Evidence, Seen
from venturi.analysis.verdict.failed import Failed
from venturi.analysis.verdict.proof import Hit, first
from venturi.analysis.verdict.proof.cores import HELD, embedded
from venturi.analysis.verdict.proof.ends import own_stages
from venturi.analysis.verdict.remedies import elsewhere, more_streams, raw_tcp, remedies
from venturi.analysis.verdict.rerun import Rerun
from venturi.analysis.verdict.types import Confidence, Verdict
from venturi.analysis.words.wording import (
    held_back,
    listed,
    milliseconds,
    named,
    shares,
    size,
    waiting,
)
from venturi.common.units import percent, plural

__all__ = ["judge", "verdicts"]

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
BRIEF = 100e6
"""Ten of the kernel's ticks (ns): below, shares of a host's CPU time would be chance (docs/format.md)."""
START = 0.3
"""Where the first batches take more of the interval than this, starting is what was measured."""


def verdicts(cells: Sequence[Cell], environment: Mapping[str, Any] | None = None) -> dict[str, Verdict]:
    """The verdict of each cell, by its name. `environment` is the run's environment.json."""
    found = crowding.against_fewer(cells, {cell.name: judge(cell, environment) for cell in cells})
    failed, by_name = Failed(cells), {cell.name: cell for cell in cells}
    for name, one in found.items():
        steps = tuple(text for text in one.next if not failed.asked_for(text, by_name[name]))
        if steps != one.next:
            found[name] = replace(one, next=steps)
    return found


def judge(cell: Cell, environment: Mapping[str, Any] | None = None) -> Verdict:
    """The narrowest place of one cell, from its good trials alone. Never raises for what is missing."""
    environment = environment or {}
    usable = {end: n for end in ("client", "server") if (n := _usable(cell, environment, end))}
    single = [evidence.facts(record, usable) for record in cell.records]
    seen = evidence.seen(cell, evidence.medians(single), len(single))
    rerun = Rerun.of(cell, environment)
    hit = first(seen)
    if hit is None:
        return _unknown(seen, rerun)
    if len(single) > 1:
        each = [first(evidence.seen(cell, f, 1)) for f in single]
        agreeing = sum(h is not None and (h.kind, h.end) == (hit.kind, hit.end) for h in each)
    else:
        agreeing = len(single)
    sure, doubts = _confidence(seen, hit, agreeing)
    sentence = f"{hit.sentence}; {listed(doubts)}" if doubts else hit.sentence
    return Verdict(
        kind=hit.kind,  # type: ignore[arg-type]  # a Hit's kinds are those of Verdict; tests compare them
        end=hit.end,
        stage=hit.stage,
        title=hit.title,
        sentence=named(sentence, cell),
        evidence=(*hit.evidence, *_ground(seen, hit, agreeing)),
        confidence=sure,
        next=tuple(named(text, cell) for text in remedies(seen, hit, rerun)),
        flagged=hit.flagged,
    )


def _usable(cell: Cell, environment: Mapping[str, Any], end: str) -> int | None:
    """How many CPUs that end's process may use, as it said when the run began."""
    described, place = environment.get(end), str(cell.parameters.get("place"))
    if end == "server":
        described = get(environment, "servers", place) or described
        told = servers.several(environment).get(place, {}).values()
        each = [get(one, "cores", "usable") for one in told if one]
        if len(set(each)) > 1:
            # Which of them was watched is not recorded.
            return None
    found = get(described, "cores", "usable")
    return found if isinstance(found, int) and found > 0 else None


def _others(seen: Seen) -> float | None:
    """Share of the client's host that neither end used."""
    client, server = seen.client, seen.server
    if client.cpu is None or not client.cores or "client.host.busy_share" not in seen.facts:
        return None
    own = client.cpu
    if seen.same_machine is not False and not embedded(seen):
        if server.cpu is None:
            return None
        own += server.cpu
    total = seen.facts.get("client.host.cores") or client.cores
    return max(0.0, seen.facts["client.host.busy_share"] - own / total)


def _confidence(seen: Seen, hit: Hit, agreeing: int) -> tuple[Confidence, list[str]]:
    """How far the verdict can be trusted, and what takes from that, in words."""
    points, doubts = 2, []
    if hit.margin < CLOSE:
        points -= 1
    if hit.margin <= 0.0:
        points -= 1
    if seen.trials > 1 and agreeing / seen.trials < AGREE:
        points -= 2 if agreeing / seen.trials < DISAGREE else 1
        doubts.append(f"only {agreeing} of {seen.trials} repeats say the same for themselves")
    elif seen.trials == 1:
        points -= 1
    if hit.lacks:
        points -= 1
        doubts.append(f"not known: {listed(hit.lacks)}")
    if seen.servers > 1 and hit.kind in ("cores", "disk") and hit.end != "client":
        points -= 1
        doubts.append(f"of {seen.servers} servers one was watched")
    steal = max(seen.client.steal or 0.0, seen.server.steal or 0.0)
    if steal > STOLEN:
        points -= 1
        doubts.append(f"{percent(steal)} of the CPU time was stolen by other virtual machines")
    others = _others(seen)
    if others is not None and others > OTHER_LOAD and not hit.title.endswith(HELD):
        points -= 1
        doubts.append(f"other processes used {percent(others)} of this host")
    levels: tuple[Confidence, ...] = ("low", "medium", "high")
    return levels[max(0, min(2, points))], doubts


def _ground(seen: Seen, hit: Hit | None, agreeing: int | None) -> list[Evidence]:
    """What was seen, whatever the verdict: both ends' workers, hosts, path and the limits measured."""
    found: list[Evidence] = []

    def add(name: str, text: str) -> None:
        if not any(e.name == name for e in (hit.evidence if hit else ())):
            found.append(Evidence(name, text))

    for end in (seen.client, seen.server):
        for pool in end.pools.values():
            add(
                f"{end.name} {pool.name}",
                f"the {end.name}'s {plural(pool.threads, pool.name.removesuffix('s'))}: "
                f"busy {percent(pool.busy)}",
            )
        if end.stages and end.occupancy is not None:
            add(
                f"{end.name} workers",
                f"{end.name}: busy {percent(end.occupancy)}"
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
            text = f"the server's process uses {end.cpu:.2f} cores"
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
        share = seen.of(name)
        if share is not None and limit.known:
            add(name, f"{percent(share)} of {name} ({limit.text()})")
    if seen.cell.answered and seen.service:
        add("service time", f"a batch takes {milliseconds(seen.service)} on average")
    if seen.round_trip:
        window = seen.cell.parameters.get("window")
        under = f", window {size(window)}" if isinstance(window, int | float) else ""
        add("round trip", f"{milliseconds(seen.round_trip)}{under}")
    if seen.instrument and seen.instrument > 0.01:
        add("instrument", f"reading the clock took {percent(seen.instrument, 1)}")
    if agreeing is not None and seen.trials > 1:
        add("repeats", f"{agreeing} of {seen.trials} repeats say the same for themselves")
    return found


def _unknown(seen: Seen, rerun: Rerun) -> Verdict:
    """What is missing for a verdict, and what would settle it."""
    cell, client, server = seen.cell, seen.client, seen.server
    missing, settle = [], []
    if not seen.trials:
        missing.append("no trial of this cell was good")
        settle.append(f"mend what made them fail, then: {rerun.but()}")
    elif not client.stages and client.busy is None:
        missing.append("neither stages nor resources were recorded, as in imported results")
        if str(cell.parameters.get("target") or "flight://").startswith(("flight", "charrow")):
            settle.append(f"the same moved by Venturi: {rerun.but()}")
        else:
            settle.append("CPU of both ends and of the path while it runs: the tool that made it keeps none")
    else:
        if seen.start is not None and seen.start > START:
            missing.append(
                f"the first batches took {percent(seen.start)} of the interval: that measures a start"
            )
            settle.append(_longer(cell, rerun, "5s"))
        if client.busy is None and client.cpu is not None and (brief := _brief(cell)) is not None:
            missing.append(
                f"trials of {milliseconds(brief)} are too short to see how busy the hosts' CPUs were"
            )
            settle.append(_longer(cell, rerun, "1s"))
        elif client.busy is None:
            missing.append("nobody looked at the hosts' CPUs")
            settle.append(f"with samples: {rerun.but(sample_interval='100ms')}")
        if cell.in_rows and not server.stages and server.cpu is None and not embedded(seen):
            missing.append(
                "what the server's process did is not known: it runs on another host, or is hidden"
            )
            settle.append("the same on the server's own host, where its process can be seen")
        elif not cell.in_rows and not server.stages:
            several = max((numeric(r, "target", "servers") or 1 for r in cell.records), default=1)
            missing.append(
                "the server gives no account of its stages"
                if several < 2
                else f"not each of the {several:g} servers gives an account of its stages"
            )
            settle.append(f"a server that does: {elsewhere(seen, rerun)}")
        if not cell.in_rows and seen.of("raw TCP") is None and seen.loopback is not True:
            missing.append("raw TCP over this path was not measured")
            settle.append(raw_tcp(seen))
        if not missing:
            missing.append("nothing is at its limit: " + _nearest(seen))
            settle.append(f"more in flight: {more_streams(seen, rerun)}")
            settle.append(f"more repeats, in case they were disturbed: {rerun.but(repeats=15)}")
    own = own_stages(seen)
    sentence = "; ".join(missing)
    if own and sum(own.values()) > 0.3:
        sentence += f"; the client's own work takes {percent(sum(own.values()))} of its time"
    return Verdict(
        "unknown", None, None, "not known", sentence, tuple(_ground(seen, None, None)), "low",
        tuple(settle[:3]), False,
    )  # fmt: skip


def _longer(cell: Cell, rerun: Rerun, duration: str) -> str:
    if ends_by_itself(cell):
        return "a larger table: the server has sent all that it holds of this one"
    return f"a longer trial: {rerun.but(rows_per_stream=None, bytes_per_stream=None, duration=duration)}"


def _nearest(seen: Seen) -> str:
    """The place that is nearest to its limit."""
    places = {f"the {e.name}'s workers": e.occupancy for e in (seen.client, seen.server)}
    places |= {"the host's cores": seen.busy, "raw TCP": seen.of("raw TCP") if not seen.loopback else None}
    known = {n: v for n, v in places.items() if v is not None}
    if not known:
        return "no share of any limit is known"
    name = max(known, key=lambda n: known[n])
    return f"nearest are {name} with {percent(known[name])}"


def _brief(cell: Cell) -> float | None:
    """The median interval (ns) of trials that were sampled, but for less than the CPUs' clocks tell apart."""
    sampled = [r for r in cell.records if r.get("resources")]
    times = sorted(t for r in sampled if (t := numeric(r, "times", "interval_ns")) is not None)
    return times[len(times) // 2] if times and times[len(times) // 2] < BRIEF else None
