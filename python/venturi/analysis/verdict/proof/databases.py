"""Proofs for upserts: an engine within the client's own process, batches that wait for nothing that is busy,
a database that gives no account of itself.
"""

from __future__ import annotations

from venturi.analysis.verdict.evidence import Evidence, Seen
from venturi.analysis.verdict.proof.cores import crowded
from venturi.analysis.verdict.proof.ends import CLIENT_WAITS, WORKERS
from venturi.analysis.verdict.proof.hit import Hit, beyond
from venturi.analysis.verdict.proof.path import disk
from venturi.analysis.words.wording import milliseconds, rows_rate, shares, waiting
from venturi.common.units import count, percent, plural

UNDER_WAY = "too little under way"
"""Title of the verdict that neither end is busy."""
COMPUTES = 0.75
"""CPU time over the time that threads spend in an engine, from which it computes rather than waits."""
IDLE = 0.5
"""Time that a server's process ran or could have, over the time that batches were with it. Below, they mostly
waited there for something that is no CPU, or were on their way."""
DELAYED = 0.2
"""Share of the time that a server's threads could run in which no CPU was free."""
DISK_SEEN = 0.3
"""Busy share of a disk from which it is named beside waiting that nothing else explains."""
AWAY = 0.5
"""Share of a batch's service time that the bare round trip takes, from which it waits for the way."""


def engine(seen: Seen) -> Hit | None:
    """The engine runs in the client's process and takes nearly all of its threads' time."""
    client, occupancy = seen.client, seen.client.occupancy
    if not seen.cell.answered or client.first != "apply" or occupancy is None or occupancy < WORKERS:
        return None
    if crowded(seen):
        return None
    narrow = disk(seen)
    if narrow is not None:
        return narrow
    threads = client.threads or client.workers or 1.0
    busy = f"the engine runs in the client's process, whose {plural(threads, 'thread')} spend"
    busy += f"{'s' if threads == 1 else ''} {percent(occupancy)} of the time in it"
    title = "client: apply"
    lacks: tuple[str, ...] = ()
    running = None if client.cpu is None else client.cpu / threads
    if running is None:
        text, margin, lacks = busy, 0.3, ("the CPU time of the client",)
    elif running >= COMPUTES:
        text = (
            f"{busy} and compute{'s' if threads == 1 else ''} ({client.cpu:.2f} cores): {shares(client.work)}"
        )
        margin = beyond(occupancy, WORKERS) + 0.3
    elif threads > 1 and COMPUTES <= (client.cpu or 0.0) <= 1.25:
        title = "client: apply, one writer"
        text = f"{busy}, but together they use {client.cpu:.2f} cores: one writes at a time, the others wait"
        margin = 0.3
    else:
        title = "client: apply, waiting"
        text = f"{busy}, but use{'s' if threads == 1 else ''} a CPU {percent(running)} of it: {_held(seen)}"
        margin = beyond(1 - running, 1 - COMPUTES)
    return Hit("stage", "client", "apply", title, text, margin, lacks=lacks)


def _held(seen: Seen) -> str:
    """What an engine waits for that does not compute, as far as it shows."""
    found = max((e.disk_busy or 0.0 for e in (seen.client, seen.server)), default=0.0)
    if found >= DISK_SEEN:
        return f"it waits for the disk (busy {percent(found)}) or for its own locks"
    return "it waits, for its commits to be on the disk or for its own locks"


def under_way(seen: Seen) -> Hit | None:
    """Neither end is busy: rows a second are what is under way over how long that takes."""
    client, server = seen.client, seen.server
    reply = client.share("await_reply")
    if not seen.cell.answered or server.stages or reply < CLIENT_WAITS or not seen.service:
        return None
    if crowded(seen):
        # Whose turn it is on a CPU is what is waited for.
        return None
    lanes = client.workers or seen.streams
    away = seen.round_trip / seen.service if seen.round_trip else 0.0
    working = None if server.cpu is None else _wanted(seen) / (lanes * reply)
    if away < AWAY and (working is None or working >= IDLE or _one_thread(seen)):
        return None
    rows = seen.cell.parameters.get("rows_per_batch")
    batches = plural(int(lanes), "batch")
    held = f"{batches} of {count(rows)} row{'' if rows == 1 else 's'}" if rows else batches
    took = milliseconds(seen.service)
    text = f"{held} {'is' if lanes == 1 else 'are'} under way at a time and one takes {took}"
    if seen.rows:
        text += f", which makes {rows_rate(seen.rows)}"
    text += f"; the client waits for answers {percent(reply)} of the time"
    if server.cpu is not None:
        text += f", the server's process uses {server.cpu:.2f} cores meanwhile"
    if away >= AWAY:
        text += f"; {percent(min(away, 1.0))} of it is the round trip ({milliseconds(seen.round_trip or 0)})"
    evidence = []
    busy = max((e.disk_busy or 0.0 for e in (client, server)), default=0.0)
    if busy >= DISK_SEEN and away < AWAY:
        text += f"; a disk is busy {percent(busy)}: commits may wait for it"
    if 0.01 <= away < AWAY:
        evidence.append(Evidence("on the way", f"the round trip is {percent(away)} of a batch's time"))
    margin = max(beyond(away, AWAY), beyond(1 - working, 1 - IDLE) if working is not None else 0.0)
    lacks = () if away >= AWAY or seen.round_trip or seen.loopback else ("the round trip",)
    return Hit(
        "flow-control",
        None,
        "await_reply",
        UNDER_WAY,
        text,
        margin,
        tuple(evidence),
        lacks,
    )


def _wanted(seen: Seen) -> float:
    """Cores that the server's process used or was ready to use: waiting for a CPU is no idling."""
    return (seen.server.cpu or 0.0) / max(0.05, 1.0 - (seen.server.run_delay or 0.0))


def _one_thread(seen: Seen) -> bool:
    return bool(seen.server.busiest_thread and seen.server.busiest_thread[1] >= WORKERS)


def server(seen: Seen) -> Hit | None:
    """The client waits and the database gives no account of itself."""
    client, other = seen.client, seen.server
    if not seen.cell.in_rows or other.stages or not client.stages:
        return None
    share = client.share(*(n for n in client.stages if n.startswith("await_") or n == "wait"))
    share -= client.share("await_schedule", "await_thread")
    if share < CLIENT_WAITS or (crowded(seen) and (other.run_delay or 0.0) > DELAYED):
        return None
    text = f"the client {waiting(client.waiting)}: the server sets the pace"
    lacks: tuple[str, ...] = ()
    if other.busiest_thread and _one_thread(seen):
        name, filled = other.busiest_thread
        text += f"; its busiest thread ({name}) fills {percent(filled)} of a core"
    elif other.cpu is not None:
        lanes = (client.workers or seen.streams) * share
        text += f"; its process uses {other.cpu:.2f} cores, {percent(other.cpu / lanes)} of the time that "
        text += "batches are with it"
        if (other.run_delay or 0.0) > DELAYED:
            text += f"; of the time that it could run it waited for a CPU {percent(other.run_delay)}"
    else:
        lacks = ("the server's CPU",)
    if seen.loopback is not True and not seen.round_trip:
        lacks = (*lacks, "the round trip")
    return Hit("server", "server", None, "server", text, beyond(share, CLIENT_WAITS - 0.1), lacks=lacks)
