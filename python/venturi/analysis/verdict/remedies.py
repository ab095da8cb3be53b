"""What to try next: for each cause the settings that open its place."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import unquote

from venturi.analysis.cells.figures import get
from venturi.analysis.cells.probed import codec_of, packed
from venturi.analysis.cells.summary import ends_by_itself, rows_a_batch
from venturi.analysis.verdict import ingest_remedies, link_remedies, upsert_remedies
from venturi.analysis.verdict.causes import Cause, RemedyKind
from venturi.analysis.verdict.evidence import CODEC, CellEvidence, End
from venturi.analysis.verdict.proof import Diagnosis
from venturi.analysis.verdict.proof.cores import crowded
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
from venturi.targets.parameters import CREDENTIALS
from venturi.targets.system import (
    REFERENCE,
    has_tables,
    is_charrow,
    is_program,
    scheme_of,
    servers_batches,
)
from venturi.targets.urls import split_url

__all__ = ["MOST", "remedies"]

MOST = 3
"""Remedies that are told of one cell."""
BATCH_LARGE = 8192
"""Rows per batch from which what a batch costs (headers, calls, wake-ups) is small against its rows."""
BATCH_BYTES = 256 * 1024
STREAMS_MOST = 64
_TABLES = (
    *("query", "table", "wire_format", "split", "split_by", "server_settings", "storage", "max_block_size"),
    *("dialect", "statement"),
)
"""Options of a get from a database that mean nothing to a server of ours."""


def remedies(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    """What to try, the most promising first."""
    if hit.cause is Cause.LINK_RELAY:
        return link_remedies.relay(seen)
    by_kind = _BY_KIND
    if seen.cell.in_rows:
        own = upsert_remedies.BY_KIND if seen.cell.answered else ingest_remedies.BY_KIND
        by_kind = {**_BY_KIND, **own}
    found: list[Remedy] = []
    if seen.over is not None:
        found += link_remedies.unpaced(seen, seen.over, hit)
    held = crowded(seen)
    for remedy in by_kind[hit.kind](seen, hit):
        # More in flight would wait for the CPUs that other programs hold.
        remedy = stop_others() if held and _adds_load(seen, remedy) else remedy
        if remedy not in found:
            found.append(remedy)
    return found


def _adds_load(seen: CellEvidence, remedy: Remedy) -> bool:
    now = {"streams": seen.streams, "in_flight": seen.cell.parameters.get("in_flight") or 1}
    more = {name: remedy.changes[name] for name in now if name in remedy.changes}
    return any(isinstance(value, int) and value > now[name] for name, value in more.items())


def _end(seen: CellEvidence, hit: Diagnosis) -> End:
    return seen.client if hit.end == "client" else seen.server


def _batch(seen: CellEvidence) -> tuple[int, float]:
    p = seen.cell.parameters
    return int(p.get("rows_per_batch") or 0), float(p.get("row_bytes") or 0.0)


def _larger_batches(seen: CellEvidence) -> list[Remedy]:
    if is_program(_url(seen)) and seen.cell.parameters.get("data") == "remote":
        # Batches are the program's.
        return []
    if servers_batches(seen.cell.parameters):
        arrived = rows_a_batch(seen.cell)
        if arrived is None or arrived >= BATCH_LARGE:
            return []
        return [
            Remedy(
                RemedyKind.SERVERS_BATCHES, settings={"server.batches": "larger"}, numbers={"rows": arrived}
            )
        ]
    rows, width = _batch(seen)
    if not rows or rows >= BATCH_LARGE or (width and rows * width >= BATCH_BYTES):
        return []
    return [Remedy(RemedyKind.LARGER_BATCHES, {"rows_per_batch": max(BATCH_LARGE, 4 * rows)})]


def _more_streams(seen: CellEvidence, why: RemedyKind = RemedyKind.MORE_STREAMS) -> list[Remedy]:
    return [more_connections(seen, why, int(2 * seen.streams))] if int(seen.streams) < STREAMS_MOST else []


def _without_codec(seen: CellEvidence) -> list[Remedy]:
    packed = codec_of(seen.cell.parameters.get("http_compression"))
    found = [Remedy(RemedyKind.NO_COMPRESSION, {"http_compression": None})] if packed is not None else []
    codec = codec_of(seen.cell.parameters.get("compression"))
    if codec is None:
        return found
    lighter = [Remedy(RemedyKind.LIGHTER_CODEC, {"compression": "lz4"})] if codec != "lz4" else []
    return [*found, *lighter, Remedy(RemedyKind.NO_COMPRESSION, {"compression": None})]


def serving(seen: CellEvidence) -> str:
    """The command that starts a server which accounts for its stages, of this cell's system where there is
    one."""
    return f"venturi serve {REFERENCE.get(scheme_of(_url(seen)), 'flight')}"


def elsewhere(seen: CellEvidence, why: RemedyKind) -> Remedy:
    """Such a server in this one's place, on a host of its own: what was moved is there then."""
    start = f"{serving(seen)} --host 0.0.0.0"
    # A server that is started so asks for no credentials and has no certificate.
    left = ("place", *ONLY_OVER_LINKS, *CREDENTIALS)
    if has_tables(_url(seen)):
        left += _TABLES
    if _charrow(seen):
        return Remedy(why, {"target": "charrow://HOST:9006"}, left_out=left, before=start)
    http = scheme_of(_url(seen)) == "http+arrow"
    changes = {"target": "http+arrow://HOST:8080" if http else "flight://HOST:31337"}
    if servers_batches(seen.cell.parameters):
        table = split_url(_url(seen)).path.strip("/")
        if table:
            changes["target"] += f"/{table}"
            start += f" --table {shlex.quote(unquote(table))}=FILE"
        else:
            # What a command or a ticket stands for is this server's secret; records can be had of any.
            changes["data"] = "records"
    return Remedy(why, changes, left_out=left, before=start)


