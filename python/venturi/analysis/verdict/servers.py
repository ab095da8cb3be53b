"""The server as the narrow place, what only a sweep shows of it, and what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from venturi.analysis.cells.figures import CALLS, by_key
from venturi.analysis.cells.summary import Cell
from venturi.analysis.cells.writes import count_batches
from venturi.analysis.verdict.evidence import CellEvidence, End, waits
from venturi.analysis.verdict.machine import (
    COMPUTES,
    IDLE,
    ONE_CORE,
    busiest_disk,
    busy_ends,
    computes,
    embedded,
    held_up,
    usable,
    wanted,
)
from venturi.analysis.verdict.network import CLIENT_WAITS, LIMITED
from venturi.analysis.verdict.types import (
    Diagnosis,
    MissingEvidence,
    Remedy,
    Verdict,
    VerdictText,
    beyond,
    measured,
)
from venturi.analysis.verdict.workers import DELAYED, DISK_SEEN, WORKERS
from venturi.analysis.wording import milliseconds, nouns_of, rows_rate, waiting
from venturi.common.units import Quantity, count, percent, plural
from venturi.engine.record import Resources
from venturi.targets.system import is_program

Lines = Iterator[str]

AWAY = 0.5
"""Share of a batch's service time that the bare round trip takes, from which on the path is the limit."""
BRIEF = 100e6
"""Ten of the kernel's ticks (ns): below, shares of a host's CPU time would be chance (docs/format.md)."""
START = 0.3
"""If the first batches take more of the interval than this, starting is what was measured."""
FEWER = 1.5
"""So many times fewer batches in flight make a cell one to compare with."""
NO_MORE = 0.05
"""A gain up to this share is none: the machine alone may do that."""
IN_PROPORTION = 0.5
"""Of what more in flight would gain in proportion: if it surely gains less, the rest queues."""
NO_MORE_CPU = 0.1
"""A difference of its CPU time up to this share is none: threads that take turns cost a little."""
LANES = ("streams", "threads", "in_flight")


def awaited(client: End) -> float:
    """Share of the client's time in which it waits for the server."""
    share = client.share(*(n for n in client.stages if waits(n)))
    return share - client.share("await_schedule", "await_thread")


def one_thread(seen: CellEvidence) -> bool:
    """Whether one thread of the server fills a core."""
    return bool(seen.server.busiest_thread and seen.server.busiest_thread[1] >= WORKERS)


def fills_cores(seen: CellEvidence) -> bool:
    """Whether a server has more batches than cores, and it computes on most of these, or they are full: more
    in flight would only wait for them."""
    lanes = (seen.client.workers or seen.streams) * awaited(seen.client)
    busy = bool(busy_ends(seen)) or (computes(seen, lanes) or 0.0) >= COMPUTES
    return busy and lanes > usable(seen, lanes)


# ---- batches in flight


def little_in_flight(seen: CellEvidence) -> Diagnosis | None:
    """Neither end is busy: rows a second are what is in flight over how long that takes."""
    client, server = seen.client, seen.server
    reply = client.share("await_reply")
    if not seen.cell.answered or server.stages or reply < CLIENT_WAITS or not seen.service:
        return None
    if any(held_up(seen, end) for end in busy_ends(seen)):
        # It waits for its turn on a CPU.
        return None
    lanes = client.workers or seen.streams
    away = seen.round_trip / seen.service if seen.round_trip else 0.0
    if away < AWAY and busy_ends(seen) and lanes > usable(seen, lanes):
        # More batches than cores, which are full, whoever fills them: each waits for a turn.
        return None
    working = computes(seen, lanes * reply)
    full = (server.thread_wanted or 0.0) >= WORKERS or one_thread(seen)
    if away < AWAY and (working is None or working >= IDLE or full):
        return None
    margin = max(beyond(away, AWAY), beyond(1 - working, 1 - IDLE) if working is not None else 0.0)
    numbers = measured(
        batches_in_flight=lanes,
        batch_ns=seen.service,
        await_reply=reply,
        round_trip_share=away or None,
        cpu_cores=server.cpu,
        disk_busy=busiest_disk(seen) or None,
    )
    lacks = () if away >= AWAY or seen.round_trip or seen.loopback else (MissingEvidence.ROUND_TRIP,)
    return Diagnosis("little-in-flight", None, "await_reply", margin, numbers, lacks)


