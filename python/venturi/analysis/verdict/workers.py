"""The workers of one end as the narrow place: schedule, load generator, pools, called code, stages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from venturi.analysis.cells.ceilings import CIPHER
from venturi.analysis.cells.figures import CALLS
from venturi.analysis.cells.probes import codec_of
from venturi.analysis.verdict.evidence import CODEC, OWN, CellEvidence, End, Pool
from venturi.analysis.verdict.machine import (
    COMPUTES,
    busiest_disk,
    commits,
    crowded,
    disk,
    embedded,
    full,
    held_up,
)
from venturi.analysis.verdict.types import Diagnosis, MissingEvidence, beyond, measured
from venturi.analysis.wording import milliseconds, nouns_of, rate, shares, waiting
from venturi.common.units import percent, plural
from venturi.targets.system import handicap_ns

Lines = Iterator[str]

WORKERS = 0.9
"""METHOD: a stage is the narrow place if its workers work over 90 % of their time."""
NEARLY = 0.75
"""Workers this busy are named, with low confidence, if nothing else is near its limit."""
OWN_SHARE = 0.5
"""The load generator is the narrow place if most of what its workers do is its own work."""
NEAR_CIPHER = 0.75
"""Share of what an end's cores seal or open. Its socket's calls and copies take the rest of their time."""
DOMINANT = 0.8
"""Share of an end's work from which its largest stage speaks for all of it."""
CLOCK = 0.1
"""Share of a trial spent on reading the clock; METHOD wants it under 1 %."""
KEPT_UP = 0.97
"""Moved over offered batches/s. A fixed number of batches ends with the last one's service time on top."""
SCHEDULE_SPARE = 0.02
"""Share of time left over between slots. A client without any only just kept up, or did not."""
LITTLE_CPU = 0.5
"""Of the time that workers are busy: less of it in CPU time is reported."""
ONE_INTERPRETER = 1.25
"""Cores up to which several calls that compute are one thread's at a time, an interpreter's or a writer's:
what libraries do without its lock comes on top."""
SEVERAL = 1.5
"""Calls at a time, on the mean, from which they could have used more than one core."""
DELAYED = 0.2
"""Share of the time that threads could run in which no CPU was free, from which it is reported."""
DISK_SEEN = 0.3
"""Busy share of a disk from which it is named beside waiting that nothing else explains."""
_POOLED = {"encoders": ("generate", "encode", "verify"), "decoders": ("decode", "verify")}
"""What the threads of a pool do, of the stages that their end accounts for."""


def host_unseen(seen: CellEvidence, end: End) -> tuple[MissingEvidence, ...]:
    if end.busy is not None:
        return ()
    return (MissingEvidence.CLIENT_HOST if end is seen.client else MissingEvidence.SERVER_HOST,)


def end_of(seen: CellEvidence, place: Diagnosis) -> End:
    return seen.client if place.end == "client" else seen.server


def waits_line(end: End) -> Lines:
    if end.waiting:
        yield f"the {end.name} {waiting(end.waiting)}"


# ---- schedule


def schedule(seen: CellEvidence) -> Diagnosis | None:
    """An open loop that kept up: what was offered is what was moved.

    First, although METHOD has it last: slots are awaited by polling, which keeps a core busy without need,
    and whatever else is busy cannot be what held back a rate that was reached.
    """
    spare = seen.client.stages.get("await_schedule")
    if seen.kept is None or seen.offered is None or seen.kept < KEPT_UP:
        return None
    if spare is not None and spare < SCHEDULE_SPARE:
        return None
    return Diagnosis(
        "schedule-kept",
        "client",
        "await_schedule",
        beyond(seen.kept, KEPT_UP - 0.01),
        measured(offered_batches_per_second=seen.offered, kept=seen.kept, late=seen.late, spare=spare),
        () if spare is not None else (MissingEvidence.CLIENT_STAGES,),
    )