def foreign_server(seen: CellEvidence) -> bool:
    """Whether the server is somebody else's, which can be asked for nothing that is ours."""
    known = [get(r, "target", "reference") for r in seen.cell.records]
    return (
        scheme_of(_url(seen)) in ("flight", "flightsql", "http+arrow")
        and bool(known)
        and all(reference is False for reference in known)
    )


def _unprobed(seen: CellEvidence) -> bool:
    """Whether nothing there takes plain bytes: `venturi ceilings` would refuse its URL, or fail there."""
    return foreign_server(seen) or scheme_of(_url(seen) or "flight://") not in REFERENCE


def raw_tcp(seen: CellEvidence, why: RemedyKind) -> Remedy:
    """Raw TCP over this cell's path, measured."""
    if _unprobed(seen):
        start = "venturi serve flight --host 0.0.0.0 --port 31338"
        return Remedy(why, before=start, command="venturi ceilings flight://HOST:31338")
    return Remedy(why, command=f"venturi ceilings {_url(seen) or 'URL'}")


def _url(seen: CellEvidence) -> str:
    return str(seen.cell.parameters.get("target") or "")


def _charrow(seen: CellEvidence) -> bool:
    return is_charrow(_url(seen))


def _pool(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    """What a pool that is full asks for: more threads, up to the CPUs that its end may use."""
    end, name = _end(seen, hit), hit.pool or ""
    now, cores = int(end.pools[name].threads), int(end.cores or 0)
    more = min(2 * now, cores) if cores else 2 * now
    told = {"pool": name, "now": now, "more": more}
    found = [Remedy(RemedyKind.LARGER_POOL, {name: more}, numbers=told)] if more > now else []
    if hit.stage in handicapped(seen, end.name):
        found.append(
            _unslowed(end.name) if end is seen.server else Remedy(RemedyKind.NO_HANDICAP, {"handicap": None})
        )
    if hit.stage == "verify":
        found.append(Remedy(RemedyKind.COUNT_ROWS, {"verify": "count"}))
    if hit.stage in CODEC:
        found += _without_codec(seen)
    found += _larger_batches(seen)
    if more <= now:
        settings = {f"{end.name}.cores": "more"}
        found.append(
            Remedy(RemedyKind.POOL_CORES, settings=settings, numbers={"end": end.name, "pool": name})
        )
    return found


def _unslowed(end: str) -> Remedy:
    return Remedy(RemedyKind.END_WITHOUT_HANDICAP, settings={f"{end}.handicap": None}, numbers={"end": end})


def _load_generator(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.pool is not None:
        return _pool(seen, hit)
    found = []
    if hit.cause is Cause.TOO_FEW_THREADS:
        found.append(Remedy(RemedyKind.THREAD_A_STREAM, {"threads": int(seen.streams)}))
    if handicapped(seen, "client"):
        found.append(Remedy(RemedyKind.WITHOUT_HANDICAP, {"handicap": None}))
    if "verify" in own_stages(seen) and seen.client.share("verify") > 0.2:
        found.append(Remedy(RemedyKind.COUNT_ROWS, {"verify": "count"}))
    return [*found, *_larger_batches(seen), *_more_streams(seen)]


def _cores(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if hit.cause is Cause.CORES_OF_OTHERS:
        return [stop_others()]
    if hit.cause is Cause.ONE_CORE_FOR_BOTH:
        return [Remedy(RemedyKind.OWN_CORE, {"pin": [0]}), *_more_streams(seen)]
    found = [*without_pin(seen), *larger_quota(hit)]
    if hit.stage in CODEC:
        found += _without_codec(seen)
    found += _larger_batches(seen)
    if seen.client.share("verify") > 0.1 and hit.end != "server":
        found.append(Remedy(RemedyKind.COUNT_ROWS, {"verify": "count"}))
    if hit.end is None and seen.same_machine is not False and scheme_of(_url(seen)) in REFERENCE:
        found.append(elsewhere(seen, RemedyKind.SERVER_ELSEWHERE))
    return [*found, *more_cores(hit)]


def _stage(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    end = _end(seen, hit)
    if hit.cause is Cause.POOL_TAKES_TURNS:
        faster = Remedy(RemedyKind.FASTER_SOURCE, settings={"source": "faster"}, numbers={"pool": hit.pool})
        return [_unslowed(end.name)] if hit.stage in handicapped(seen, end.name) else [faster]
    if hit.pool is not None:
        return _pool(seen, hit)
    if hit.cause is Cause.CIPHER_REACHED:
        return [*_more_streams(seen), *more_cores(hit)]
    if hit.cause is Cause.CPU_QUOTA_UNDER_ONE_CORE:
        return [quota(RemedyKind.RAISE_QUOTA, hit)]
    if hit.stage == "plugin":
        return _plugin(seen, hit)
    if hit.stage == "driver":
        options = Remedy(RemedyKind.DRIVER_OPTIONS, settings={"driver_options": "other"})
        return [*_more_streams(seen), options, Remedy(RemedyKind.PROFILE_DRIVER)]
    found = []
    if hit.stage in CODEC:
        if hit.stage in handicapped(seen, end.name):
            found.append(_unslowed(end.name))
        found += _without_codec(seen)
    # Small batches first where there is one: their cost is paid a batch.
    found += _larger_batches(seen)
    spare = end.busy is None or end.busy < 0.8
    if spare:
        found[:0] = _more_streams(seen)
    if seen.client.share("verify") > 0.2 and hit.end == "client":
        found.append(Remedy(RemedyKind.COUNT_ROWS, {"verify": "count"}))
    return found


def _plugin(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    """More calls at a time help where they wait, or compute without Python's lock. Fewer calls a row always
    do."""
    more = [] if hit.cause is Cause.PLUGIN_ONE_INTERPRETER else _more_streams(seen)
    return [*_larger_batches(seen), *more, Remedy(RemedyKind.PROFILE_PLUGIN)]


def _link(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    from venturi.plan.rules.options import applies  # beside the models of settings, which take their time

    asked_in_vain = foreign_server(seen) and seen.cell.operation == "get"
    can_pack = applies("compression", _url(seen), seen.cell.operation) and not asked_in_vain
    # What is drawn at random gets no smaller.
    random = [seen.cell.parameters.get(key) for key in ("data", "values")] == ["records", "random"]
    packs = can_pack and not random and not packed(seen.cell.parameters)
    if seen.over is not None:
        return link_remedies.link(seen, seen.over, hit, packs)
    found = [Remedy(RemedyKind.COMPRESSION, {"compression": "lz4"})] if packs else []
    if seen.sender.retransmits and seen.streams < 8:
        found += _more_streams(seen)
    if seen.of("raw TCP") is None:
        found.append(raw_tcp(seen, RemedyKind.PATH_LIMIT))
    return [*found, Remedy(RemedyKind.FASTER_PATH, settings={"path": "faster"})]


def _disk(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    address = "" if _unprobed(seen) else f" {_url(seen)}".rstrip()
    return [Remedy(RemedyKind.DISK_LIMIT, command=f"venturi ceilings{address}"), faster_disk(hit)]


def _memory(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    rows, width = _batch(seen)
    found = []
    if rows * width > 2**20 and not servers_batches(seen.cell.parameters):
        found.append(Remedy(RemedyKind.SMALLER_BATCHES, {"rows_per_batch": max(1, int(2**18 / width))}))
    if seen.client.share("verify") > 0.1:
        found.append(Remedy(RemedyKind.ONE_PASS_LESS, {"verify": "count"}))
    if seen.same_machine:
        found.append(Remedy(RemedyKind.OWN_HOSTS, before=serving(seen)))
    return found


def _flow_control(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    found = []
    enough = link_remedies.twice_held(seen)
    if hit.cause is Cause.SLOW_START:
        found += _longer(seen, link_remedies.long_enough(seen, hit))
    elif hit.cause is Cause.HTTP2_WINDOW:
        if seen.receiver is not seen.client:
            found.append(Remedy(RemedyKind.SERVER_WINDOW, settings={"server.window": enough or "larger"}))
        elif seen.cell.parameters.get("window"):
            if enough is not None and enough > seen.cell.parameters["window"]:
                found.append(link_remedies.buffer(seen, RemedyKind.WINDOW_TO, {"window": enough}))
            # Twice what is in flight at the rate wanted would do; without a limit TCP's own windows rule.
            found.append(Remedy(RemedyKind.NO_WINDOW, {"window": None}))
        else:
            found.append(Remedy(RemedyKind.LARGER_WINDOW))
    elif hit.cause is Cause.SEND_BUFFER:
        larger = enough or int(4 * (seen.sender.send_buffer or 2**18))
        theirs = {"server.send_buffer": larger}
        if seen.sender is seen.client and enough is not None:
            found.append(link_remedies.buffer(seen, RemedyKind.SEND_BUFFER_TO, {"send_buffer": larger}))
        elif seen.sender is seen.client:
            found.append(Remedy(RemedyKind.SEND_BUFFER, {"send_buffer": larger}))
        elif enough is not None:
            # A server that was started for the run has the kernel's.
            found.append(link_remedies.kernels(seen, "server", "tcp_wmem"))
        elif foreign_server(seen) or seen.over is not None:
            found.append(Remedy(RemedyKind.SERVER_OWN_SEND_BUFFER, settings=theirs))
        else:
            command = f"{serving(seen)} --send-buffer {larger}"
            found.append(Remedy(RemedyKind.SERVER_SEND_BUFFER, settings=theirs, command=command))
    elif hit.cause is Cause.RECEIVE_WINDOW:
        end = seen.receiver.name
        if enough is not None:
            found.append(link_remedies.kernels(seen, end, "tcp_rmem"))
        else:
            settings = {f"{end}.net.ipv4.tcp_rmem": "larger"}
            found.append(Remedy(RemedyKind.TCP_BUFFERS, settings=settings, numbers={"end": end}))
    elif hit.cause is Cause.ACKNOWLEDGEMENTS:
        if seen.cell.parameters.get("ack") == "batch":
            found.append(Remedy(RemedyKind.STREAM_ACKS, {"ack": "stream"}))
        found += _larger_batches(seen)
    return found + _more_streams(seen, RemedyKind.MORE_CONNECTIONS)


def _server(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    if is_program(_url(seen)):
        return [*_more_streams(seen), Remedy(RemedyKind.PROFILE_PROGRAM), *_larger_batches(seen)]
    if hit.cause is Cause.SERVER_WAITS:
        return [Remedy(RemedyKind.TRACE_SERVER), *_more_streams(seen), *_larger_batches(seen)]
    accounting = elsewhere(seen, RemedyKind.ACCOUNTING_SERVER)
    return [*_more_streams(seen), accounting, *_larger_batches(seen)]


def _schedule(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    return [
        Remedy(RemedyKind.HIGHER_RATE, {"rate": round(2 * (seen.offered or 0.0))}),
        Remedy(RemedyKind.CLOSED_LOOP, {"rate": None}),
    ]


def _longer(seen: CellEvidence, seconds: int) -> list[Remedy]:
    if ends_by_itself(seen.cell):
        return [Remedy(RemedyKind.LARGER_TABLE)]
    sizes = ("rows_per_stream", "bytes_per_stream")
    return [Remedy(RemedyKind.LONGER_TRIAL, {"duration_ns": seconds * 10**9}, left_out=sizes)]


def _settling(seen: CellEvidence, hit: Diagnosis) -> list[Remedy]:
    """What would make the place known."""
    if hit.cause is Cause.NO_GOOD_TRIAL:
        return [Remedy(RemedyKind.MEND, again=True)]
    if hit.cause is Cause.NOTHING_RECORDED:
        ours = scheme_of(_url(seen) or "flight://") in REFERENCE
        return [Remedy(RemedyKind.OWN_TRIALS, again=True) if ours else Remedy(RemedyKind.KEEPS_NONE)]
    if hit.cause is Cause.START_MEASURED:
        return _longer(seen, 5)
    if hit.cause is Cause.TOO_SHORT:
        return _longer(seen, 1)
    if hit.cause is Cause.HOSTS_UNSEEN:
        return [Remedy(RemedyKind.SAMPLES, run={"sample_interval": "100ms"})]
    if hit.cause is Cause.SERVER_UNSEEN:
        return [Remedy(RemedyKind.SERVERS_HOST)]
    if hit.cause in (Cause.SERVER_OR_PATH, Cause.SERVER_SILENT):
        return [elsewhere(seen, RemedyKind.SERVER_THAT_ACCOUNTS)]
    if hit.cause is Cause.RAW_TCP_UNMEASURED:
        return [raw_tcp(seen, RemedyKind.RAW_TCP)]
    return [
        more_connections(seen, RemedyKind.MORE_IN_FLIGHT, int(2 * seen.streams)),
        Remedy(RemedyKind.MORE_REPEATS, run={"repeats": 15}),
    ]


_BY_KIND: Mapping[str, Callable[[CellEvidence, Diagnosis], Sequence[Remedy]]] = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "link": _link,
    "disk": _disk,
    "memory": _memory,
    "flow-control": _flow_control,
    "server": _server,
    "schedule": _schedule,
    "unknown": _settling,
}