def in_flight_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers = place.numbers
    lanes, away = numbers["batches_in_flight"], numbers.get("round_trip_share", 0.0)
    rows, batches = seen.cell.parameters.get("rows_per_batch"), plural(int(lanes), "batch")
    held = f"{batches} of {count(rows)} row{'' if rows == 1 else 's'}" if rows else batches
    took = milliseconds(numbers["batch_ns"])
    text = f"{held} {'is' if lanes == 1 else 'are'} in flight at a time and one takes {took}"
    yield text + (f", which makes {rows_rate(seen.rows)}" if seen.rows else "")
    text = f"the client waits for answers {percent(numbers['await_reply'])} of the time"
    if "cpu_cores" in numbers:
        text += f"; the server process uses {numbers['cpu_cores']:.2f} cores"
    yield text
    if away >= AWAY:
        yield f"{percent(min(away, 1.0))} of that is the round trip ({milliseconds(seen.round_trip or 0)})"
    elif (busy := numbers.get("disk_busy", 0.0)) >= DISK_SEEN:
        yield f"a disk is busy {percent(busy)}: commits may wait for it"


# ---- the server


def server(seen: CellEvidence) -> Diagnosis | None:
    """The client waits and the server reports nothing of itself; nor can it be the path."""
    client, other = seen.client, seen.server
    share = awaited(client)
    if other.stages or not client.stages or share < CLIENT_WAITS or server_or_path(seen):
        return None
    if other.cpu is not None and held_up(seen, other):
        return None
    lacks: tuple[MissingEvidence, ...]
    if not seen.cell.in_rows:
        lacks = () if one_thread(seen) else (MissingEvidence.SERVER_STAGES,)
    else:
        lacks = () if one_thread(seen) or other.cpu is not None else (MissingEvidence.SERVER_CPU,)
        if seen.loopback is not True and not seen.round_trip:
            lacks += (MissingEvidence.ROUND_TRIP,)
    lanes = (client.workers or seen.streams) * share
    if _idles(seen, lanes):
        batches, used = seen.cell.batches.value, other.cpu or 0.0
        numbers = measured(
            waiting=share,
            cpu_cores=other.cpu,
            batch_ns=1e9 * lanes / batches if batches else None,
            batch_cpu_ns=1e9 * used / batches if batches else None,
        )
        margin = beyond(1 - (computes(seen, lanes) or 0.0), 1 - IDLE)
        return Diagnosis("server-waits", "server", None, margin, numbers)
    numbers = measured(
        waiting=share,
        thread_busy=other.busiest_thread[1] if other.busiest_thread else None,
        cpu_cores=other.cpu,
        run_delay=other.run_delay,
    )
    return Diagnosis("server-waited-for", "server", None, beyond(share, CLIENT_WAITS - 0.1), numbers, lacks)


def _idles(seen: CellEvidence, lanes: float) -> bool:
    """Whether a server's process computes for less than half of the time that it could. One that fills about
    a core may do one thing at a time. For answers to batches `little_in_flight` has decided."""
    if seen.server.cpu is None or seen.cell.answered:
        return False
    least, most = ONE_CORE
    full = (seen.server.thread_wanted or 0.0) >= WORKERS or one_thread(seen)
    alone = least <= wanted(seen.server) <= most
    return not (full or alone) and (computes(seen, lanes) or 0.0) < IDLE