def schedule_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers = place.numbers
    yield (
        f"the schedule offers {numbers['offered_batches_per_second']:,.6g} batches/s and "
        f"{percent(min(numbers['kept'], 1.0), 1)} of that was moved"
    )
    if numbers.get("late"):
        yield f"{percent(numbers['late'], 1)} of the batches were late"
    if numbers.get("spare"):
        yield f"the client waited {percent(numbers['spare'])} of the time for the next batch to be due"
    yield "so this is the rate that was asked for, not a limit"


# ---- the load generator


def handicapped(seen: CellEvidence, end: str) -> dict[str, Any]:
    """Stages of an end that were slowed on purpose, and by how much per batch (ns)."""
    found: Any = seen.cell.parameters.get("handicap" if end == "client" else "server_handicap")
    if found is None and end == "server":
        # A reference server reports it in its own words: "encode 2ms, decode 200us".
        reported = (record.target.handicap for record in seen.cell.records)
        text = next((text for text in reported if text), None)
        found = "+".join(p.replace(" ", "=") for p in text.split(", ")) if isinstance(text, str) else None
    if isinstance(found, str):
        try:
            return dict(handicap_ns(found))
        except ValueError:
            return {}
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


def own_stages(seen: CellEvidence) -> dict[str, float]:
    """The client's work that is its own and not that of any client with these settings."""
    own = {*OWN, *handicapped(seen, "client")}
    p = seen.cell.parameters
    if codec_of(p.get("compression")) is None and codec_of(p.get("http_compression")) is None:
        own |= set(CODEC)
    return {n: s for n, s in seen.client.work.items() if n in own}


def _despite_load(seen: CellEvidence, end: End) -> bool:
    """Whether a stage is the narrow place although others hold the cores: its end does not wait for them, or
    it takes nearly all that its end gets of them, and would of more."""
    work = sum(end.work.values())
    if not crowded(seen) or work <= 0:
        return False
    return not held_up(seen, end) or end.work[end.first or ""] / work >= DOMINANT


def load_generator(seen: CellEvidence) -> Diagnosis | None:
    """The client's own work fills its workers while cores are free and the server waits."""
    client, occupancy = seen.client, seen.client.occupancy
    if occupancy is None or occupancy < WORKERS or (full(client) and not _despite_load(seen, client)):
        return None
    if seen.server.occupancy is not None and seen.server.occupancy >= occupancy:
        return None
    lacks = host_unseen(seen, client)
    work, own = sum(client.work.values()), own_stages(seen)
    # Several batches in flight are workers of one stream, and a stream has one thread at most.
    threads, workers = client.threads or 0.0, min(client.workers or 0.0, seen.streams)
    part = sum(own.values()) / work if work else 0.0
    if part >= OWN_SHARE:
        stage = next(iter(own))
        margin = min(beyond(occupancy, WORKERS), beyond(part, OWN_SHARE)) + 0.2
        slowed = handicapped(seen, "client").get(stage) or None
        numbers = measured(occupancy=occupancy, own_share=part, handicap_ns=slowed)
        return Diagnosis("own-work", "client", stage, margin, numbers, lacks)
    if 0 < threads < workers and (client.cores is None or threads < client.cores):
        numbers = {"threads": threads, "workers": workers, "occupancy": occupancy}
        margin = beyond(occupancy, WORKERS) + 0.2
        return Diagnosis("too-few-threads", "client", "await_thread", margin, numbers, lacks)
    clock = seen.instrument or 0.0
    if clock >= CLOCK:
        numbers = {"clock_share": clock}
        return Diagnosis("own-work", "client", None, beyond(clock, CLOCK, 0.3), numbers, lacks)
    return None


def own_work_title(seen: CellEvidence, place: Diagnosis) -> str:
    return f"load generator: {place.pool or place.stage or 'its clock'}"


def own_work_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers = place.numbers
    if place.pool is not None:
        yield from pool_lines(seen, place)
        return
    if "clock_share" in numbers:
        yield f"reading the clock takes {percent(numbers['clock_share'])} of the trial: batches are too small"
        return
    own = {stage: seen.client.of_threads[stage] for stage in own_stages(seen)}
    yield (
        f"the client's workers are busy {percent(numbers['occupancy'])}, most of it with its own work: "
        f"{shares(own)}{_slowed(place)}"
    )
    yield from waits_line(seen.server)


