"""Proofs that one end's own workers are the narrow place: schedule, load generator, stage, server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.ceilings import CIPHER
from venturi.analysis.cells.figures import CALLS, get
from venturi.analysis.cells.probed import codec_of
from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CODEC, OWN, CellEvidence, End, waits
from venturi.analysis.verdict.proof.cores import (
    IDLE,
    ONE_CORE,
    computes,
    crowded,
    embedded,
    full,
    held_up,
    wanted,
)
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known
from venturi.targets.handicap import nanoseconds

WORKERS = 0.9
"""METHOD: a stage is the narrow place where its workers work over 90 % of their time."""
NEARLY = 0.75
"""Workers this busy are named, with low confidence, where nothing else is near its limit."""
OWN_SHARE = 0.5
"""The load generator is the narrow place where most of what its workers do is its own work."""
LIMITED = 0.5
"""Share of a socket's busy time in which the kernel counts it as limited by a buffer."""
NEAR_CIPHER = 0.75
"""Share of what an end's cores seal or open. Its socket's calls and copies take the rest of their time."""
DOMINANT = 0.8
"""Share of an end's work from which its largest stage speaks for all of it."""
CLOCK = 0.1
"""Share of a trial spent on reading the clock; METHOD wants it under 1 %."""
CLIENT_WAITS = 0.5
KEPT_UP = 0.97
"""Moved over offered batches/s. A fixed number of batches ends with the last one's service time on top."""
SCHEDULE_SPARE = 0.02
"""Share of time left over between slots. A client without any only just kept up, or did not."""


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
        Cause.SCHEDULE_KEPT,
        "client",
        "await_schedule",
        beyond(seen.kept, KEPT_UP - 0.01),
        known(offered_batches_per_second=seen.offered, kept=seen.kept, late=seen.late, spare=spare),
        () if spare is not None else (MissingEvidence.CLIENT_STAGES,),
    )


def handicapped(seen: CellEvidence, end: str) -> dict[str, Any]:
    """Stages of an end that were slowed on purpose, and by how much a batch (ns)."""
    found: Any = seen.cell.parameters.get("handicap" if end == "client" else "server_handicap")
    if found is None and end == "server":
        # A reference server says so itself, in its own words: "encode 2ms, decode 200us".
        said = (get(record, "target", "handicap") for record in seen.cell.records)
        text = next((text for text in said if text), None)
        found = "+".join(p.replace(" ", "=") for p in text.split(", ")) if isinstance(text, str) else None
    if isinstance(found, str):
        try:
            return dict(nanoseconds(found))
        except ValueError:
            return {}
    return {str(k): v for k, v in found.items()} if isinstance(found, dict) else {}


def own_stages(seen: CellEvidence) -> dict[str, float]:
    """The client's work that is its own and not that of any Flight client with these settings."""
    own = {*OWN, *handicapped(seen, "client")}
    p = seen.cell.parameters
    if codec_of(p.get("compression")) is None and codec_of(p.get("http_compression")) is None:
        own |= set(CODEC)
    return {n: s for n, s in seen.client.work.items() if n in own}


def _despite_others(seen: CellEvidence, end: End) -> bool:
    """Whether a stage is the narrow place although others hold the cores: its end does not wait for them, or
    it takes nearly all that its end gets of them, and would of more."""
    work = sum(end.work.values())
    if not crowded(seen) or work <= 0:
        return False
    return not held_up(seen, end) or end.work[end.first or ""] / work >= DOMINANT


def load_generator(seen: CellEvidence) -> Diagnosis | None:
    """The client's own work fills its workers while cores are free and the server waits."""
    client, occupancy = seen.client, seen.client.occupancy
    if occupancy is None or occupancy < WORKERS or (full(client) and not _despite_others(seen, client)):
        return None
    if seen.server.occupancy is not None and seen.server.occupancy >= occupancy:
        return None
    lacks = () if client.busy is not None else (MissingEvidence.CLIENT_HOST,)
    work, own = sum(client.work.values()), own_stages(seen)
    # Several batches in flight are workers of one stream, and a stream has one thread at most.
    threads, workers = client.threads or 0.0, min(client.workers or 0.0, seen.streams)
    part = sum(own.values()) / work if work else 0.0
    if part >= OWN_SHARE:
        stage = next(iter(own))
        margin = min(beyond(occupancy, WORKERS), beyond(part, OWN_SHARE)) + 0.2
        slowed = handicapped(seen, "client").get(stage) or None
        numbers = known(occupancy=occupancy, own_share=part, handicap_ns=slowed)
        return Diagnosis(Cause.OWN_WORK, "client", stage, margin, numbers, lacks)
    if 0 < threads < workers and (client.cores is None or threads < client.cores):
        numbers = {"threads": threads, "workers": workers, "occupancy": occupancy}
        margin = beyond(occupancy, WORKERS) + 0.2
        return Diagnosis(Cause.TOO_FEW_THREADS, "client", "await_thread", margin, numbers, lacks)
    clock = seen.instrument or 0.0
    if clock >= CLOCK:
        numbers = {"clock_share": clock}
        return Diagnosis(Cause.CLOCK_READING, "client", None, beyond(clock, CLOCK, 0.3), numbers, lacks)
    return None


def stage(seen: CellEvidence) -> Diagnosis | None:
    """The workers of one end work all the time while those of the other wait for them."""
    return _stage(seen, WORKERS)


def nearly(seen: CellEvidence) -> Diagnosis | None:
    """As `stage`, where nothing is at its limit but one end is not far from it."""
    return _stage(seen, NEARLY)