def server_or_path(seen: CellEvidence) -> bool:
    """Whether the client waits for a server on another host that reports nothing, over a path that was not
    measured, so that either may be what it waits for."""
    client, other = seen.client, seen.server
    if other.stages or seen.cell.in_rows or awaited(client) < CLIENT_WAITS:
        return False
    if seen.loopback is True or seen.of("raw TCP") is not None or seen.over is not None:
        return False
    if seen.sender is client and (client.receive_window_limited or 0.0) >= LIMITED:
        # What arrived there is not read.
        return False
    return not one_thread(seen)


def server_title(seen: CellEvidence, place: Diagnosis) -> str:
    return nouns_of(seen.cell).server + (": waits" if place.cause == "server-waits" else "")


def server_waits_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    noun = nouns_of(seen.cell).server
    yield f"the client {waiting(seen.client.waiting)}; the {noun} mostly waits too, for something else"
    took, own = place.numbers.get("batch_ns"), place.numbers.get("batch_cpu_ns")
    if took is not None and own is not None:
        yield f"it has a batch for {milliseconds(took)}, and computes {milliseconds(own)} of that"


def server_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    cpu, delay = place.numbers.get("cpu_cores"), place.numbers.get("run_delay", 0.0)
    yield f"the client {waiting(seen.client.waiting)}: the {nouns_of(seen.cell).server} sets the pace"
    if is_program(str(seen.cell.parameters.get("target"))):
        if cpu is not None:
            yield f"the programs of all streams, with what they have started, use {cpu:.2f} cores"
    elif seen.server.busiest_thread and one_thread(seen):
        name, full = seen.server.busiest_thread
        yield f"the server's busiest thread ({name}) fills {percent(full)} of a core"
    elif cpu is not None and seen.cell.in_rows:
        lanes = (seen.client.workers or seen.streams) * place.numbers["waiting"]
        cores = usable(seen, lanes)
        if cores < lanes:
            used = f"the server process uses {cpu:.2f} of {plural(cores, 'core')}"
            yield f"{used}, for {lanes:,.3g} batches at a time"
        else:
            busy = percent(cpu / lanes)
            used = f"the server process uses {cpu:.2f} cores"
            yield f"{used}: it computes {busy} of the time that it has a batch"
        if delay > DELAYED:
            yield f"it waited for a CPU {percent(delay)} of the time that it could run"
    elif cpu is not None:
        yield f"the process that listens on the server's port uses {cpu:.2f} cores"


# ---- what a sweep shows. If neither end is busy, batches may be too few, or queue in the server: a cell with
# fewer in flight that does as much settles it. A server that uses one core may just have one stream.


