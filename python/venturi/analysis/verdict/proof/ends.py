"""Proofs that one end's own workers are the narrow place: schedule, load generator, stage, server."""

from __future__ import annotations

from typing import Any

from venturi.analysis.cells.ceilings import codec_of
from venturi.analysis.cells.summary import get
from venturi.analysis.verdict.evidence import CODEC, OWN, End, Seen
from venturi.analysis.verdict.proof.cores import crowded, embedded, full
from venturi.analysis.verdict.proof.hit import Hit, beyond
from venturi.analysis.words.wording import milliseconds, shares, waiting
from venturi.common.units import percent, plural
from venturi.targets.handicap import nanoseconds

WORKERS = 0.9
"""METHOD: a stage is the narrow place where its workers work over 90 % of their time."""
NEARLY = 0.75
"""Workers this busy are named, with low confidence, where nothing else is near its limit."""
OWN_SHARE = 0.5
"""The load generator is the narrow place where most of what its workers do is its own work."""
DOMINANT = 0.8
"""Share of an end's work from which its largest stage speaks for all of it."""
CLOCK = 0.1
"""Share of a trial spent on reading the clock; METHOD wants it under 1 %."""
CLIENT_WAITS = 0.5
KEPT_UP = 0.97
"""Moved over offered batches/s. A fixed number of batches ends with the last one's service time on top."""
SCHEDULE_SPARE = 0.02
"""Share of time left over between slots. A client without any only just kept up, or did not."""


def schedule(seen: Seen) -> Hit | None:
    """An open loop that kept up: what was offered is what was moved.

    First, although METHOD has it last: slots are awaited by polling, which keeps a core busy without need,
    and whatever else is busy cannot be what held back a rate that was reached.
    """
    spare = seen.client.stages.get("await_schedule")
    if seen.kept is None or seen.offered is None or seen.kept < KEPT_UP:
        return None
    if spare is not None and spare < SCHEDULE_SPARE:
        return None
    late = f"; {percent(seen.late, 1)} of them late" if seen.late else ""
    return Hit(
        "schedule",
        "client",
        "await_schedule",
        "its schedule, kept up",
        f"the schedule offers {seen.offered:,.6g} batches/s and {percent(min(seen.kept, 1.0), 1)} of that "
        f"was moved{late}: this is the rate that was asked for, not a limit"
        + (f"; the client waited for its slots {percent(spare)} of the time" if spare else ""),
        beyond(seen.kept, KEPT_UP - 0.01),
        lacks=() if spare is not None else ("the client's stages",),
        flagged=True,
    )


def handicapped(seen: Seen, end: str) -> dict[str, Any]:
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


def own_stages(seen: Seen) -> dict[str, float]:
    """The client's work that is its own and not that of any Flight client with these settings."""
    own = {*OWN, *handicapped(seen, "client")}
    if codec_of(seen.cell.parameters.get("compression")) is None:
        own |= set(CODEC)
    return {n: s for n, s in seen.client.work.items() if n in own}


def _despite_others(seen: Seen, end: End) -> bool:
    """Whether a stage is the narrow place although others hold the cores: it takes nearly all that its end
    gets of them, and would of more."""
    work = sum(end.work.values())
    return crowded(seen) and work > 0 and end.work[end.first or ""] / work >= DOMINANT


def load_generator(seen: Seen) -> Hit | None:
    """The client's own work fills its workers while cores are free and the server waits."""
    client, occupancy = seen.client, seen.client.occupancy
    if occupancy is None or occupancy < WORKERS or (full(client) and not _despite_others(seen, client)):
        return None
    if seen.server.occupancy is not None and seen.server.occupancy >= occupancy:
        return None
    lacks = () if client.busy is not None else ("whether the client's host had a core to spare",)
    work, own = sum(client.work.values()), own_stages(seen)
    # Several batches in flight are workers of one stream, and a stream has one thread at most.
    threads, workers = client.threads or 0.0, min(client.workers or 0.0, seen.streams)
    server = f"; the server {waiting(seen.server.waiting)}" if seen.server.stages else ""
    part = sum(own.values()) / work if work else 0.0
    if part >= OWN_SHARE:
        stage = next(iter(own))
        handicap = handicapped(seen, "client").get(stage)
        why = f" ({milliseconds(handicap)} a batch were added on purpose)" if handicap else ""
        return Hit(
            "load-generator",
            "client",
            stage,
            f"load generator: {stage}",
            f"the client itself is the narrow place: its workers are busy {percent(occupancy)}, most of it "
            f"with its own work: {shares(own)}{why}{server}",
            min(beyond(occupancy, WORKERS), beyond(part, OWN_SHARE)) + 0.2,
            lacks=lacks,
            flagged=True,
        )
    if 0 < threads < workers and (client.cores is None or threads < client.cores):
        return Hit(
            "load-generator",
            "client",
            "await_thread",
            "load generator: too few threads",
            f"{plural(threads, 'client thread')} serve {plural(workers, 'stream')} and are busy "
            f"{percent(occupancy)} ({shares(client.work)}) while cores are free{server}",
            beyond(occupancy, WORKERS) + 0.2,
            lacks=lacks,
            flagged=True,
        )
    if (seen.instrument or 0.0) >= CLOCK:
        return Hit(
            "load-generator",
            "client",
            None,
            "load generator: its clock",
            f"reading the clock takes {percent(seen.instrument)} of the trial; batches are too small to be "
            "timed one by one",
            beyond(seen.instrument or 0.0, CLOCK, 0.3),
            lacks=lacks,
            flagged=True,
        )
    return None


