"""What to try next where points of time series are sent: the settings of generator, streams and store."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CellEvidence
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.proof.ends import own_stages
from venturi.analysis.verdict.shared_remedies import (
    ONLY_OVER_LINKS,
    faster_disk,
    more_connections,
    more_cores,
    stop_others,
    without_pin,
)
from venturi.analysis.verdict.types import Remedy
from venturi.targets.options import ONLY_HERE

STREAMS_MOST = 256


def _more_streams(seen: CellEvidence, why: RemedyKind) -> list[Remedy]:
    """A series belongs to one stream, so that there are no more of them than hosts."""
    wanted, hosts = 2 * int(seen.streams), seen.cell.parameters.get("hosts")
    if wanted > STREAMS_MOST or (isinstance(hosts, int) and wanted > hosts):
        return []
    return [more_connections(seen, why, wanted)]


def _ready_made(seen: CellEvidence) -> list[Remedy]:
    """Messages that are ready before the clock starts; only where their number is known."""
    p = seen.cell.parameters
    own = set(own_stages(seen)) & {"generate", "encode"}
    if not own or p.get("generate") == "ahead" or not p.get("rows_per_stream"):
        return []
    return [Remedy(RemedyKind.MESSAGES_AHEAD, {"generate": "ahead"})]


def _lighter(seen: CellEvidence) -> list[Remedy]:
    """A form of the messages that costs less to write and to read."""
    # Shorter numbers would be fewer bytes, but finding them takes the loader longer than writing 17 digits.
    whole = seen.cell.parameters.get("messages") != "values"
    return [] if whole else [Remedy(RemedyKind.WHOLE_ROWS, {"messages": "rows"})]


def _elsewhere(seen: CellEvidence) -> list[Remedy]:
    if seen.same_machine is False:
        return []
    parts = urlsplit(str(seen.cell.parameters.get("target") or ""))
    there = f"{parts.scheme}://HOST{parts.path if parts.path.strip('/') else ''}"
    return [
        Remedy(
            RemedyKind.DATABASE_ELSEWHERE, {"target": there}, left_out=(*sorted(ONLY_HERE), *ONLY_OVER_LINKS)
        )
    ]


def _load_generator(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    own = [Remedy(RemedyKind.THREAD_A_CONNECTION, {"threads": "streams"})]
    found = own if hit.cause is Cause.TOO_FEW_THREADS else []
    return [*found, *_ready_made(seen), *_more_streams(seen, RemedyKind.MORE_SENDERS), *_lighter(seen)]


def _cores(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.cause is Cause.CORES_OF_OTHERS:
        return [stop_others()]
    lighter = [*_elsewhere(seen), *_ready_made(seen), *_lighter(seen)]
    return [*without_pin(seen), *lighter, *more_cores(hit)]


def _stage(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.end == "client":
        return [*_more_streams(seen, RemedyKind.MORE_SENDERS), *_ready_made(seen), *_lighter(seen)]
    return _server(seen, hit)


def _disk(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    synced = seen.cell.parameters.get("durable") == "fsync"
    return [*([Remedy(RemedyKind.NO_FSYNC, {"durable": "os"})] if synced else []), faster_disk(hit)]


def _server(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.cause is Cause.SERVER_WAITS:
        return [
            Remedy(RemedyKind.TRACE_SERVER),
            *_more_streams(seen, RemedyKind.MORE_CONNECTIONS),
            *_disk_free(seen),
        ]
    return [*_more_streams(seen, RemedyKind.MORE_SERVER_CORES), *_disk_free(seen), *_lighter(seen)]


def _disk_free(seen: CellEvidence) -> list[Remedy]:
    logged = seen.cell.parameters.get("durable") in ("os", "fsync")
    return [Remedy(RemedyKind.NO_LOG, {"durable": "none"})] if logged else []


BY_KIND: dict[str, Callable[[CellEvidence, Diagnosis], list[Remedy]]] = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "disk": _disk,
    "server": _server,
}
"""What opens the place of a hit, the most promising first. For other kinds a transfer's remedies hold."""
