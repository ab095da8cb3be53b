"""What to try next: for each verdict the settings that open its place, as commands that can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from venturi.analysis.cells.ceilings import codec_of
from venturi.analysis.cells.summary import get, rows_a_batch
from venturi.analysis.verdict import ingest_remedies, upsert_remedies
from venturi.analysis.verdict.evidence import Seen
from venturi.analysis.verdict.proof import Hit
from venturi.analysis.verdict.proof.cores import HELD
from venturi.analysis.verdict.proof.ends import handicapped, own_stages
from venturi.analysis.verdict.rerun import CREDENTIALS, Rerun
from venturi.targets.system import is_charrow, is_clickhouse, scheme_of, servers_batches

BATCH_LARGE = 8192
"""Rows a batch from which what a batch costs (headers, calls, wake-ups) is small against its rows."""
BATCH_BYTES = 256 * 1024
STREAMS_MOST = 64
_CLICKHOUSE = (
    *("query", "table", "wire_format", "split", "split_by", "server_settings", "storage", "max_block_size"),
)
"""Options of ClickHouse that mean nothing to a server of ours."""


def remedies(seen: Seen, hit: Hit, rerun: Rerun) -> tuple[str, ...]:
    """What to try, the most promising first, three at most."""
    by_kind = _BY_KIND
    if seen.cell.in_rows:
        own = upsert_remedies.BY_KIND if seen.cell.answered else ingest_remedies.BY_KIND
        by_kind = {**_BY_KIND, **own}
    found = by_kind[hit.kind](seen, hit, rerun)
    return tuple(dict.fromkeys(found))[:3]


def _batch(seen: Seen) -> tuple[int, float]:
    p = seen.cell.parameters
    return int(p.get("rows_per_batch") or 0), float(p.get("row_bytes") or 0.0)


def _larger_batches(seen: Seen, rerun: Rerun) -> list[str]:
    if servers_batches(seen.cell.parameters):
        arrived = rows_a_batch(seen.cell)
        if arrived is None or arrived >= BATCH_LARGE:
            return []
        return [
            f"larger batches than the {arrived:,.0f} rows that the server sends, which is its own setting"
        ]
    rows, width = _batch(seen)
    if not rows or rows >= BATCH_LARGE or (width and rows * width >= BATCH_BYTES):
        return []
    return [f"larger batches, for less work a row: {rerun.but(rows_per_batch=max(BATCH_LARGE, 4 * rows))}"]


def more_streams(seen: Seen, rerun: Rerun) -> str:
    """The command with twice the streams, each with a thread of its own."""
    threads = seen.cell.parameters.get("threads")
    own = {"threads": "streams"} if threads not in (None, seen.cell.parameters.get("streams")) else {}
    return rerun.but(streams=int(2 * seen.streams), **own)


def _more_streams(seen: Seen, rerun: Rerun) -> list[str]:
    streams = int(seen.streams)
    if streams >= STREAMS_MOST:
        return []
    return [f"more streams, so that more workers share it: {more_streams(seen, rerun)}"]


def _without_codec(seen: Seen, rerun: Rerun) -> list[str]:
    codec = codec_of(seen.cell.parameters.get("compression"))
    if codec is None:
        return []
    found = [f"no compression: {rerun.but(compression='none')}"]
    if codec != "lz4":
        found.insert(0, f"a lighter codec: {rerun.but(compression='lz4')}")
    return found


def serving(seen: Seen) -> str:
    """The command that starts a server which accounts for its stages, of this cell's system where there is
    one."""
    return f"venturi serve {'charrow' if _charrow(seen) else 'flight'}"


def elsewhere(seen: Seen, rerun: Rerun) -> str:
    """The commands that put such a server in this one's place, on a host of its own: what was moved is there
    then."""
    start = f"{serving(seen)} --host 0.0.0.0"
    # A server that is started so asks for no credentials and has no certificate.
    left: dict[str, str | None] = dict.fromkeys(("place", *CREDENTIALS))
    if is_clickhouse(str(seen.cell.parameters.get("target") or "")):
        left |= dict.fromkeys(_CLICKHOUSE)
    if _charrow(seen):
        return f"{start} there, then {rerun.but(target='charrow://HOST:9006', **left)}"
    target = "flight://HOST:31337"
    if servers_batches(seen.cell.parameters):
        table = urlsplit(str(seen.cell.parameters["target"])).path.strip("/")
        if table:
            again = rerun.but(target=f"{target}/{table}", **left)
            return f"{start} --table {shlex.quote(unquote(table))}=FILE there, then {again}"
        # What a command or a ticket stands for is this server's secret; records can be had of any.
        left["data"] = "records"
    return f"{start} there, then {rerun.but(target=target, **left)}"


def stranger(seen: Seen) -> bool:
    """Whether the server is somebody else's Flight server, which can be asked for nothing that is ours."""
    flight = scheme_of(str(seen.cell.parameters.get("target") or "")) == "flight"
    known = [get(r, "target", "reference") for r in seen.cell.records]
    return flight and bool(known) and all(reference is False for reference in known)


