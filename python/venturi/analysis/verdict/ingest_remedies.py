"""What to try next where points of time series are sent: the settings of generator, streams and store."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from venturi.analysis.verdict.evidence import Seen
from venturi.analysis.verdict.proof import Hit
from venturi.analysis.verdict.proof.cores import HELD
from venturi.analysis.verdict.proof.ends import own_stages
from venturi.analysis.verdict.rerun import Rerun

STREAMS_MOST = 256


def _more_streams(seen: Seen, rerun: Rerun, why: str) -> list[str]:
    """A series belongs to one stream, so that there are no more of them than hosts."""
    streams, hosts = int(seen.streams), seen.cell.parameters.get("hosts")
    wanted = 2 * streams
    if wanted > STREAMS_MOST or (isinstance(hosts, int) and wanted > hosts):
        return []
    threads = seen.cell.parameters.get("threads")
    own = {"threads": "streams"} if threads not in (None, streams) else {}
    return [f"{why}: {rerun.but(streams=wanted, **own)}"]


def _ready_made(seen: Seen, rerun: Rerun) -> list[str]:
    """Messages that are ready before the clock starts; only where their number is known."""
    p = seen.cell.parameters
    own = set(own_stages(seen)) & {"generate", "encode"}
    if not own or p.get("generate") == "ahead" or not p.get("rows_per_stream"):
        return []
    return [f"messages made before the clock starts: {rerun.but(generate='ahead')}"]


def _lighter(seen: Seen, rerun: Rerun) -> list[str]:
    """A form of the messages that costs less to write and to read."""
    # Shorter numbers would be fewer bytes, but finding them takes the loader longer than writing 17 digits.
    if seen.cell.parameters.get("messages") == "values":
        return [f"whole rows in place of single values: {rerun.but(messages='rows')}"]
    return []


def _elsewhere(seen: Seen, rerun: Rerun) -> list[str]:
    if seen.same_machine is False:
        return []
    parts = urlsplit(str(seen.cell.parameters.get("target") or ""))
    there = f"{parts.scheme}://HOST{parts.path if parts.path.strip('/') else ''}"
    return [f"the server on another host, and from here: {rerun.but(target=there)}"]


def _load_generator(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    if hit.stage == "await_thread":
        found.append(f"a thread a connection: {rerun.but(threads='streams')}")
    found += _ready_made(seen, rerun)
    found += _more_streams(seen, rerun, "more connections, each with a thread of its own")
    return [*found, *_lighter(seen, rerun)]


def _cores(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    if hit.title.endswith(HELD):
        return [f"stop what else runs here (venturi doctor names it), then run again: {rerun.but()}"]
    found = []
    if seen.cell.records and seen.cell.records[0].get("pin"):
        found.append(f"without --pin: {rerun.but(pin='none')}")
    found += [*_elsewhere(seen, rerun), *_ready_made(seen, rerun), *_lighter(seen, rerun)]
    if hit.end is not None:
        found.append(f"more or faster cores at the {hit.end}")
    return found


def _stage(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    if hit.end == "client":
        return [
            *_more_streams(seen, rerun, "more connections, each with a thread of its own"),
            *_ready_made(seen, rerun),
            *_lighter(seen, rerun),
        ]
    return _server(seen, hit, rerun)


def _disk(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    if seen.cell.parameters.get("durable") == "fsync":
        found.append(f"what durability costs, by not waiting for the disk: {rerun.but(durable='os')}")
    return [*found, f"a faster disk at the {hit.end}"]


def _server(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    return [
        *_more_streams(seen, rerun, "more connections, which the server may serve on more cores"),
        *_disk_free(seen, rerun),
        *_lighter(seen, rerun),
    ]


def _disk_free(seen: Seen, rerun: Rerun) -> list[str]:
    if seen.cell.parameters.get("durable") in ("os", "fsync"):
        return [f"what its log costs, by keeping none: {rerun.but(durable='none')}"]
    return []


BY_KIND: dict[str, Callable[[Seen, Hit, Rerun], list[str]]] = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "disk": _disk,
    "server": _server,
}
"""What opens the place of a hit, the most promising first. For other kinds a transfer's remedies hold."""