def threads_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    yield (
        f"{plural(place.numbers['threads'], 'client thread')} serve "
        f"{plural(place.numbers['workers'], nouns_of(seen.cell).stream)} and are busy "
        f"{percent(place.numbers['occupancy'])} ({shares(seen.client.of_threads)}) while cores are free"
    )
    yield from waits_line(seen.server)


def _slowed(place: Diagnosis, each: str = "batch") -> str:
    slowed = place.numbers.get("handicap_ns")
    return f" ({milliseconds(slowed)} per {each} were added on purpose)" if slowed is not None else ""


# ---- pools: each has as many threads as were asked for, so it can be full while other workers wait and while
# cores are free.


def pool(seen: CellEvidence, threshold: float = WORKERS) -> Diagnosis | None:
    """A pool's threads work that share of their time, or one of them always does what only one can."""
    pools = [(end, pool) for end in (seen.server, seen.client) for pool in end.pools.values()]
    end, busiest = max(pools, key=lambda pair: pair[1].busy, default=(seen.server, None))
    full_time = threshold >= WORKERS
    if busiest is None or held_up(seen, end) or (full(end) and not crowded(seen)):
        pass
    elif busiest.busy >= threshold:
        stages = _pooled(end, busiest)
        stage = max(stages, key=lambda n: stages[n], default=None)
        cause = "own-work" if end is seen.client and stage in OWN else "pool-busy"
        margin = min(1.0, beyond(busiest.busy, threshold) + 0.3) if full_time else 0.0
        numbers = {"busy": busiest.busy, "threads": busiest.threads}
        return Diagnosis(cause, end.name, stage, margin, numbers, host_unseen(seen, end), busiest.name)
    return _rows_in_turn(seen) if full_time else None


def pool_nearly(seen: CellEvidence) -> Diagnosis | None:
    """Nothing is at its limit, but a pool is not far from it."""
    return pool(seen, NEARLY)


def _rows_in_turn(seen: CellEvidence) -> Diagnosis | None:
    """Encoders take rows out of the engine behind a lock (encode.rs of the charrow server): `generate` of all
    of them together is at most the interval."""
    end = seen.server
    encoders = end.pools.get("encoders")
    busy = end.work.get("generate", 0.0) * (end.workers or 0.0)
    if encoders is None or encoders.threads < 2 or busy < WORKERS or held_up(seen, end):
        return None
    numbers = {"busy": min(busy, 1.0), "threads": encoders.threads, "at_a_time": 1.0}
    margin = min(1.0, beyond(min(busy, 1.0), WORKERS) + 0.3)
    lacks = host_unseen(seen, end)
    return Diagnosis("pool-busy", end.name, "generate", margin, numbers, lacks, encoders.name)


def _pooled(end: End, pool: Pool) -> dict[str, float]:
    """What a pool's threads do, of their own time; the shares of all are those of other workers too."""
    done = {n: s for n in _POOLED.get(pool.name, ()) if (s := end.work.get(n, 0.0)) > 0}
    whole = sum(done.values())
    return {n: pool.busy * s / whole for n, s in done.items()}


def pool_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    end, noun = end_of(seen, place), (place.pool or "").removesuffix("s")
    threads, busy = plural(place.numbers["threads"], noun), percent(place.numbers["busy"])
    if "at_a_time" in place.numbers:
        yield f"the {end.name}'s {threads} take rows one at a time: {place.stage} takes {busy} of the time"
        return
    stages = _pooled(end, end.pools[place.pool or ""])
    verb = "is" if place.numbers["threads"] == 1 else "are"
    how = "busy" if place.numbers["busy"] >= WORKERS else "the busiest, at"
    detail = (f": {shares(stages)}" if stages else "") + _slowed(place, "block")
    yield f"the {end.name}'s {threads} {verb} {how} {busy}{detail}"
    yield from waits_line(seen.other(end))


# ---- code that is called: a database's engine in the client's process, a plugin, a driver

_CODE = {"apply": "engine", "plugin": "your code", "driver": "driver"}
_DOES = {"calls-busy": "computes", "calls-take-turns": "one at a time", "calls-wait": "waits"}


