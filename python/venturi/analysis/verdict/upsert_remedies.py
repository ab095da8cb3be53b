"""What to try next with upserts: the settings of a batch, of a connection and of a database."""

from __future__ import annotations

from collections.abc import Callable

from venturi.analysis.cells.probed import waits_for_disk
from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.proof.databases import fills_cores
from venturi.analysis.verdict.proof.ends import handicapped, own_stages
from venturi.analysis.verdict.shared_remedies import (
    ONLY_OVER_LINKS,
    faster_disk,
    larger_quota,
    more_connections,
    more_cores,
    quota,
    stop_others,
    without_pin,
)
from venturi.analysis.verdict.types import Remedy
from venturi.targets.system import ONE_AT_A_TIME, SERVERS, SPACES, scheme_of
from venturi.targets.urls import split_url

BATCHES = (10, 100, 500, 2_000, 10_000)
"""Rows a batch that are proposed one after the other: 500 as the published benchmark had, 10,000 at most."""
CASSANDRA_MOST = 500
"""As it comes it refuses batches over 50 KiB; so many small rows are near that."""
STREAMS_MOST = 256
IN_FLIGHT_MOST = 128


def scheme(seen: CellEvidence) -> str:
    """`mysql` of `mysql+tls://...`."""
    return scheme_of(str(seen.cell.parameters.get("target") or ""))


def larger_batches(seen: CellEvidence) -> list[Remedy]:
    rows = int(seen.cell.parameters.get("rows_per_batch") or 0)
    most = CASSANDRA_MOST if scheme(seen) == "cassandra" else BATCHES[-1]
    wanted = next((n for n in BATCHES if n >= 4 * rows), BATCHES[-1])
    if not rows or rows >= most or seen.cell.parameters.get("batch") == "none":
        return []
    return [Remedy(RemedyKind.FEWER_COMMITS, {"rows_per_batch": min(wanted, most)})]


def more_streams(seen: CellEvidence, why: RemedyKind) -> list[Remedy]:
    streams = int(seen.streams)
    if streams >= STREAMS_MOST:
        return []
    return [more_connections(seen, why, 2 * streams if streams > 1 else 4)]


def more_in_flight(seen: CellEvidence) -> list[Remedy]:
    now = int(seen.cell.parameters.get("in_flight") or 1)
    if scheme(seen) in ONE_AT_A_TIME or now >= IN_FLIGHT_MOST:
        return []
    return [Remedy(RemedyKind.MORE_BATCHES_IN_FLIGHT, {"in_flight": max(8, 4 * now)})]


def _cheaper_commits(seen: CellEvidence) -> list[Remedy]:
    """What a durable commit costs: it says what the disk takes, not what to run with."""
    p, system = seen.cell.parameters, scheme(seen)
    if system in ("postgres", "sqlite") and waits_for_disk(p):
        return [Remedy(RemedyKind.CHEAPER_COMMITS, {"synchronous": "off"})]
    if system == "sqlite" and p.get("journal") not in (None, "wal"):
        return [Remedy(RemedyKind.WRITE_AHEAD_LOG, {"journal": "wal"})]
    return []


def _statement(seen: CellEvidence) -> list[Remedy]:
    """The other way of writing a statement: which one is lighter depends on the server."""
    now = seen.cell.parameters.get("statement")
    if now not in ("text", "prepared"):
        return []
    return [Remedy(RemedyKind.OTHER_STATEMENTS, {"statement": "prepared" if now == "text" else "text"})]


def _method(seen: CellEvidence) -> list[Remedy]:
    if scheme(seen) in ("postgres", "duckdb") and seen.cell.parameters.get("method") != "copy":
        return [Remedy(RemedyKind.STAGING_TABLE, {"method": "copy"})]
    return []


def _ahead(seen: CellEvidence) -> list[Remedy]:
    if set(own_stages(seen)) & {"generate", "encode"} and seen.cell.parameters.get("generate") != "ahead":
        return [Remedy(RemedyKind.STATEMENTS_AHEAD, {"generate": "ahead"})]
    return []


def _load_generator(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    found = []
    if hit.cause is Cause.TOO_FEW_THREADS:
        found.append(Remedy(RemedyKind.THREAD_A_CONNECTION, {"threads": "streams"}))
    if handicapped(seen, "client"):
        found.append(Remedy(RemedyKind.WITHOUT_HANDICAP, {"handicap": None}))
    return [*found, *_ahead(seen), *more_streams(seen, RemedyKind.MORE_SENDERS), *larger_batches(seen)]


def _elsewhere(seen: CellEvidence) -> list[Remedy]:
    """The server on a host of its own, where client and server share this one."""
    system = scheme(seen)
    if system not in SERVERS or seen.same_machine is False:
        return []
    path = split_url(str(seen.cell.parameters.get("target"))).path.strip("/") or SPACES[system]
    there = {"target": f"{system}://HOST/{path}"}
    return [Remedy(RemedyKind.DATABASE_ELSEWHERE, there, left_out=ONLY_OVER_LINKS)]


def _cores(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.cause is Cause.CORES_OF_OTHERS:
        return [stop_others()]
    return [
        *without_pin(seen),
        *larger_quota(hit),
        *_ahead(seen),
        *larger_batches(seen),
        *_method(seen),
        *_elsewhere(seen),
        *_statement(seen),
        *more_cores(hit),
    ]


def _stage(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.cause is Cause.CPU_QUOTA_UNDER_ONE_CORE:
        return [quota(RemedyKind.RAISE_QUOTA, hit)]
    if hit.stage != "apply":
        return [*more_streams(seen, RemedyKind.MORE_SENDERS), *larger_batches(seen), *_statement(seen)]
    found = larger_batches(seen)
    if hit.cause is Cause.ENGINE_WAITS:
        return [*_cheaper_commits(seen), *found]
    if hit.cause is Cause.ENGINE_ONE_WRITER:
        found.append(Remedy(RemedyKind.ONE_CONNECTION, {"streams": 1}))
    return [*_method(seen), *found, *_cheaper_commits(seen)]


def _disk(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    # Commits of several connections that wait at the same time are one write to the disk.
    shared = more_streams(seen, RemedyKind.SHARED_COMMITS)
    return [*larger_batches(seen), *_cheaper_commits(seen), *shared, faster_disk(hit)]


def _little_in_flight(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    more = [*more_streams(seen, RemedyKind.MORE_CONNECTIONS), *more_in_flight(seen)]
    return [*more, *larger_batches(seen), *_cheaper_commits(seen)]


def _server(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    one = seen.server.busiest_thread
    found, lighter = larger_batches(seen), [*_method(seen), *_statement(seen)]
    if fills_cores(seen):
        return [*found, *_elsewhere(seen), *lighter]
    more = more_streams(seen, RemedyKind.MORE_SERVER_CORES)
    found = [*more, *found] if one is not None and one[1] >= 0.9 else [*found, *more]
    return [*found, *more_in_flight(seen), *lighter]


BY_KIND: dict[str, Callable[[CellEvidence, Diagnosis], list[Remedy]]] = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "disk": _disk,
    "flow-control": _little_in_flight,
    "server": _server,
}
"""What opens the place of a hit, the most promising first. For other kinds a transfer's remedies hold."""