def _stage(seen: CellEvidence, threshold: float) -> Diagnosis | None:
    busiest = sorted((seen.client, seen.server), key=lambda e: -(e.occupancy or 0.0))
    return next((hit for end in busiest if (hit := stage_of(seen, end, threshold)) is not None), None)


def stage_of(seen: CellEvidence, end: End, threshold: float = WORKERS) -> Diagnosis | None:
    """That end's workers work so much of their time."""
    occupancy, other = end.occupancy, seen.other(end)
    if occupancy is None or occupancy < threshold or (crowded(seen) and not _despite_others(seen, end)):
        return None
    apart = 1.0 if other.occupancy is None else occupancy - other.occupancy
    lacks = []
    if end.busy is None:
        lacks.append(MissingEvidence.CLIENT_HOST if end is seen.client else MissingEvidence.SERVER_HOST)
    # An engine within the client has no other end; of a database its process is what can be known.
    # What the other end of a plugin or a driver does is within its calls.
    called = not seen.client.stages.keys().isdisjoint(CALLS)
    enough = embedded(seen) or called or (seen.cell.in_rows and other.cpu is not None)
    if other.occupancy is None and not enough:
        lacks.append(MissingEvidence.CLIENT_STAGES if other is seen.client else MissingEvidence.SERVER_STAGES)
    full_time = threshold >= WORKERS
    return Diagnosis(
        Cause.STAGE_BUSY if full_time else Cause.STAGE_BUSIEST,
        end.name,
        end.first,
        min(beyond(occupancy, threshold) + 0.3, beyond(apart, 0.0, 0.3)) if full_time else 0.0,
        known(occupancy=occupancy, handicap_ns=handicapped(seen, end.name).get(end.first or "")),
        tuple(lacks),
    )


def cipher(seen: CellEvidence) -> Diagnosis | None:
    """Over TLS one end seals or opens nearly what its cores can."""
    ends = ((seen.sender.name, "send", "seal"), (seen.receiver.name, "receive", "open"))
    shares = [(seen.of(f"{CIPHER} {verb}") or 0.0, name, stage) for name, stage, verb in ends]
    share, name, stage = max(shares)
    if share < NEAR_CIPHER:
        return None
    return Diagnosis(
        Cause.CIPHER_REACHED, name, stage, beyond(share, NEAR_CIPHER - 0.02), {"cipher_share": share}
    )


def awaited(client: End) -> float:
    """Share of the client's time in which it waits for the server."""
    share = client.share(*(n for n in client.stages if waits(n)))
    return share - client.share("await_schedule", "await_thread")


def _idles(seen: CellEvidence, lanes: float) -> bool:
    """Whether a server's process computes for less than half of the time that it could. Of one that fills
    about a core something else is told: it may do one thing at a time. Of answers to batches another proof
    has told it."""
    if seen.server.cpu is None or seen.cell.answered:
        return False
    least, most = ONE_CORE
    full = max(seen.server.thread_wanted or 0.0, (seen.server.busiest_thread or ("", 0.0))[1]) >= WORKERS
    alone = least <= wanted(seen.server) <= most
    return not (full or alone) and (computes(seen, lanes) or 0.0) < IDLE


def waited_for(seen: CellEvidence, share: float, lacks: Sequence[MissingEvidence]) -> Diagnosis:
    """A server for which the client waits so much of its time."""
    thread, other = seen.server.busiest_thread, seen.server
    lanes = (seen.client.workers or seen.streams) * share
    if _idles(seen, lanes):
        batches, used = seen.cell.batches.value, other.cpu or 0.0
        numbers = known(
            waiting=share,
            cpu_cores=other.cpu,
            batch_ns=1e9 * lanes / batches if batches else None,
            batch_cpu_ns=1e9 * used / batches if batches else None,
        )
        margin = beyond(1 - (computes(seen, lanes) or 0.0), 1 - IDLE)
        return Diagnosis(Cause.SERVER_WAITS, "server", None, margin, numbers)
    numbers = known(
        waiting=share,
        thread_busy=thread[1] if thread else None,
        cpu_cores=other.cpu,
        run_delay=other.run_delay,
    )
    margin = beyond(share, CLIENT_WAITS - 0.1)
    return Diagnosis(Cause.SERVER_WAITED_FOR, "server", None, margin, numbers, tuple(lacks))


def server(seen: CellEvidence) -> Diagnosis | None:
    """The client waits and the server reports nothing of itself; nor can it be the path."""
    client, other = seen.client, seen.server
    if other.stages or not client.stages or seen.cell.in_rows:
        return None
    share = awaited(client)
    if share < CLIENT_WAITS or (other.cpu is not None and held_up(seen, other)):
        return None
    if server_or_path(seen):
        return None
    full = other.busiest_thread and other.busiest_thread[1] >= WORKERS
    return waited_for(seen, share, [] if full else [MissingEvidence.SERVER_STAGES])


def server_or_path(seen: CellEvidence) -> bool:
    """Whether the client waits for a server on another host that tells nothing, over a path that was not
    measured, so that either may be what it waits for."""
    client, other = seen.client, seen.server
    if other.stages or seen.cell.in_rows or awaited(client) < CLIENT_WAITS:
        return False
    if seen.loopback is True or seen.of("raw TCP") is not None or seen.over is not None:
        return False
    if seen.sender is client and (client.receive_window_limited or 0.0) >= LIMITED:
        # What arrived there is not read.
        return False
    return other.busiest_thread is None or other.busiest_thread[1] < WORKERS