def raw_tcp(seen: Seen) -> str:
    """The commands that measure raw TCP over this cell's path."""
    if stranger(seen):
        return "venturi serve flight --host 0.0.0.0 --port 31338 there, then venturi ceilings flight://HOST:31338"
    return f"venturi ceilings {seen.cell.parameters.get('target') or 'URL'}"


def _charrow(seen: Seen) -> bool:
    return is_charrow(str(seen.cell.parameters.get("target") or ""))


def _pool(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    """What a pool that is full asks for: more threads, up to the CPUs that its end may use."""
    name = hit.title.rpartition(": ")[2]
    end = seen.client if hit.end == "client" else seen.server
    pool = end.pools[name]
    now, cores = int(pool.threads), int(end.cores or 0)
    more = min(2 * now, cores) if cores else 2 * now
    found = [f"{name}: {now} -> {more}: {rerun.but(**{name: more})}"] if more > now else []
    if hit.stage in handicapped(seen, end.name):
        slowed = end is seen.server
        found.append(
            "start the server without --handicap" if slowed else f"no handicap: {rerun.but(handicap='none')}"
        )
    if hit.stage == "verify":
        found.append(f"count rows instead of checking values: {rerun.but(verify='count')}")
    if hit.stage in ("encode", "decode"):
        found += _without_codec(seen, rerun)
    found += _larger_batches(seen, rerun)
    if more <= now:
        found.append(f"more or faster cores at the {end.name}: as many {name} as it has cores are busy")
    return found


def _of_pool(seen: Seen, hit: Hit) -> bool:
    """Whether the hit's place is a pool, which its title names."""
    end = seen.client if hit.end == "client" else seen.server
    return hit.end is not None and hit.title.rpartition(": ")[2] in end.pools


def _load_generator(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    if _of_pool(seen, hit):
        return _pool(seen, hit, rerun)
    if hit.stage == "await_thread":
        found.append(f"a thread a stream: {rerun.but(threads=int(seen.streams))}")
    slowed = handicapped(seen, "client")
    if slowed:
        found.append(f"without the handicap: {rerun.but(handicap='none')}")
    if "verify" in own_stages(seen) and seen.client.share("verify") > 0.2:
        found.append(f"count rows instead of checking values: {rerun.but(verify='count')}")
    found += _larger_batches(seen, rerun)
    return found + _more_streams(seen, rerun)


def _cores(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    if hit.title.endswith(HELD):
        return ["stop what else runs here (venturi doctor names it), then run again: " + rerun.but()]
    found: list[str] = []
    if hit.title == "one core for both ends":
        return [f"keep the client off the server's core: {rerun.but(pin=0)}", *_more_streams(seen, rerun)]
    if seen.cell.records and seen.cell.records[0].get("pin"):
        found.append(f"without --pin: {rerun.but(pin='none')}")
    quota = seen.server.quota if hit.end == "server" else seen.client.quota
    if quota and "quota" in hit.title:
        found.append(f"a larger CPU quota for the {hit.end}'s control group than {quota:g} cores")
    if hit.stage in ("encode", "decode"):
        found += _without_codec(seen, rerun)
    found += _larger_batches(seen, rerun)
    if seen.client.share("verify") > 0.1 and hit.end != "server":
        found.append(f"count rows instead of checking values: {rerun.but(verify='count')}")
    if (
        hit.end is None
        and seen.same_machine is not False
        and str(seen.cell.parameters.get("target") or "").startswith(("flight", "charrow"))
    ):
        found.append(f"the server on another host: {elsewhere(seen, rerun)}")
    if hit.end is not None:
        found.append(f"more or faster cores at the {hit.end}")
    return found


def _stage(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    end = seen.client if hit.end == "client" else seen.server
    if _of_pool(seen, hit):
        return _pool(seen, hit, rerun)
    if "throttled" in hit.title:
        return [f"raise the CPU quota of the {hit.end}'s control group ({end.quota:g} of a core)"]
    found = []
    if hit.stage in ("encode", "decode"):
        if hit.stage in handicapped(seen, end.name):
            found.append(f"start the {end.name} without --handicap")
        found += _without_codec(seen, rerun)
    # Small batches first where there is one: their cost is paid a batch.
    found += _larger_batches(seen, rerun)
    spare = end.busy is None or end.busy < 0.8
    if spare:
        found[:0] = _more_streams(seen, rerun)
    if seen.client.share("verify") > 0.2 and hit.end == "client":
        found.append(f"count rows instead of checking values: {rerun.but(verify='count')}")
    return found


def _link(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    asked_in_vain = stranger(seen) and seen.cell.operation == "get"
    if codec_of(seen.cell.parameters.get("compression")) is None and not asked_in_vain:
        found.append(f"fewer bytes on the wire: {rerun.but(compression='lz4')}")
    if seen.sender.retransmits and seen.streams < 8:
        found += _more_streams(seen, rerun)
    if seen.of("raw TCP") is None:
        found.append(f"what the path can do at all: {raw_tcp(seen)}")
    return [*found, "a faster path between the hosts"]


def _disk(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    address = "" if stranger(seen) else f" {seen.cell.parameters.get('target') or ''}".rstrip()
    return [f"what the disk can do: venturi ceilings{address}",
            f"a faster disk at the {hit.end}"]  # fmt: skip


def _memory(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    rows, width = _batch(seen)
    found = []
    if rows * width > 2**20 and not servers_batches(seen.cell.parameters):
        smaller = max(1, int(2**18 / width))
        found.append(f"smaller batches, which stay in the cache: {rerun.but(rows_per_batch=smaller)}")
    if seen.client.share("verify") > 0.1:
        found.append(f"one pass less over the values: {rerun.but(verify='count')}")
    if seen.same_machine:
        found.append(f"each end on a host of its own, with memory of its own: {serving(seen)} there")
    return found


def _flow_control(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    found = []
    if "HTTP/2 window" in hit.title:
        window = seen.cell.parameters.get("window")
        if seen.receiver is seen.client:
            # Twice what is under way at the rate wanted would do; without a limit TCP's own windows rule.
            found.append(f"no HTTP/2 limit: {rerun.but(window='none')}" if window else "a larger window")
        else:
            found.append("a larger HTTP/2 window at the server, which is its own setting")
    elif "send buffer" in hit.title:
        larger = int(4 * (seen.sender.send_buffer or 2**18))
        if seen.sender is seen.client:
            found.append(f"a larger send buffer: {rerun.but(send_buffer=larger)}")
        elif stranger(seen):
            found.append("a larger send buffer at the server, which is its own setting")
        else:
            found.append(f"a larger send buffer at the server: {serving(seen)} --send-buffer {larger}")
    elif "receive window" in hit.title:
        found.append(f"larger TCP buffers at the {seen.receiver.name} (net.ipv4.tcp_rmem; venturi doctor)")
    elif "acknowledgements" in hit.title:
        if seen.cell.parameters.get("ack") == "batch":
            found.append(f"acknowledge a stream at a time: {rerun.but(ack='stream')}")
        found += _larger_batches(seen, rerun)
    return found + _more_streams(seen, rerun)


def _server(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    return [
        *_more_streams(seen, rerun),
        "what this client and path can do with a server that gives account of itself: "
        + elsewhere(seen, rerun),
        *_larger_batches(seen, rerun),
    ]


def _schedule(seen: Seen, hit: Hit, rerun: Rerun) -> list[str]:
    offered = seen.offered or 0.0
    return [f"a higher rate: {rerun.but(rate=f'{2 * offered:.0f}')}",
            f"the limit itself, closed loop: {rerun.but(rate='none')}"]  # fmt: skip


def _unknown(seen: Seen, hit: Hit, rerun: Rerun) -> Sequence[str]:
    return []


_BY_KIND = {
    "load-generator": _load_generator,
    "cores": _cores,
    "stage": _stage,
    "link": _link,
    "disk": _disk,
    "memory": _memory,
    "flow-control": _flow_control,
    "server": _server,
    "schedule": _schedule,
    "unknown": _unknown,
}