def calls(seen: CellEvidence) -> Diagnosis | None:
    """Calls into an engine, a plugin or a driver take nearly all of the time of the client's threads."""
    client, occupancy, stage = seen.client, seen.client.occupancy, seen.client.first
    engine = stage == "apply" and seen.cell.answered
    if not (engine or stage in CALLS) or occupancy is None or occupancy < WORKERS or held_up(seen, client):
        return None
    if engine and (narrow := disk(seen) or commits(seen)) is not None:
        return narrow
    workers = client.workers or 1.0
    at_a_time = (client.threads or workers) if engine else client.stages[stage or ""] * workers
    # What Venturi does in the same process is not the plugin's.
    own = 0.0 if engine else sum(share for name, share in client.work.items() if name != stage) * workers
    cpu = None if client.cpu is None else max(0.0, client.cpu - own)
    numbers = measured(
        occupancy=occupancy,
        calls=at_a_time,
        cpu_cores=cpu,
        server_cpu_cores=None if engine else seen.server.cpu,
        disk_busy=(busiest_disk(seen) or None) if engine else None,
    )
    if cpu is None:
        lacks = (MissingEvidence.CLIENT_CPU,)
        return Diagnosis("calls-busy", "client", stage, 0.3, numbers, lacks)
    margin = beyond(occupancy, WORKERS) + 0.3
    several = at_a_time > 1 if engine else stage == "plugin" and at_a_time >= SEVERAL
    if cpu / at_a_time >= COMPUTES:
        cause = "calls-busy"
    elif several and COMPUTES <= cpu <= ONE_INTERPRETER:
        cause, margin = "calls-take-turns", 0.3
    else:
        cause, margin = "calls-wait", beyond(1 - cpu / at_a_time, 1 - COMPUTES)
        if not engine and (client.run_delay or 0.0) >= DELAYED:
            # It may have been for a CPU.
            margin, numbers = 0.0, {**numbers, "run_delay": client.run_delay or 0.0}
    return Diagnosis(cause, "client", stage, margin, numbers)


def calls_title(seen: CellEvidence, place: Diagnosis) -> str:
    return f"{_CODE[place.stage or '']}: {_DOES[place.cause]}"


def calls_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    numbers, engine = place.numbers, place.stage == "apply"
    cpu, busy = numbers.get("cpu_cores"), percent(numbers["occupancy"])
    if engine:
        threads = numbers["calls"]
        yield (
            f"the engine runs in the client's process, whose {plural(threads, 'thread')} "
            f"spend{'s' if threads == 1 else ''} {busy} of the time in it"
        )
    else:
        part = "producer" if seen.cell.operation == "get" else "consumer"
        whose = "the driver: it" if place.stage == "driver" else f"your code: its {part}"
        yield f"{busy} of the time is spent in {whose} sets the pace, not Venturi"
    if cpu is None:
        return
    beside = "" if engine else f" beside Venturi's work, with {numbers['calls']:.1f} calls at a time"
    used = f"the process uses {cpu:.2f} cores{beside}"
    if place.cause == "calls-busy":
        yield f"{used}: it computes" + (f" ({shares(seen.client.of_threads)})" if engine else "")
    elif place.cause == "calls-take-turns":
        yield f"{used}: one {'writes' if engine else 'thread of Python runs'} at a time, the others wait"
    else:
        end = {"driver": "perhaps for its database", "plugin": "perhaps for its other end"}
        held = end.get(place.stage or "", "for its commits to be on the disk, or for its locks")
        if (pressed := numbers.get("disk_busy", 0.0)) >= DISK_SEEN:
            held = f"for the disk (busy {percent(pressed)}) or for its locks"
        computing = min(cpu / numbers["calls"] / numbers["occupancy"], 1.0)
        does = f"it computes {percent(computing)} of that time and waits {percent(1 - computing)}"
        yield f"{does}: {held}" if engine else f"{used}: {does}, {held}"
    if "run_delay" in numbers:
        yield f"its threads waited for a CPU {percent(numbers['run_delay'])} of the time that they could run"
    if (other := numbers.get("server_cpu_cores")) is not None:
        yield f"the process of the other end uses {other:.2f} cores"


