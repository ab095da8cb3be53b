"""What to try next with upserts: the settings of a batch, of a connection and of a database, as commands."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from venturi.analysis.cells.ceilings import waits_for_disk
from venturi.analysis.verdict.evidence import Seen
from venturi.analysis.verdict.proof import Hit
from venturi.analysis.verdict.proof.cores import HELD
from venturi.analysis.verdict.proof.ends import handicapped, own_stages
from venturi.analysis.verdict.rerun import Rerun

BATCHES = (10, 100, 500, 2_000, 10_000)
"""Rows a batch that are proposed one after the other: 500 as the published benchmark had, 10,000 at most."""
CASSANDRA_MOST = 500
"""As it comes it refuses batches over 50 KiB; so many small rows are near that."""
STREAMS_MOST = 256
IN_FLIGHT_MOST = 128
PIPELINED = ("cassandra", "postgres")
"""Protocols in which a connection may have several statements under way."""
SERVED = {"mysql": "mariadb", "cassandra": "cassandra", "postgres": "postgres"}


def scheme(seen: Seen) -> str:
    """`mysql` of `mysql+tls://...`."""
    return urlsplit(str(seen.cell.parameters.get("target") or "")).scheme.partition("+")[0]


def larger_batches(seen: Seen, rerun: Rerun) -> list[str]:
    rows = int(seen.cell.parameters.get("rows_per_batch") or 0)
    most = CASSANDRA_MOST if scheme(seen) == "cassandra" else BATCHES[-1]
    wanted = next((n for n in BATCHES if n >= 4 * rows), BATCHES[-1])
    if not rows or rows >= most or seen.cell.parameters.get("batch") == "none":
        return []
    command = rerun.but(rows_per_batch=min(wanted, most))
    return [f"larger batches, for less work and fewer commits a row: {command}"]


def more_streams(
    seen: Seen, rerun: Rerun, why: str = "more connections, so that more is under way"
) -> list[str]:
    streams = int(seen.streams)
    if streams >= STREAMS_MOST:
        return []
    threads = seen.cell.parameters.get("threads")
    own = {"threads": "streams"} if threads not in (None, streams) else {}
    return [f"{why}: {rerun.but(streams=2 * streams if streams > 1 else 4, **own)}"]


def more_in_flight(seen: Seen, rerun: Rerun) -> list[str]:
    now = int(seen.cell.parameters.get("in_flight") or 1)
    if scheme(seen) not in PIPELINED or now >= IN_FLIGHT_MOST:
        return []
    return [f"more batches in flight on each connection: {rerun.but(in_flight=max(8, 4 * now))}"]


def _cheaper_commits(seen: Seen, rerun: Rerun) -> list[str]:
    """What a durable commit costs: it says what the disk takes, not what to run with."""
    p, system = seen.cell.parameters, scheme(seen)
    told = "what commits cost, by not waiting for the disk"
    if system in ("postgres", "sqlite") and waits_for_disk(p):
        return [f"{told}: {rerun.but(synchronous='off')}"]
    if system == "sqlite" and p.get("journal") not in (None, "wal"):
        return [f"a log in place of rewritten pages: {rerun.but(journal='wal')}"]
    return []


def _statement(seen: Seen, rerun: Rerun) -> list[str]:
    """The other way of writing a statement: which one is lighter depends on the server."""
    now = seen.cell.parameters.get("statement")
    if now not in ("text", "prepared"):
        return []
    other = "prepared" if now == "text" else "text"
    return [f"{other} statements, which cost client and server otherwise: {rerun.but(statement=other)}"]


def _method(seen: Seen, rerun: Rerun) -> list[str]:
    if scheme(seen) in ("postgres", "duckdb") and seen.cell.parameters.get("method") != "copy":
        return [f"a staging table and one merge a batch: {rerun.but(method='copy')}"]
    return []


def _load_generator(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    if hit.stage == "await_thread":
        found.append(f"a thread a connection: {rerun.but(threads='streams')}")
    if handicapped(seen, "client"):
        found.append(f"without the handicap: {rerun.but(handicap='none')}")
    if set(own_stages(seen)) & {"generate", "encode"} and seen.cell.parameters.get("generate") != "ahead":
        found.append(f"statements built before the clock starts: {rerun.but(generate='ahead')}")
    found += more_streams(seen, rerun, "more connections, each with a thread of its own")
    return found + larger_batches(seen, rerun)


def _elsewhere(seen: Seen, rerun: Rerun) -> list[str]:
    """The server on a host of its own, where client and server share this one."""
    system = scheme(seen)
    if system not in SERVED or seen.same_machine is False:
        return []
    path = urlsplit(str(seen.cell.parameters.get("target"))).path.strip("/") or "venturi"
    there = f"{system}://HOST/{path}"
    return [f"the server on another host, and from here: {rerun.but(target=there)}"]


def _cores(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    if hit.title.endswith(HELD):
        return [f"stop what else runs here (venturi doctor names it), then run again: {rerun.but()}"]
    found = []
    if seen.cell.records and seen.cell.records[0].get("pin"):
        found.append(f"without --pin: {rerun.but(pin='none')}")
    quota = seen.server.quota if hit.end == "server" else seen.client.quota
    if quota and "quota" in hit.title:
        found.append(f"a larger CPU quota for the {hit.end}'s control group than {quota:g} cores")
    if set(own_stages(seen)) & {"generate", "encode"} and seen.cell.parameters.get("generate") != "ahead":
        found.append(f"statements built before the clock starts: {rerun.but(generate='ahead')}")
    found += larger_batches(seen, rerun)
    found += _method(seen, rerun)
    found += _elsewhere(seen, rerun)
    found += _statement(seen, rerun)
    if hit.end is not None:
        found.append(f"more or faster cores at the {hit.end}")
    return found


def _stage(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    if "throttled" in hit.title:
        end = seen.client if hit.end == "client" else seen.server
        return [f"raise the CPU quota of the {hit.end}'s control group ({end.quota:g} of a core)"]
    if hit.stage != "apply":
        found = more_streams(seen, rerun, "more connections, each with a thread of its own")
        return found + larger_batches(seen, rerun) + _statement(seen, rerun)
    found = larger_batches(seen, rerun)
    if hit.title.endswith("waiting"):
        return [*_cheaper_commits(seen, rerun), *found]
    if hit.title.endswith("one writer"):
        found.append(f"one connection, which waits for no other: {rerun.but(streams=1)}")
    return [*_method(seen, rerun), *found, *_cheaper_commits(seen, rerun)]


def _disk(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    return [
        *larger_batches(seen, rerun),
        *_cheaper_commits(seen, rerun),
        # Commits of several connections that wait at the same time are one write to the disk.
        *more_streams(seen, rerun, "more connections, whose commits the server may write together"),
        f"a faster disk at the {hit.end}",
    ]


def _under_way(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    return [
        *more_streams(seen, rerun),
        *more_in_flight(seen, rerun),
        *larger_batches(seen, rerun),
        *_cheaper_commits(seen, rerun),
    ]


def _server(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    one = seen.server.busiest_thread
    found = larger_batches(seen, rerun)
    more = more_streams(seen, rerun, "more connections, which the server may serve on more cores")
    found = [*more, *found] if one is not None and one[1] >= 0.9 else [*found, *more]
    return [*found, *more_in_flight(seen, rerun), *_method(seen, rerun), *_statement(seen, rerun)]


BY_KIND: dict[str, Callable[[Seen, Hit, Rerun], list[str]]] = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "disk": _disk,
    "flow-control": _under_way,
    "server": _server,
}
"""What opens the place of a hit, the most promising first. For other kinds a transfer's remedies hold."""