def refine_by_concurrency(cells: Sequence[Cell], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """These verdicts, as far as cells with more or fewer in flight, all else equal, do not correct them."""
    found = dict(verdicts)
    open_ones = [
        (cell, found[cell.name])
        for cell in cells
        if cell.name in found and found[cell.name].cause in ("little-in-flight", "server-waited-for")
    ]
    groups = by_key((_rest(cell), cell) for cell in cells) if open_ones else {}
    for cell, verdict in open_ones:
        beside = groups[_rest(cell)]
        if verdict.cause == "server-waited-for":
            alike = [c for c in beside if lanes(c) != lanes(cell) and _one_core(c, cell, verdicts)]
            if alike:
                other = max(alike, key=lambda c: abs(lanes(c) - lanes(cell)))
                found[cell.name] = _serial(verdict, cell, other, verdicts[other.name])
        elif cell.answered:
            fewer = [c for c in beside if lanes(c) * FEWER <= lanes(cell) and _queues(c, cell)]
            if fewer:
                found[cell.name] = _limited(verdict, cell, max(fewer, key=lanes))
    return found


def lanes(cell: Cell) -> float:
    """Batches in flight at a time."""
    return float(cell.parameters.get("streams") or 1) * float(cell.parameters.get("in_flight") or 1)


def _rest(cell: Cell) -> str:
    """All parameters but those that set the number of batches in flight."""
    return repr(sorted((k, repr(v)) for k, v in cell.parameters.items() if k not in LANES))


def _as_much(fewer: Cell, more: Cell) -> bool:
    one, two = fewer.main.value, more.main.value
    return one is not None and two is not None and one > 0 and two <= (1 + NO_MORE) * one


def _queues(fewer: Cell, more: Cell) -> bool:
    """Whether most of what more has in flight queues: it does as much, or surely little more."""
    one, two = fewer.main, more.main
    if _as_much(fewer, more):
        return True
    if not one.low or two.high is None:
        return False
    return two.high / one.low - 1 < IN_PROPORTION * (lanes(more) / lanes(fewer) - 1)


def _one_core(one: Cell, other: Cell, found: Mapping[str, Verdict]) -> bool:
    """Whether the server uses about one core with either number of streams, and moves as much."""
    fewer, more = sorted((one, other), key=lanes)
    verdicts = [found[c.name] for c in (one, other) if c.name in found]
    used = [v.numbers.get("cpu_cores", 0.0) for v in verdicts if v.cause == "server-waited-for"]
    least, most = ONE_CORE
    alike = len(used) == 2 and least <= min(used) and max(used) <= min(most, (1 + NO_MORE_CPU) * min(used))
    return alike and _as_much(fewer, more)


def _serial(verdict: Verdict, cell: Cell, other: Cell, others: Verdict) -> Verdict:
    cpu, other_cpu = verdict.numbers["cpu_cores"], others.numbers["cpu_cores"]
    numbers = {
        "cpu_cores": cpu,
        "streams": lanes(cell),
        "other_cpu_cores": other_cpu,
        "other_streams": lanes(other),
    }
    one, two = (plural(lanes(c), nouns_of(cell).stream) for c in (cell, other))
    lines = (
        f"the server process uses {cpu:.2f} cores with {one} and {other_cpu:.2f} with {two}, "
        "and moves as much",
        "it does one thing at a time: one thread, a lock or an interpreter",
    )
    tools = "perf top -g -p PID, of Python py-spy top --pid PID"
    profile = Remedy("profile", f"see where that core goes, on the server's host: {tools}")
    return _server_limit(verdict, "server: one core", numbers, lines, (profile,))


def _limited(verdict: Verdict, cell: Cell, fewer: Cell) -> Verdict:
    numbers = {"batches_in_flight": lanes(cell), "fewer_in_flight": lanes(fewer)}
    few, many = count_batches(int(lanes(fewer))), count(int(lanes(cell)))
    compared = f"{few} in flight did as much ({fewer.main}) as {many}"
    if fewer.main.value and cell.main.value:
        gain = cell.main.value / fewer.main.value - 1
        if abs(gain) > NO_MORE:
            numbers["gain"] = gain
            change = f"{percent(-gain)} less" if gain < 0 else f"only {percent(gain)} more"
            compared = f"{few} in flight: {fewer.main}; {many} in flight: {change}"
    lines = [compared]
    for name, one in (("batch_ns", cell), ("fewer_batch_ns", fewer)):
        took = [t for r in one.records if (t := r.latency.service.mean) is not None]
        numbers |= {name: sum(took) / len(took)} if took else {}
    if {"batch_ns", "fewer_batch_ns"} <= numbers.keys():
        more, less = (Quantity(numbers[n], unit="ns").text() for n in ("batch_ns", "fewer_batch_ns"))
        lines.append(f"each batch took {more} instead of {less}")
    lines.append(
        "neither the client nor the CPUs are busy, so batches queue in the server: before a lock or its log"
    )
    return _server_limit(verdict, "server: a limit within it", numbers, tuple(lines))


def _server_limit(
    verdict: Verdict,
    title: str,
    numbers: Mapping[str, float],
    lines: tuple[str, ...],
    first: tuple[Remedy, ...] = (),
) -> Verdict:
    def revise(before: VerdictText) -> VerdictText:
        # More or fewer batches in flight were tried.
        others = tuple(r for r in before.remedies if not set(r.changes) & set(LANES))
        return replace(before, lines=lines, remedies=(*first, *others))

    return verdict.revised(
        revise, kind="server", cause="server-limit", end="server", stage=None, title=title, numbers=numbers
    )


# ---- what is not known


def unknown(seen: CellEvidence) -> list[Diagnosis]:
    """What is missing if no proof holds: at least one, the gravest first."""
    cell, client, server = seen.cell, seen.client, seen.server
    # What the other end of a plugin or a driver is, and what lies between, is its own matter.
    plugged = not client.stages.keys().isdisjoint(CALLS)
    found: list[Diagnosis] = []
    lacks: list[MissingEvidence] = []
    if not seen.trials:
        return [Diagnosis("no-good-trial")]
    if not client.stages and client.busy is None:
        return [Diagnosis("not-measured", lacks=(MissingEvidence.BOTH_STAGES,))]
    if seen.start is not None and seen.start > START:
        found.append(Diagnosis("too-short", numbers={"start": seen.start}))
    if client.busy is None and client.cpu is not None and (brief := _brief(cell)) is not None:
        found.append(Diagnosis("too-short", numbers={"interval_ns": brief}))
    elif client.busy is None:
        lacks.append(MissingEvidence.CLIENT_HOST)
    if server_or_path(seen):
        found.append(Diagnosis("server-or-path", numbers={"waiting": awaited(client)}))
    if cell.in_rows and not server.stages and server.cpu is None and not embedded(seen):
        lacks.append(MissingEvidence.SERVER_CPU)
    elif not cell.in_rows and not server.stages and not plugged:
        lacks.append(MissingEvidence.SERVER_STAGES)
    unmeasured = seen.of("raw TCP") is None and seen.loopback is not True and seen.over is None
    if not cell.in_rows and unmeasured and not plugged:
        lacks.append(MissingEvidence.RAW_TCP)
    if lacks:
        found.append(Diagnosis("not-measured", lacks=tuple(lacks)))
    return found or [Diagnosis("nothing-at-its-limit")]


def _brief(cell: Cell) -> float | None:
    """The median interval (ns) of sampled trials that are shorter than the CPUs' clocks can resolve."""
    sampled = [r for r in cell.records if r.resources != Resources()]
    times = sorted(t for r in sampled if (t := r.times.interval_ns) is not None)
    return times[len(times) // 2] if times and times[len(times) // 2] < BRIEF else None


def failed_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    yield "no trial of this cell was good"


def short_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    if "start" in place.numbers:
        took = percent(place.numbers["start"])
        yield f"the first batches took {took} of the trial: it measures mostly the start"
    else:
        took = milliseconds(place.numbers["interval_ns"])
        yield f"trials of {took} are too short to see how busy the hosts' CPUs were"


def unmeasured_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    servers = max((r.target.servers or 1 for r in seen.cell.records), default=1)
    silent = "the server does not report its stages"
    words = {
        MissingEvidence.BOTH_STAGES: "neither stages nor resources were recorded, as in imported results",
        MissingEvidence.CLIENT_HOST: "the hosts' CPUs were not sampled",
        MissingEvidence.SERVER_CPU: "the server's process was not seen: it is on another host, or hidden",
        MissingEvidence.SERVER_STAGES: silent
        if servers < 2
        else f"of {servers:g} servers not all report their stages",
        MissingEvidence.RAW_TCP: "raw TCP over this path was not measured",
    }
    for lack in place.lacks:
        yield words[lack]


def server_or_path_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    yield f"the client {waiting(seen.client.waiting)}: the server or the path to it sets the pace"


def nearest_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    """The place that is nearest to its limit."""
    places = {f"the {e.name}'s workers": e.occupancy for e in (seen.client, seen.server)}
    places |= {"the host's cores": seen.busy, "raw TCP": seen.of("raw TCP") if not seen.loopback else None}
    places["the link"] = None if seen.over is None else seen.over.share
    shares = {n: v for n, v in places.items() if v is not None}
    if not shares:
        yield "nothing is at its limit: no share of any limit is known"
        return
    name = max(shares, key=lambda n: shares[n])
    yield f"nothing is at its limit: nearest are {name} with {percent(shares[name])}"