# ---- stages


def stage(seen: CellEvidence) -> Diagnosis | None:
    """The workers of one end work all the time while those of the other wait for them; or over TLS, they seal
    or open nearly what their cores can."""
    return _cipher(seen) or _stage(seen, WORKERS)


def stage_nearly(seen: CellEvidence) -> Diagnosis | None:
    """Nothing is at its limit, but the workers of one end are not far from it."""
    return _stage(seen, NEARLY)


def _cipher(seen: CellEvidence) -> Diagnosis | None:
    ends = ((seen.sender.name, "send", "seal"), (seen.receiver.name, "receive", "open"))
    share, name, stage = max((seen.of(f"{CIPHER} {verb}") or 0.0, name, stage) for name, stage, verb in ends)
    if share < NEAR_CIPHER:
        return None
    return Diagnosis("stage-busy", name, stage, beyond(share, NEAR_CIPHER - 0.02), {"cipher_share": share})


def _stage(seen: CellEvidence, threshold: float) -> Diagnosis | None:
    busiest = sorted((seen.client, seen.server), key=lambda e: -(e.occupancy or 0.0))
    found = (stage_of(seen, end, threshold) for end in busiest)
    return next((place for place in found if place is not None), None)


def stage_of(seen: CellEvidence, end: End, threshold: float = WORKERS) -> Diagnosis | None:
    """That end's workers work so much of their time."""
    occupancy, other = end.occupancy, seen.other(end)
    if occupancy is None or occupancy < threshold or (crowded(seen) and not _despite_load(seen, end)):
        return None
    apart = 1.0 if other.occupancy is None else occupancy - other.occupancy
    lacks = host_unseen(seen, end)
    # An engine within the client has no other end; of a database its process is what can be known.
    # What the other end of a plugin or a driver does is within its calls.
    called = not seen.client.stages.keys().isdisjoint(CALLS)
    enough = embedded(seen) or called or (seen.cell.in_rows and other.cpu is not None)
    if other.occupancy is None and not enough:
        client = other is seen.client
        lacks += (MissingEvidence.CLIENT_STAGES if client else MissingEvidence.SERVER_STAGES,)
    margin = min(beyond(occupancy, threshold) + 0.3, beyond(apart, 0.0, 0.3)) if threshold >= WORKERS else 0.0
    numbers = measured(occupancy=occupancy, handicap_ns=handicapped(seen, end.name).get(end.first or ""))
    return Diagnosis("stage-busy", end.name, end.first, margin, numbers, lacks)


def stage_lines(seen: CellEvidence, place: Diagnosis) -> Lines:
    end, p = end_of(seen, place), seen.cell.parameters
    if "cipher_share" in place.numbers:
        verb = {"send": "seal", "receive": "open"}[place.stage or ""]
        limit = rate(seen.cell.ceilings[f"{CIPHER} {verb}"].value or 0.0)
        share = percent(place.numbers["cipher_share"])
        yield f"the {end.name}'s cores {verb} {share} of the {limit} that they can with {CIPHER} alone"
        return
    body, batches = codec_of(p.get("http_compression")), codec_of(p.get("compression"))
    # What packs the whole body is unpacked before a batch is decoded.
    codec = {"unpack": body or batches, "decode": batches}.get(place.stage or "", batches or body)
    detail = (f" with {codec}" if place.stage in CODEC and codec else "") + _slowed(place)
    workers, occupancy = end.threads or end.workers, place.numbers["occupancy"]
    one = "worker is" if workers == 1 else f"{workers:g} workers are" if workers else "workers are"
    verb = "busy" if occupancy >= WORKERS else "the busiest,"
    yield f"the {end.name}'s {one} {verb} {percent(occupancy)}: {shares(end.of_threads)}{detail}"
    busy = occupancy * (workers or 0.0)
    if end.cpu is not None and end.cpu < LITTLE_CPU * busy:
        # A stage lasts from its start to its end, whatever its thread does in it.
        used = percent(end.cpu / busy)
        yield f"only {used} of that is CPU time; in the rest they wait in system calls or for a CPU"
    yield from waits_line(seen.other(end))