def stage(seen: Seen) -> Hit | None:
    """The workers of one end work all the time while those of the other wait for them."""
    return _stage(seen, WORKERS)


def nearly(seen: Seen) -> Hit | None:
    """As `stage`, where nothing is at its limit but one end is not far from it."""
    return _stage(seen, NEARLY)


def _stage(seen: Seen, threshold: float) -> Hit | None:
    busy = [
        (e.occupancy, e)
        for e in (seen.client, seen.server)
        if (e.occupancy or 0.0) >= threshold and (not crowded(seen) or _despite_others(seen, e))
    ]
    if not busy:
        return None
    occupancy, end = max(busy, key=lambda pair: pair[0] or 0.0)
    other = seen.other(end)
    assert occupancy is not None
    apart = 1.0 if other.occupancy is None else occupancy - other.occupancy
    name = end.first
    codec = codec_of(seen.cell.parameters.get("compression"))
    detail = ""
    if name in CODEC and codec:
        detail = f" with {codec}"
    if name in (slowed := handicapped(seen, end.name)):
        detail += f" ({milliseconds(slowed[name])} a batch were added on purpose)"
    lacks = []
    if end.busy is None:
        lacks.append(f"whether the {end.name}'s host had a core to spare")
    # An engine within the client has no other end; of a database its process is what can be known.
    enough = embedded(seen) or (seen.cell.in_rows and other.cpu is not None)
    if other.occupancy is None and not enough:
        lacks.append(f"the {other.name}'s stages")
    workers = end.threads or end.workers
    one = "worker is" if workers == 1 else f"{workers:g} workers are" if workers else "workers are"
    neighbour = f"; the {other.name} {waiting(other.waiting)}" if other.stages else ""
    verb = "busy" if threshold >= WORKERS else "the busiest there are, at"
    return Hit(
        "stage",
        end.name,
        name,
        f"{end.name}: {name}",
        f"the {end.name}'s {one} {verb} {percent(occupancy)}: {shares(end.work)}{detail}{neighbour}",
        min(beyond(occupancy, threshold) + 0.3, beyond(apart, 0.0, 0.3)) if threshold >= WORKERS else 0.0,
        lacks=tuple(lacks),
    )


def server(seen: Seen) -> Hit | None:
    """The client waits and the server does not give account of itself."""
    client, other = seen.client, seen.server
    if other.stages or not client.stages or seen.cell.in_rows:
        return None
    share = client.share(*(n for n in client.stages if n.startswith("await_") or n == "wait"))
    share -= client.share("await_schedule", "await_thread")
    if share < CLIENT_WAITS:
        return None
    lacks = ["the server's stages"]
    text = f"the client {waiting(client.waiting)}: the server sets the pace"
    if other.busiest_thread and other.busiest_thread[1] >= WORKERS:
        text += f"; its busiest thread ({other.busiest_thread[0]}) fills "
        text += f"{percent(other.busiest_thread[1])} of a core"
        lacks = []
    elif other.cpu is not None:
        text += f"; the process that listens on its port uses {other.cpu:.2f} cores"
    if seen.loopback is not True and seen.of("raw TCP") is None:
        lacks.append("raw TCP over the same path")
    return Hit(
        "server", "server", None, "server", text, beyond(share, CLIENT_WAITS - 0.1), lacks=tuple(lacks)
    )
