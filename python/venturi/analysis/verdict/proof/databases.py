"""Proofs for upserts: an engine within the client's own process, batches that wait for nothing that is busy,
a database that reports nothing of itself.
"""

from __future__ import annotations

from venturi.analysis.cells.ceilings import COMMITS
from venturi.analysis.verdict.causes import Cause, MissingEvidence
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof.cores import (
    COMPUTES,
    IDLE,
    busy_ends,
    computes,
    embedded,
    held_up,
    usable,
)
from venturi.analysis.verdict.proof.ends import CLIENT_WAITS, WORKERS, awaited, waited_for
from venturi.analysis.verdict.proof.hit import Diagnosis, beyond, known
from venturi.analysis.verdict.proof.path import disk, writer

DELAYED = 0.2
"""Share of the time that a server's threads could run in which no CPU was free, from which it is said."""
COMMITTED = 0.5
"""Share of the disk's commits from which these are the limit, if all of its margin is above."""
DISK_SEEN = 0.3
"""Busy share of a disk from which it is named beside waiting that nothing else explains."""
AWAY = 0.5
"""Share of a batch's service time that the bare round trip takes, from which on the path is the limit."""


def engine(seen: CellEvidence) -> Diagnosis | None:
    """The engine runs in the client's process and takes nearly all of its threads' time."""
    client, occupancy = seen.client, seen.client.occupancy
    if not seen.cell.answered or client.first != "apply" or occupancy is None or occupancy < WORKERS:
        return None
    if held_up(seen, client):
        return None
    narrow = disk(seen) or commits(seen)
    if narrow is not None:
        return narrow
    threads = client.threads or client.workers or 1.0
    running = None if client.cpu is None else client.cpu / threads
    numbers = known(
        occupancy=occupancy, threads=threads, cpu_cores=client.cpu, disk_busy=disk_busy(seen) or None
    )
    if running is None:
        cause, margin = Cause.ENGINE_BUSY, 0.3
    elif running >= COMPUTES:
        cause, margin = Cause.ENGINE_BUSY, beyond(occupancy, WORKERS) + 0.3
    elif threads > 1 and COMPUTES <= (client.cpu or 0.0) <= 1.25:
        cause, margin = Cause.ENGINE_ONE_WRITER, 0.3
    else:
        cause, margin = Cause.ENGINE_WAITS, beyond(1 - running, 1 - COMPUTES)
    lacks = (MissingEvidence.CLIENT_CPU,) if running is None else ()
    return Diagnosis(
        cause, "client", "apply", margin, {n: v for n, v in numbers.items() if n in cause.numbers}, lacks
    )


def commits(seen: CellEvidence) -> Diagnosis | None:
    """Batches wait for their commits: surely more than half of what the disk does of them one after another.
    A commit may take a database more than one, and the rest of a batch's time is other work."""
    share, limit = seen.cell.shares.get(COMMITS), seen.cell.ceilings.get(COMMITS)
    if share is None or limit is None or COMMITS in seen.cell.passed or (share.low or 0.0) < COMMITTED:
        return None
    batches, part = seen.cell.batches.value, share.value or 0.0
    each = seen.streams * float(seen.cell.parameters.get("in_flight") or 1)
    numbers = known(commit_share=part, commits_per_second=batches / part / each if batches and part else None)
    end = writer(seen, seen.client if embedded(seen) else seen.server)
    return Diagnosis(Cause.DISK_COMMITS, end, None, beyond(share.low or 0.0, COMMITTED), numbers)


def disk_busy(seen: CellEvidence) -> float:
    """Busy share of the busiest disk that either end sees; 0 where none was looked at."""
    return max((e.disk_busy or 0.0 for e in (seen.client, seen.server)), default=0.0)


def little_in_flight(seen: CellEvidence) -> Diagnosis | None:
    """Neither end is busy: rows a second are what is in flight over how long that takes."""
    client, server = seen.client, seen.server
    reply = client.share("await_reply")
    if not seen.cell.answered or server.stages or reply < CLIENT_WAITS or not seen.service:
        return None
    if any(held_up(seen, end) for end in busy_ends(seen)):
        # Whose turn it is on a CPU is what is waited for.
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
    return Diagnosis(
        Cause.LITTLE_IN_FLIGHT,
        None,
        "await_reply",
        margin,
        known(
            batches_in_flight=lanes,
            batch_ns=seen.service,
            await_reply=reply,
            round_trip_share=away or None,
            cpu_cores=server.cpu,
            disk_busy=disk_busy(seen) or None,
        ),
        () if away >= AWAY or seen.round_trip or seen.loopback else (MissingEvidence.ROUND_TRIP,),
    )


def fills_cores(seen: CellEvidence) -> bool:
    """Whether a server has more batches than cores, and it computes on most of these, or they are full: more
    in flight would only wait for them."""
    lanes = (seen.client.workers or seen.streams) * awaited(seen.client)
    busy = bool(busy_ends(seen)) or (computes(seen, lanes) or 0.0) >= COMPUTES
    return busy and lanes > usable(seen, lanes)


def one_thread(seen: CellEvidence) -> bool:
    """Whether one thread of the server fills a core."""
    return bool(seen.server.busiest_thread and seen.server.busiest_thread[1] >= WORKERS)


def server(seen: CellEvidence) -> Diagnosis | None:
    """The client waits and the database reports nothing of itself."""
    client, other = seen.client, seen.server
    if not seen.cell.in_rows or other.stages or not client.stages:
        return None
    share = awaited(client)
    if share < CLIENT_WAITS or (other.cpu is not None and held_up(seen, other)):
        return None
    lacks = (
        ()
        if (other.busiest_thread and one_thread(seen)) or other.cpu is not None
        else (MissingEvidence.SERVER_CPU,)
    )
    if seen.loopback is not True and not seen.round_trip:
        lacks = (*lacks, MissingEvidence.ROUND_TRIP)
    return waited_for(seen, share, lacks)
