"""A hit as a title and lines, each of which is one thought."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from venturi.analysis.cells.ceilings import CIPHER
from venturi.analysis.cells.probed import codec_of
from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CODEC, CellEvidence, End
from venturi.analysis.verdict.proof import Diagnosis, cores, path, pools
from venturi.analysis.verdict.proof.ends import WORKERS, own_stages
from venturi.analysis.verdict.words import databases, links
from venturi.analysis.words.wording import cores as all_cores
from venturi.analysis.words.wording import (
    held_back,
    milliseconds,
    nouns_of,
    rate,
    shares,
    size,
    waiting,
)
from venturi.common.units import percent, plural, significant

__all__ = ["HELPERS", "LACKS", "TITLES", "as_narrow", "end_of", "lines", "title"]

Lines = Iterator[str]

LACKS = {
    MissingEvidence.BOTH_STAGES: "the stages of both ends",
    MissingEvidence.CLIENT_STAGES: "the client's stages",
    MissingEvidence.SERVER_STAGES: "the server's stages",
    MissingEvidence.RECEIVER_STAGES: "the receiver's stages",
    MissingEvidence.CLIENT_HOST: "whether the client's host had a core to spare",
    MissingEvidence.SERVER_HOST: "whether the server's host had a core to spare",
    MissingEvidence.CLIENT_CPU: "the CPU time of the client",
    MissingEvidence.SERVER_CPU: "the server's CPU",
    MissingEvidence.ROUND_TRIP: "the round trip",
    MissingEvidence.RAW_TCP: "raw TCP over the same path",
}


HELPERS = {"relay": "link's relay"}
"""What Venturi runs beside both ends, by role."""


def end_of(seen: CellEvidence, hit: Diagnosis) -> End:
    return seen.client if hit.end == "client" else seen.server


def title(seen: CellEvidence, hit: Diagnosis) -> str:
    """A few words: `both cores`, `server: encode`, `link`."""
    fixed = TITLES.get(hit.cause)
    if fixed is not None:
        server = nouns_of(seen.cell).server
        return fixed.format(stage=hit.stage, end=hit.end, pool=hit.pool, server=server)
    if hit.cause is Cause.CORES_OF_OTHERS:
        return f"cores{_whose(seen)}: others"
    if hit.cause is Cause.CORES_FULL:
        return f"{_which(seen)[0]}{_whose(seen)}"
    return f"{hit.end}: {hit.stage or 'its CPU quota'}, throttled"


def lines(seen: CellEvidence, hit: Diagnosis) -> tuple[str, ...]:
    """What was found, with its numbers, and what that means."""
    return tuple(_LINES[hit.cause](seen, hit))


def as_narrow(seen: CellEvidence, hit: Diagnosis) -> tuple[str, ...]:
    """What is said of the second of two narrow places."""
    first, *rest = lines(seen, hit)
    return (f"two places, equally narrow: {first}", *rest)


TITLES = {
    Cause.SCHEDULE_KEPT: "its schedule, kept up",
    Cause.OWN_WORK: "load generator: {stage}",
    Cause.TOO_FEW_THREADS: "load generator: too few threads",
    Cause.CLOCK_READING: "load generator: its clock",
    Cause.LINK_RELAY: "the link's relay",
    Cause.CPU_QUOTA: "{end}: CPU quota",
    Cause.ONE_CORE_FOR_BOTH: "one core for both ends",
    Cause.POOL_BUSY: "{end}: {pool}",
    Cause.POOL_BUSIEST: "{end}: {pool}",
    Cause.POOL_OWN_WORK: "load generator: {pool}",
    Cause.POOL_TAKES_TURNS: "{end}: {stage}",
    Cause.ENGINE_BUSY: "client: database engine",
    Cause.ENGINE_ONE_WRITER: "client: one writer",
    Cause.ENGINE_WAITS: "client: engine waits",
    Cause.PLUGIN_BUSY: "your code: computes",
    Cause.PLUGIN_ONE_INTERPRETER: "your code: one interpreter",
    Cause.PLUGIN_WAITS: "your code: waits",
    Cause.DRIVER_BUSY: "driver: computes",
    Cause.DRIVER_WAITS: "driver: waits",
    Cause.CIPHER_REACHED: "{end}: TLS's cipher",
    Cause.STAGE_BUSY: "{end}: {stage}",
    Cause.STAGE_BUSIEST: "{end}: {stage}",
    **dict.fromkeys((Cause.RAW_TCP_REACHED, Cause.INTERFACE_FULL, Cause.SOCKET_BLOCKED), "link"),
    Cause.LINK_FULL: "link",
    Cause.LINK_SHARED: "link: traffic of others",
    Cause.LOSS: "link: losses",
    Cause.SLOW_START: "flow control: TCP's start",
    **dict.fromkeys((Cause.DISK_BUSY, Cause.DISK_CEILING), "disk of the {end}"),
    Cause.DISK_COMMITS: "disk of the {end}: commits",
    Cause.MEMORY_BANDWIDTH: "memory bandwidth",
    Cause.LITTLE_IN_FLIGHT: "too little in flight",
    Cause.HTTP2_WINDOW: "flow control: HTTP/2 window",
    Cause.RECEIVE_WINDOW: "flow control: receive window",
    Cause.SEND_BUFFER: "flow control: send buffer",
    Cause.ACKNOWLEDGEMENTS: "flow control: acknowledgements",
    Cause.SERVER_LIMIT: "server: a limit within it",
    Cause.SERVER_WAITED_FOR: "{server}",
    Cause.SERVER_WAITS: "{server}: waits",
    Cause.SERIAL_SERVER: "server: one core",
    **dict.fromkeys((c for c in Cause if c.kind == "unknown"), "not known"),
    Cause.SERVER_OR_PATH: "server or path",
}


# ---- cores


def _which(seen: CellEvidence) -> tuple[str, str]:
    """The cores that are full, and their verb."""
    number = cores.filled(seen)[0].cores
    if not cores.pinned(seen):
        return all_cores(number)
    which = "the core" if (number or 1) == 1 else f"the {plural(number or 1, 'core')}"
    return f"{which} that the client is pinned to", "is" if (number or 1) == 1 else "are"


def _whose(seen: CellEvidence) -> str:
    ends, filled = cores.busy_ends(seen), cores.filled(seen)
    if cores.pinned(seen) or cores.embedded(seen) or ends != filled or (len(ends) > 1 and cores.shared(seen)):
        return ""
    return " of the " + " and of the ".join(e.name for e in filled)


def _mix(seen: CellEvidence, ends: tuple[End, ...]) -> str:
    """`send 41 %, receive 35 %`; a stage that both ends have, with its end."""
    found = cores.mix(seen, ends)
    own = {"server": nouns_of(seen.cell).server, **HELPERS}
    stages = [part.stage for part in found]
    named = {
        "other processes"
        if part == cores.OTHERS
        else f"the {own.get(str(part.end), part.end)}"
        if part.stage is None
        else f"{part.stage} ({part.end})"
        if stages.count(part.stage) > 1
        else part.stage: share
        for part, share in found.items()
    }
    return shares(named) if named else ""


def _relay(seen: CellEvidence, hit: Diagnosis) -> Lines:
    numbers = hit.numbers
    if "busy" in numbers:
        yield from _cores(seen, hit)
    else:
        yield (
            f"the link's relay, which passes each frame on, is busy: its busiest thread fills "
            f"{percent(numbers['thread_busy'])} of a core"
        )
    yield "the relay is Venturi's, so this is how fast the link can be made here, not how fast the server is"


def _cores(seen: CellEvidence, hit: Diagnosis) -> Lines:
    which, verb = _which(seen)
    text = f"{which}{_whose(seen)} {verb} busy {percent(hit.numbers['busy'])}"
    steal = hit.numbers.get("stolen", 0.0)
    if steal > 0.01:
        text += f" of the time that was not stolen ({percent(steal)} was)"
    mix = _mix(seen, cores.busy_ends(seen))
    yield text + (f": {mix}" if mix else "")
    if hit.numbers.get("others", 0.0) > cores.ELSEWHERE:
        yield "most of that is other processes: stop them and measure again"


def _quota(seen: CellEvidence, hit: Diagnosis) -> Lines:
    mix = _mix(seen, (end_of(seen, hit),))
    yield (
        f"the {plural(hit.numbers['quota_cores'], 'core')} that the {hit.end}'s control group allows are "
        f"used up{f': {mix}' if mix else ''}"
    )


def _part_of_a_core(seen: CellEvidence, hit: Diagnosis) -> Lines:
    work = end_of(seen, hit).work
    yield (
        f"the {hit.end} may use {hit.numbers['quota_cores']:g} of a core (its control group's quota) and has "
        f"used it up: {held_back(hit.numbers['held_back_cpus'])}"
    )
    if work:
        yield f"the {hit.end}'s work: {shares(work)}"


def _one_core(seen: CellEvidence, hit: Diagnosis) -> Lines:
    yield (
        f"the scheduler keeps both ends on one core, busy {percent(hit.numbers['busy'])}, while the others "
        f"have time to spare: {_mix(seen, (seen.client, seen.server))}"
    )


# ---- the workers of one end


def _schedule(seen: CellEvidence, hit: Diagnosis) -> Lines:
    numbers = hit.numbers
    yield (
        f"the schedule offers {numbers['offered_batches_per_second']:,.6g} batches/s and "
        f"{percent(min(numbers['kept'], 1.0), 1)} of that was moved"
    )
    if numbers.get("late"):
        yield f"{percent(numbers['late'], 1)} of the batches were late"
    if numbers.get("spare"):
        yield f"the client waited {percent(numbers['spare'])} of the time for the next batch to be due"
    yield "so this is the rate that was asked for, not a limit"


def _waits(end: End) -> Lines:
    if end.stages:
        yield f"the {end.name} {waiting(end.waiting)}"


def _slowed(hit: Diagnosis, each: str = "batch") -> str:
    slowed = hit.numbers.get("handicap_ns")
    return f" ({milliseconds(slowed)} per {each} were added on purpose)" if slowed is not None else ""


def _own_work(seen: CellEvidence, hit: Diagnosis) -> Lines:
    own = {stage: seen.client.of_threads[stage] for stage in own_stages(seen)}
    yield (
        f"the client itself is the narrow place: its workers are busy {percent(hit.numbers['occupancy'])}, "
        f"most of it with its own work: {shares(own)}{_slowed(hit)}"
    )
    yield from _waits(seen.server)


def _threads(seen: CellEvidence, hit: Diagnosis) -> Lines:
    yield (
        f"{plural(hit.numbers['threads'], 'client thread')} serve "
        f"{plural(hit.numbers['workers'], nouns_of(seen.cell).stream)} and are busy "
        f"{percent(hit.numbers['occupancy'])} ({shares(seen.client.of_threads)}) while cores are free"
    )
    yield from _waits(seen.server)


def _clock(seen: CellEvidence, hit: Diagnosis) -> Lines:
    yield f"reading the clock takes {percent(hit.numbers['clock_share'])} of the trial"
    yield "batches are too small to be timed one by one"


LITTLE_CPU = 0.5
"""Of the time that workers are busy: with less of it in CPU time, that is said."""


def _stage(seen: CellEvidence, hit: Diagnosis) -> Lines:
    end = end_of(seen, hit)
    p = seen.cell.parameters
    body, batches = codec_of(p.get("http_compression")), codec_of(p.get("compression"))
    # What packs the whole body is unpacked before a batch is decoded.
    codec = {"unpack": body or batches, "decode": batches}.get(hit.stage or "", batches or body)
    detail = (f" with {codec}" if hit.stage in CODEC and codec else "") + _slowed(hit)
    workers = end.threads or end.workers
    one = "worker is" if workers == 1 else f"{workers:g} workers are" if workers else "workers are"
    verb = "busy" if hit.cause is Cause.STAGE_BUSY else "the busiest,"
    work = percent(hit.numbers["occupancy"])
    yield f"the {end.name}'s {one} {verb} {work}: {shares(end.of_threads)}{detail}"
    busy = hit.numbers["occupancy"] * (workers or 0.0)
    if end.cpu is not None and end.cpu < LITTLE_CPU * busy:
        # A stage lasts from its start to its end, whatever its thread does meanwhile.
        used = percent(end.cpu / busy)
        yield f"only {used} of that is CPU time; in the rest they wait in system calls or for a CPU"
    yield from _waits(seen.other(end))


def _pool(seen: CellEvidence, hit: Diagnosis) -> Lines:
    end = end_of(seen, hit)
    pool, other = end.pools[hit.pool or ""], seen.other(end)
    stages = pools.within(end, pool)
    detail = (f": {shares(stages)}" if stages else "") + _slowed(hit, "block")
    verb = ("is" if pool.threads == 1 else "are") + (" busy" if pool.busy >= WORKERS else " the busiest, at")
    threads = plural(pool.threads, pool.name.removesuffix("s"))
    yield f"the {end.name}'s {threads} {verb} {percent(pool.busy)}{detail}"
    if other.waiting:
        yield f"the {other.name} {waiting(other.waiting)}"


def _turns(seen: CellEvidence, hit: Diagnosis) -> Lines:
    numbers, pool = hit.numbers, (hit.pool or "").removesuffix("s")
    yield (
        f"the {hit.end}'s {plural(numbers['threads'], pool)} take rows one at a time: {hit.stage} takes "
        f"{percent(numbers['busy'])} of the time{_slowed(hit, 'block')}"
    )


def _cipher(seen: CellEvidence, hit: Diagnosis) -> Lines:
    verb = {"send": "seal", "receive": "open"}[hit.stage or ""]
    limit = seen.cell.ceilings[f"{CIPHER} {verb}"].value or 0.0
    share = percent(hit.numbers["cipher_share"])
    yield f"the {hit.end}'s cores {verb} {share} of the {rate(limit)} that they can with {CIPHER} alone"


# ---- between the workers


def _link(seen: CellEvidence, hit: Diagnosis) -> Lines:
    wire = hit.numbers.get("wire_bytes_per_second", 0.0)
    wired = f"{rate(wire)} on the wire ({significant(wire * 8 / 1e9)} Gbit/s)"
    if hit.cause is Cause.RAW_TCP_REACHED:
        share = percent(hit.numbers["raw_tcp_share"])
        yield f"the path carries {wired}, {share} of what raw TCP can do on it"
    elif hit.cause is Cause.INTERFACE_FULL:
        yield f"the path carries {wired}, {percent(hit.numbers['interface_share'])} of the interface's speed"
    else:
        yield f"the path takes no more than {wired}"
    blocked = seen.sender.stages.get("await_output", 0.0)
    idle = seen.receiver.stages.get("await_input", 0.0)
    if blocked or idle:
        yield f"the sender waits for the socket {percent(blocked)}, the receiver for input {percent(idle)}"


def _disk(seen: CellEvidence, hit: Diagnosis) -> Lines:
    if hit.cause is Cause.DISK_COMMITS:
        share, most = percent(hit.numbers["commit_share"]), hit.numbers.get("commits_per_second")
        known = f"the {most:,.0f} commits a second" if most else "the commits"
        yield f"a batch waits for its commit: a connection does {share} of {known} that the disk can do"
        return
    if hit.cause is Cause.DISK_CEILING:
        yield f"{percent(hit.numbers['disk_share'])} of what the disk writes in order"
        return
    yield (
        f"a disk of the {hit.end} is busy {percent(hit.numbers['busy'])} at "
        f"{rate(hit.numbers['disk_bytes_per_second'])}"
    )
    if pressed := hit.numbers.get("tasks_waited"):
        yield f"tasks waited for it {percent(pressed)} of the time"


def _memory(seen: CellEvidence, hit: Diagnosis) -> Lines:
    limit = seen.cell.ceilings["memory copy"]
    yield (
        f"{rate(seen.rate or 0.0)} is {percent(hit.numbers['memory_copy_share'])} of what all cores copy in "
        f"memory ({rate(limit.value or 0.0)})"
    )
    yield "no stage and no core is at its own limit"


def _bound(seen: CellEvidence, buffer: float | None, bound: float) -> str:
    streams = "" if seen.streams == 1 else f"{seen.streams:g} {nouns_of(seen.cell).stream}s x "
    return (
        f"{streams}{size(buffer or 0)} / {milliseconds(seen.round_trip or 0)} = {rate(bound)} at most, and "
        f"{rate(seen.rate or 0.0)} were moved ({percent((seen.rate or 0.0) / bound)} of the bound)"
    )


def _both_wait(seen: CellEvidence) -> Lines:
    for end in (seen.sender, seen.receiver):
        if end.waiting:
            yield f"the {end.name} {waiting(end.waiting)}"


def _window(seen: CellEvidence, hit: Diagnosis) -> Lines:
    share, bound = hit.numbers.get("await_window"), hit.numbers.get("bound_bytes_per_second")
    own = path.own_window(seen)
    if share is not None:
        yield f"the HTTP/2 window holds the {seen.sender.name} back {percent(share)} of the time"
    else:
        yield "the HTTP/2 window holds the sender back"
    if bound is not None:
        yield f"window {_bound(seen, own, bound)}"
    elif own:
        yield f"the window is {size(own)}"
    elif seen.round_trip and seen.rate:
        flight = seen.rate / seen.streams * seen.round_trip / 1e9
        yield (
            f"about {size(flight)} per {nouns_of(seen.cell).stream} are in flight in a round trip of "
            f"{milliseconds(seen.round_trip)}"
        )
    yield from links.holds(seen)
    yield from _both_wait(seen)


def _buffer(seen: CellEvidence, hit: Diagnosis) -> Lines:
    sender, bound = seen.sender, hit.numbers.get("bound_bytes_per_second")
    buffered = hit.cause is Cause.SEND_BUFFER
    name = "send buffer" if buffered else "receive window"
    sized = f" ({size(sender.send_buffer)})" if buffered and sender.send_buffer else ""
    yield (
        f"the {name} holds the {sender.name}'s connections back {percent(hit.numbers['limited'])} of their "
        f"time{sized}"
    )
    if bound:
        yield _bound(seen, sender.send_buffer, bound)
    yield from links.holds(seen)
    yield from _both_wait(seen)


def _acknowledgements(seen: CellEvidence, hit: Diagnosis) -> Lines:
    reply, awaited = hit.numbers["await_reply"], hit.numbers["await_input"]
    yield f"the client waits for acknowledgements {percent(reply)} of the time" + (
        f" and the server for input {percent(awaited)}" if awaited else ""
    )
    if not seen.round_trip:
        return
    trip = f"a round trip takes {milliseconds(seen.round_trip)}"
    if seen.cell.parameters.get("ack") != "batch" or not seen.cell.batches.value:
        yield trip
        return
    most = seen.streams / (seen.round_trip / 1e9)
    yield (
        f"{trip}, so {plural(seen.streams, nouns_of(seen.cell).stream)} with a batch in flight each can move "
        f"{significant(most)} batches/s; {significant(seen.cell.batches.value)} were moved"
    )


# ---- what would settle it


def _start(seen: CellEvidence, hit: Diagnosis) -> Lines:
    yield f"the first batches took {percent(hit.numbers['start'])} of the trial: it measures mostly the start"


def _short(seen: CellEvidence, hit: Diagnosis) -> Lines:
    took = milliseconds(hit.numbers["interval_ns"])
    yield f"trials of {took} are too short to see how busy the hosts' CPUs were"


def _server_or_path(seen: CellEvidence, hit: Diagnosis) -> Lines:
    yield f"the client {waiting(seen.client.waiting)}: the server or the path to it sets the pace"


def _silent(seen: CellEvidence, hit: Diagnosis) -> Lines:
    several = hit.numbers["servers"]
    if several < 2:
        yield "the server does not report its stages"
    else:
        yield f"of {several:g} servers not all report their stages"


def _nearest(seen: CellEvidence, hit: Diagnosis) -> Lines:
    """The place that is nearest to its limit."""
    places = {f"the {e.name}'s workers": e.occupancy for e in (seen.client, seen.server)}
    places |= {"the host's cores": seen.busy, "raw TCP": seen.of("raw TCP") if not seen.loopback else None}
    places["the link"] = None if seen.over is None else seen.over.share
    known = {n: v for n, v in places.items() if v is not None}
    if not known:
        yield "nothing is at its limit: no share of any limit is known"
        return
    name = max(known, key=lambda n: known[n])
    yield f"nothing is at its limit: nearest are {name} with {percent(known[name])}"


def _said(text: str) -> Callable[[CellEvidence, Diagnosis], Lines]:
    return lambda seen, hit: iter((text,))


_LINES: dict[Cause, Callable[[CellEvidence, Diagnosis], Lines]] = {
    Cause.SCHEDULE_KEPT: _schedule,
    Cause.OWN_WORK: _own_work,
    Cause.TOO_FEW_THREADS: _threads,
    Cause.CLOCK_READING: _clock,
    **dict.fromkeys((Cause.CORES_FULL, Cause.CORES_OF_OTHERS), _cores),
    Cause.LINK_RELAY: _relay,
    Cause.CPU_QUOTA: _quota,
    Cause.CPU_QUOTA_UNDER_ONE_CORE: _part_of_a_core,
    Cause.ONE_CORE_FOR_BOTH: _one_core,
    **dict.fromkeys((Cause.POOL_BUSY, Cause.POOL_OWN_WORK, Cause.POOL_BUSIEST), _pool),
    Cause.POOL_TAKES_TURNS: _turns,
    **dict.fromkeys((Cause.ENGINE_BUSY, Cause.ENGINE_ONE_WRITER, Cause.ENGINE_WAITS), databases.engine),
    **dict.fromkeys((Cause.PLUGIN_BUSY, Cause.PLUGIN_ONE_INTERPRETER, Cause.PLUGIN_WAITS), databases.plugin),
    **dict.fromkeys((Cause.DRIVER_BUSY, Cause.DRIVER_WAITS), databases.plugin),
    Cause.CIPHER_REACHED: _cipher,
    **dict.fromkeys((Cause.STAGE_BUSY, Cause.STAGE_BUSIEST), _stage),
    **dict.fromkeys((Cause.RAW_TCP_REACHED, Cause.INTERFACE_FULL, Cause.SOCKET_BLOCKED), _link),
    **dict.fromkeys((Cause.LINK_FULL, Cause.LINK_SHARED), links.full),
    **dict.fromkeys((Cause.DISK_BUSY, Cause.DISK_CEILING, Cause.DISK_COMMITS), _disk),
    Cause.MEMORY_BANDWIDTH: _memory,
    Cause.LITTLE_IN_FLIGHT: databases.little_in_flight,
    Cause.HTTP2_WINDOW: _window,
    **dict.fromkeys((Cause.RECEIVE_WINDOW, Cause.SEND_BUFFER), _buffer),
    Cause.ACKNOWLEDGEMENTS: _acknowledgements,
    Cause.LOSS: links.loss,
    Cause.SLOW_START: links.start,
    **dict.fromkeys((Cause.SERVER_WAITED_FOR, Cause.SERVER_WAITS), databases.server),
    Cause.NO_GOOD_TRIAL: _said("no trial of this cell was good"),
    Cause.NOTHING_RECORDED: _said("neither stages nor resources were recorded, as in imported results"),
    Cause.START_MEASURED: _start,
    Cause.TOO_SHORT: _short,
    Cause.HOSTS_UNSEEN: _said("nobody looked at the hosts' CPUs"),
    Cause.SERVER_UNSEEN: _said(
        "what the server's process did is not known: it runs on another host, or is hidden"
    ),
    Cause.SERVER_OR_PATH: _server_or_path,
    Cause.SERVER_SILENT: _silent,
    Cause.RAW_TCP_UNMEASURED: _said("raw TCP over this path was not measured"),
    Cause.NOTHING_AT_ITS_LIMIT: _nearest,
}
