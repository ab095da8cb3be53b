"""What to try next: one function for each remedy, which proposes nothing if it does not apply to a cell.

A row of `rules.RULES` lists those that open its place, the most promising first.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import unquote, urlsplit

from venturi.analysis.cells.probes import codec_of, data_label, is_compressed, waits_for_disk
from venturi.analysis.cells.summary import ends_by_itself, rows_a_batch
from venturi.analysis.models.batch_cost import LEAST
from venturi.analysis.verdict.evidence import CODEC, CellEvidence
from venturi.analysis.verdict.servers import fills_cores
from venturi.analysis.verdict.types import Diagnosis, MissingEvidence, Remedy
from venturi.analysis.verdict.workers import end_of, handicapped, own_stages
from venturi.analysis.wording import nouns_of, size
from venturi.common import links
from venturi.targets.options import ONLY_HERE
from venturi.targets.parameters import CREDENTIALS
from venturi.targets.system import (
    ONE_AT_A_TIME,
    REFERENCE,
    SERVERS,
    SPACES,
    has_tables,
    is_charrow,
    is_program,
    scheme_of,
    servers_batches,
)
from venturi.targets.urls import split_url

Remedies = Iterator[Remedy]
Propose = Callable[[CellEvidence, Diagnosis], Remedies]

MOST = 3
"""Remedies that are shown of one cell."""
BATCH_LARGE = 8192
"""Rows per batch from which what a batch costs (headers, calls, wake-ups) is small against its rows."""
BATCH_BYTES = 256 * 1024
UPSERT_BATCHES = (10, 100, 500, 2_000, 10_000)
"""Rows a batch that are proposed one after the other: 500 as the published benchmark had, 10,000 at most."""
CASSANDRA_MOST = 500
"""By default it refuses batches over 50 KiB; so many small rows are near that."""
STREAMS_MOST, CONNECTIONS_MOST, IN_FLIGHT_MOST = 64, 256, 128
AHEAD_MOST = 50_000_000
"""Points that are made ahead at most: `venturi run` refuses messages of over 2 GiB."""
_LARGE_FRAMES = 9000
_SIZES = ("rows_per_stream", "bytes_per_stream", "duration_ns")
_STARTS = 10
"""Times that TCP's start fits into a trial of which it is a small part."""
_FEWEST = 4096
"""Bytes of a window or a buffer."""
ONLY_OVER_LINKS: tuple[str, ...] = ("link", "cross")
"""Parameters that mean nothing to a server on another host, which has its own path."""
_TABLES = (
    *("query", "table", "wire_format", "split", "split_by", "server_settings", "storage", "max_block_size"),
    *("dialect", "statement"),
)
"""Options of a get from a database that mean nothing to a server of Venturi."""
CHANGES: dict[Propose, tuple[str, ...]] = {}
"""The parameters that each may change, for docs/verdicts.md."""


def changing(*parameters: str) -> Callable[[Propose], Propose]:
    """Marks what a remedy may change."""

    def mark(propose: Propose) -> Propose:
        CHANGES[propose] = parameters
        return propose

    return mark


def url_of(seen: CellEvidence) -> str:
    return str(seen.cell.parameters.get("target") or "")


def scheme(seen: CellEvidence) -> str:
    """`mysql` of `mysql+tls://...`."""
    return scheme_of(url_of(seen))


def foreign_server(seen: CellEvidence) -> bool:
    """Whether the server is a Flight or HTTP server that is not Venturi's."""
    ours = [r.target.reference for r in seen.cell.records]
    return (
        scheme(seen) in ("flight", "flightsql", "http+arrow")
        and bool(ours)
        and all(reference is False for reference in ours)
    )


def _unprobed(seen: CellEvidence) -> bool:
    """Whether nothing there takes plain bytes: `venturi ceilings` would refuse its URL, or fail there."""
    return foreign_server(seen) or scheme_of(url_of(seen) or "flight://") not in REFERENCE


# ---- streams and batches


@changing("streams", "threads")
def more_streams(seen: CellEvidence, place: Diagnosis) -> Remedies:
    now, p = int(seen.streams), seen.cell.parameters
    wanted, most = 2 * now, STREAMS_MOST
    if seen.cell.in_rows:
        wanted, most = (4 if seen.cell.answered and now == 1 else wanted), CONNECTIONS_MOST
        if seen.cell.answered and place.cause == "server-waited-for" and fills_cores(seen):
            return
        if not seen.cell.answered and isinstance(p.get("hosts"), int):
            # A series belongs to one stream, so that there are no more of them than hosts.
            most = most if wanted <= p["hosts"] else 0
    elif place.cause == "stage-busy" and (end_of(seen, place).busy or 0.0) >= 0.8:
        return
    if place.cause == "path-full" and not (seen.sender.retransmits and now < 8):
        return
    if now < most and place.stage != "apply":
        yield _streams(seen, wanted)


def _streams(seen: CellEvidence, wanted: int, words: str = "") -> Remedy:
    """So many streams, each with its thread."""
    threads = seen.cell.parameters.get("threads")
    own = {"threads": "streams"} if threads not in (None, seen.cell.parameters.get("streams")) else {}
    return Remedy("more-streams", f"more {nouns_of(seen.cell).stream}s{words}", {"streams": wanted, **own})


@changing("streams", "threads")
def enough_streams(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """As many streams as fill a link that loses packets."""
    needed = int(place.numbers.get("streams_needed") or 2 * seen.streams)
    wanted = min(max(needed, int(seen.streams) + 1), STREAMS_MOST)
    if wanted > seen.streams:
        yield _streams(seen, wanted, f", of which each loses a little: some {needed} fill the link")


@changing("streams")
def one_connection(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if place.stage == "apply":
        yield Remedy("one-connection", "one connection, which waits for no other", {"streams": 1})


@changing("threads")
def thread_per_stream(seen: CellEvidence, place: Diagnosis) -> Remedies:
    threads = "streams" if seen.cell.in_rows else int(seen.streams)
    yield Remedy("thread-per-stream", f"one thread per {nouns_of(seen.cell).stream}", {"threads": threads})


@changing("in_flight")
def more_in_flight(seen: CellEvidence, place: Diagnosis) -> Remedies:
    now = int(seen.cell.parameters.get("in_flight") or 1)
    crowd = place.cause == "server-waited-for" and fills_cores(seen)
    if seen.cell.answered and not crowd and scheme(seen) not in ONE_AT_A_TIME and now < IN_FLIGHT_MOST:
        words = "more batches in flight on each connection"
        yield Remedy("more-in-flight", words, {"in_flight": max(8, 4 * now)})


@changing("rows_per_batch")
def larger_batches(seen: CellEvidence, place: Diagnosis) -> Remedies:
    p, words = seen.cell.parameters, "larger batches, for less work per row"
    rows, width = int(p.get("rows_per_batch") or 0), float(p.get("row_bytes") or 0.0)
    if place.stage == "driver" or (is_program(url_of(seen)) and p.get("data") == "remote"):
        # Batches are the driver's or the program's.
        return
    if seen.cell.in_rows:
        most = CASSANDRA_MOST if scheme(seen) == "cassandra" else UPSERT_BATCHES[-1]
        wanted = next((n for n in UPSERT_BATCHES if n >= 4 * rows), UPSERT_BATCHES[-1])
        if seen.cell.answered and 0 < rows < most and p.get("batch") != "none":
            yield Remedy("larger-batches", words, {"rows_per_batch": min(wanted, most)})
    elif servers_batches(p):
        if (arrived := rows_a_batch(seen.cell)) is not None and arrived < BATCH_LARGE:
            sent = f"the {arrived:,.0f} rows that the server sends, a setting of the server"
            yield Remedy(
                "larger-batches", f"larger batches than {sent}", settings={"server.batches": "larger"}
            )
    elif 0 < rows < BATCH_LARGE and not (width and rows * width >= BATCH_BYTES):
        yield Remedy("larger-batches", words, {"rows_per_batch": max(BATCH_LARGE, 4 * rows)})


def of_upserts(propose: Propose) -> Propose:
    """The same for a cell of upserts alone: commits of connections that wait at the same time are one write
    to the disk."""

    @changing(*CHANGES[propose])
    def proposed(seen: CellEvidence, place: Diagnosis) -> Remedies:
        return propose(seen, place) if seen.cell.answered else iter(())

    return proposed


@changing("rows_per_batch")
def smaller_batches(seen: CellEvidence, place: Diagnosis) -> Remedies:
    p = seen.cell.parameters
    rows, width = int(p.get("rows_per_batch") or 0), float(p.get("row_bytes") or 0.0)
    if rows * width > 2**20 and not servers_batches(p):
        words = "smaller batches, which stay in the cache"
        yield Remedy("smaller-batches", words, {"rows_per_batch": max(1, int(2**18 / width))})


# ---- the client's work


@changing("handicap")
def no_handicap(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """Without a delay that was injected on purpose."""
    end = place.end or "client"
    if place.stage not in handicapped(seen, end):
        return
    if end == "client":
        yield Remedy("no-handicap", "without the injected delay", {"handicap": None})
    else:
        words = "start the server without --handicap"
        yield Remedy("no-handicap", words, settings={"server.handicap": None})


@changing("verify")
def count_rows(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if not seen.cell.in_rows and place.end != "server" and seen.client.share("verify") > 0.1:
        yield Remedy("count-rows", "count rows instead of checking values", {"verify": "count"})


@changing("generate")
def made_ahead(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """What is sent is ready before the clock starts; points only if their number is known."""
    p = seen.cell.parameters
    inside = not set(own_stages(seen)).isdisjoint({"generate", "encode"})
    if not seen.cell.in_rows or not inside or p.get("generate") == "ahead" or place.end == "server":
        return
    if seen.cell.answered or 0 < (p.get("rows_per_stream") or 0) * seen.streams <= AHEAD_MOST:
        what = "statements built" if seen.cell.answered else "messages made"
        yield Remedy("made-ahead", f"{what} before the clock starts", {"generate": "ahead"})


@changing("compression", "http_compression")
def less_compression(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if place.stage not in CODEC:
        return
    for name in ("http_compression", "compression"):
        codec = codec_of(seen.cell.parameters.get(name))
        if name == "compression" and codec not in (None, "lz4"):
            yield Remedy("lighter-codec", "a lighter codec", {name: "lz4"})
        if codec is not None:
            yield Remedy("no-compression", "no compression", {name: None})


@changing("messages")
def full_rows(seen: CellEvidence, place: Diagnosis) -> Remedies:
    # Shorter numbers would be fewer bytes, but finding them takes the loader longer than writing 17 digits.
    if seen.cell.parameters.get("messages") == "values" and not _archived(seen):
        yield Remedy("whole-rows", "whole rows instead of single values", {"messages": "rows"})


@changing("statement")
def other_statements(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """The other way of writing a statement: which one is lighter depends on the server."""
    now, copied = seen.cell.parameters.get("statement"), seen.cell.parameters.get("method") == "copy"
    engine = place.cause == "stage-busy" and place.stage == "apply"
    if seen.cell.answered and now in ("text", "prepared") and not copied and not engine:
        other = "prepared" if now == "text" else "text"
        words = f"{other} statements, which cost client and server otherwise"
        yield Remedy("other-statements", words, {"statement": other})


@changing("method")
def staging_table(seen: CellEvidence, place: Diagnosis) -> Remedies:
    copied = seen.cell.parameters.get("method") == "copy"
    if seen.cell.answered and scheme(seen) in ("postgres", "duckdb") and not copied:
        words = "a staging table and one merge per batch"
        yield Remedy("staging-table", words, {"method": "copy"}, left_out=("statement",))


@changing("encoders", "decoders")
def larger_pool(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """More threads of a pool, up to the CPUs that its end may use; or what they take in turns is to be
    faster."""
    if place.pool is None:
        return
    if "at_a_time" in place.numbers:
        if "generate" not in handicapped(seen, "server"):
            words = f"a faster source of rows: more {place.pool} gain nothing"
            yield Remedy("faster-source", words, settings={"source": "faster"})
        return
    end = end_of(seen, place)
    now, cores = int(end.pools[place.pool].threads), int(end.cores or 0)
    more = min(2 * now, cores) if cores else 2 * now
    if more > now:
        yield Remedy("larger-pool", f"{place.pool}: {now} -> {more}", {place.pool: more})
    else:
        yield from more_cores(seen, place)


def profile(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """The tool that shows where the time goes, and what a driver may be told."""
    if place.stage == "driver":
        words = "options of the driver, for example the size of its batches: --driver-option"
        yield Remedy("driver-options", words, settings={"driver_options": "other"})
    tools = {"plugin": "py-spy top --pid PID", "driver": "perf top --pid PID"}.get(place.stage or "")
    if is_program(url_of(seen)):
        tools = "perf top -p PID if the program computes, strace -c -f -p PID if it waits"
    elif place.cause == "server-waits":
        tools = "strace -f -c -p PID on the server's host (Python: py-spy dump --pid PID)"
    if tools is not None:
        yield Remedy("profile", f"see where that time goes, while a trial runs: {tools}")


# ---- cores


def stop_other_load(seen: CellEvidence, place: Diagnosis) -> Remedies:
    yield Remedy(
        "stop-others", "stop what else runs here (venturi doctor names it), then run again", again=True
    )


@changing("pin")
def other_pin(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """Without the client's pin; with one if the scheduler keeps both ends on one core."""
    if "run_delay" in place.numbers:
        yield Remedy("own-core", "keep the client off the server's core", {"pin": [0]})
    elif seen.cell.records and seen.cell.records[0].pin:
        yield Remedy("without-pin", "without --pin", {"pin": None})


def larger_quota(seen: CellEvidence, place: Diagnosis) -> Remedies:
    quota = (
        f"a larger CPU quota for the {place.end}'s control group than {place.numbers['quota_cores']:g} cores"
    )
    yield Remedy("larger-quota", quota, settings={f"{place.end}.cpu_quota": "more"})


def more_cores(seen: CellEvidence, place: Diagnosis) -> Remedies:
    end = "relay" if place.cause == "link-relay" else place.end
    if end is not None and (place.cause != "stage-busy" or "cipher_share" in place.numbers):
        yield Remedy("more-cores", f"more or faster cores for the {end}", settings={f"{end}.cores": "more"})


@changing("target", "data")
def server_elsewhere(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """The server on another host, if client and server share this one."""
    url, words = url_of(seen), "the server on another host"
    left: tuple[str, ...] = ONLY_OVER_LINKS
    if seen.same_machine is False:
        return
    if not seen.cell.in_rows:
        if place.end is None and scheme(seen) in REFERENCE:
            yield _server_of_ours(seen, words)
        return
    if seen.cell.answered:
        if scheme(seen) not in SERVERS or (place.end == "server" and not fills_cores(seen)):
            return
        target = f"{scheme(seen)}://HOST/{split_url(url).path.strip('/') or SPACES[scheme(seen)]}"
    else:
        if place.cause not in ("cores-full", "cpu-quota"):
            return
        parts = urlsplit(url)
        target = f"{parts.scheme}://HOST{parts.path if parts.path.strip('/') else ''}"
        left = (*sorted(ONLY_HERE), *left)
    yield Remedy("server-elsewhere", words, {"target": target}, left_out=left)


@changing("target", "data")
def accounting_server(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """A server that reports its stages, on another host."""
    silent = place.cause != "not-measured" or MissingEvidence.SERVER_STAGES in place.lacks
    if silent and not seen.cell.in_rows and not is_program(url_of(seen)):
        yield _server_of_ours(seen, "the same with a server that reports its stages")


def _server_of_ours(seen: CellEvidence, words: str) -> Remedy:
    start = f"venturi serve {REFERENCE.get(scheme(seen), 'flight')} --host 0.0.0.0"
    # A server that is started so asks for no credentials and has no certificate.
    left = ("place", *ONLY_OVER_LINKS, *CREDENTIALS, *(_TABLES if has_tables(url_of(seen)) else ()))
    if is_charrow(url_of(seen)):
        changes = {"target": "charrow://HOST:9006"}
    else:
        http = scheme(seen) == "http+arrow"
        changes = {"target": "http+arrow://HOST:8080" if http else "flight://HOST:31337"}
        if servers_batches(seen.cell.parameters):
            table = split_url(url_of(seen)).path.strip("/")
            if table:
                changes["target"] += f"/{table}"
                start += f" --table {shlex.quote(unquote(table))}=FILE"
            else:
                # What a command or a ticket stands for is this server's secret; records can be had of any.
                changes["data"] = "records"
    return Remedy("server-elsewhere", words, changes, left_out=left, before=start)


# ---- links and the path


@changing("link")
def larger_frames(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """For a relay that can pass on no more frames."""
    if seen.over is not None:
        larger = replace(seen.over.link, mtu=_LARGE_FRAMES)
        if larger != seen.over.link and links.read_link(larger.text):
            words = "packets of 9,000 bytes, of which the relay passes on fewer"
            yield Remedy("larger-frames", words, {"link": larger.text})


@changing("cross")
def no_cross(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if "cross_share" in place.numbers:
        yield Remedy("no-cross", "the link without the traffic of others", {"cross": None})


@changing("compression")
def compression(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """The codec that is the fastest over this link, by what cores make of it; else what would show it."""
    from venturi.plan.rules.options import applies  # beside the models of settings, which take their time

    p, over = seen.cell.parameters, seen.over
    ignored = foreign_server(seen) and seen.cell.operation == "get"
    # What is drawn at random gets no smaller.
    random = [p.get("data"), p.get("values")] == ["records", "random"]
    if ignored or random or is_compressed(p) or not applies("compression", url_of(seen), seen.cell.operation):
        return
    label = data_label(p)
    codecs = {one.codec: one for one in seen.packings if one.data == label}
    if over is None or not codecs or not over.free:
        yield Remedy("compression", "fewer bytes on the wire", {"compression": "lz4"})
        data = str(p.get("data") or "remote")
        if over is not None and label and data not in ("remote", "states") and not is_charrow(url_of(seen)):
            records = f"--columns {p.get('columns')} --values {p.get('values')}"
            named = records if data == "records" else f"--data {shlex.quote(data)}"
            words = "what codecs do to these data, and so whether they pay on this link"
            yield Remedy("codec-limits", words, command=f"venturi ceilings --only codec {named}")
        return
    cores = round(seen.client.cores) if seen.client.cores else None
    rates = {c: one.rate(over.free, int(seen.streams), cores=cores) for c, one in codecs.items()}
    best = max(rates, key=lambda codec: rates[codec])
    if (gain := rates[best] / over.free) >= LEAST:
        smaller = f"{best}, which makes these data {codecs[best].ratio:.3g} times smaller"
        words = f"{smaller}: about {gain:.2g} times as fast over this link"
        yield Remedy("compression", words, {"compression": best})


@changing("link", "backplane")
def faster_path(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """A path, or a link twice as fast, and what the links of several loaders share too: each may be the
    narrower."""
    over = seen.over
    if over is None:
        yield Remedy("faster-path", "a faster path between the hosts", settings={"path": "faster"})
    elif over.link.rate is not None:
        asked = {"link": replace(over.link, rate=_doubled(over.link.rate))}
        if (backplane := links.read_rates(seen.cell.parameters.get("backplane"))) is not None:
            asked["backplane"] = links.Link(rate=_doubled(backplane))
        # Faster than can be asked for is no remedy.
        if all(links.read_link(link.text) for link in asked.values()):
            yield Remedy("faster-path", "a link twice as fast", {name: it.text for name, it in asked.items()})


def _doubled(rates: links.Rates) -> links.Rates:
    return 2 * rates[0], 2 * rates[1]


@changing("link")
def other_control(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """BBR instead of a congestion control that losses slow down. Or CUBIC, if sockets keep the ends of a fast
    and short link busy, and BBR paces what they send: over 54.5 Gbit/s on two cores four streams moved
    3.5 GB/s so, and 6.3 with CUBIC or Reno."""
    if (over := seen.over) is None:
        return
    rate = over.link.of(seen.cell.operation)
    fast = (rate is None or rate >= links.FAST) and not over.link.round_trip_ns and not over.loss
    if place.cause == "loss":
        control, words = "bbr", "BBR, which does not slow down for single losses"
    elif over.control == "bbr" and fast and place.stage in ("send", "receive", None):
        control = "cubic"
        words = "CUBIC instead of BBR, whose pacing may be what is slow over so fast a link"
    else:
        return
    yield Remedy("other-control", words, {"link": replace(over.link, control=control).text})


def raw_tcp(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """Raw TCP over this cell's path, measured."""
    wanted = place.cause != "not-measured" or MissingEvidence.RAW_TCP in place.lacks
    if seen.of("raw TCP") is not None or seen.over is not None or not wanted:
        return
    start, address = None, url_of(seen) or "URL"
    if _unprobed(seen):
        start, address = "venturi serve flight --host 0.0.0.0 --port 31338", "flight://HOST:31338"
    words = "measure what the path can do"
    yield Remedy("path-limit", words, before=start, command=f"venturi ceilings {address}")


# ---- windows and buffers


def _twice_held(seen: CellEvidence) -> int | None:
    """Bytes a stream that a window or a buffer needs so that it does not limit: twice what the link holds,
    for it is opened again when half of it is used, and a buffer of the kernel holds more than payload.
    A power of two; None if the link's rate is not known."""
    over = seen.over
    if over is None or not over.holds:
        return None
    return int(2 ** math.ceil(math.log2(max(_FEWEST, 2 * over.holds / seen.streams))))


def _sized(seen: CellEvidence) -> str:
    """`, twice what the link holds (64 KiB per stream)`; empty if no link was made."""
    if seen.over is None or not seen.over.holds:
        return ""
    stream = nouns_of(seen.cell).stream
    return f", twice what the link holds ({size(seen.over.holds / seen.streams)} per {stream})"


@changing("window")
def larger_window(seen: CellEvidence, place: Diagnosis) -> Remedies:
    enough, now = _twice_held(seen), seen.cell.parameters.get("window")
    if seen.receiver is not seen.client:
        words = "a larger HTTP/2 window at the server, which is its own setting"
        yield Remedy("larger-window", words, settings={"server.window": enough or "larger"})
    elif not now:
        yield Remedy("larger-window", "a larger window")
    else:
        # Twice what is in flight at the rate wanted would do; without a limit TCP's own windows rule.
        if enough is not None and enough > now:
            yield Remedy("larger-window", f"a larger window{_sized(seen)}", {"window": enough})
        yield Remedy("no-window", "no HTTP/2 limit", {"window": None})


@changing("send_buffer")
def larger_send_buffer(seen: CellEvidence, place: Diagnosis) -> Remedies:
    enough = _twice_held(seen)
    larger = enough or int(4 * (seen.sender.send_buffer or 2**18))
    why, words, setting = "larger-send-buffer", "a larger send buffer", {"server.send_buffer": larger}
    if seen.sender is seen.client:
        yield Remedy(why, words + _sized(seen), {"send_buffer": larger})
    elif enough is not None:
        # A server that was started for the run has the kernel's.
        yield _kernels(seen, "server", "tcp_wmem")
    elif foreign_server(seen) or seen.over is not None:
        yield Remedy(why, f"{words} at the server, which is its own setting", settings=setting)
    else:
        command = f"venturi serve {REFERENCE.get(scheme(seen), 'flight')} --send-buffer {larger}"
        yield Remedy(why, f"{words} at the server", settings=setting, command=command)


def larger_tcp_buffers(seen: CellEvidence, place: Diagnosis) -> Remedies:
    yield _kernels(seen, seen.receiver.name, "tcp_rmem")


def _kernels(seen: CellEvidence, end: str, setting: str) -> Remedy:
    """A setting of TCP's that bounds the kernel's own buffers, as large as the link needs it."""
    enough = _twice_held(seen)
    larger = f" of {size(enough)}" if enough else ""
    where = f"net.ipv4.{setting}" + ("" if enough else "; venturi doctor")
    words = f"larger TCP buffers{larger} at the {end} ({where}){_sized(seen)}"
    return Remedy("tcp-buffers", words, settings={f"{end}.net.ipv4.{setting}": enough or "larger"})


@changing("ack")
def stream_acknowledgements(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if seen.cell.parameters.get("ack") == "batch":
        words = f"one acknowledgement per {nouns_of(seen.cell).stream}"
        yield Remedy("stream-acks", words, {"ack": "stream"})


# ---- disks and commits


def disk_limit(seen: CellEvidence, place: Diagnosis) -> Remedies:
    if not seen.cell.in_rows:
        address = "" if _unprobed(seen) else f" {url_of(seen)}".rstrip()
        yield Remedy("disk-limit", "measure what the disk can do", command=f"venturi ceilings{address}")


def faster_disk(seen: CellEvidence, place: Diagnosis) -> Remedies:
    words = f"a faster disk at the {place.end}"
    yield Remedy("faster-disk", words, settings={f"{place.end}.disk": "faster"})


@changing("synchronous", "journal", "durable")
def cheaper_commits(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """Shows what a durable commit costs; not what to run with."""
    p, system = seen.cell.parameters, scheme(seen)
    words = "not waiting for the disk, to see what durable commits cost"
    if not seen.cell.in_rows or (place.cause == "stage-busy" and place.stage != "apply"):
        return
    if not seen.cell.answered:
        if p.get("durable") == "fsync" and place.cause.startswith("disk"):
            yield Remedy("cheaper-commits", words, {"durable": "os"})
    elif system in ("postgres", "sqlite") and waits_for_disk(p):
        yield Remedy("cheaper-commits", words, {"synchronous": "off"})
    elif system == "sqlite" and p.get("journal") not in (None, "wal"):
        yield Remedy("write-ahead-log", "a log instead of rewritten pages", {"journal": "wal"})


@changing("durable")
def no_log(seen: CellEvidence, place: Diagnosis) -> Remedies:
    ingest = seen.cell.in_rows and not seen.cell.answered and place.end == "server"
    if ingest and seen.cell.parameters.get("durable") in ("os", "fsync"):
        yield Remedy("no-log", "no log, to see what it costs", {"durable": "none"})


# ---- schedule, trials, what is missing


@changing("rate")
def other_rate(seen: CellEvidence, place: Diagnosis) -> Remedies:
    yield Remedy("higher-rate", "a higher rate", {"rate": round(2 * (seen.offered or 0.0))})
    yield Remedy("closed-loop", "the limit itself, closed loop", {"rate": None})


@changing("duration_ns", "rows_per_stream")
def longer_trial(seen: CellEvidence, place: Diagnosis) -> Remedies:
    seconds, words = 1 if "interval_ns" in place.numbers else 5, "a longer trial"
    sizes: Mapping[str, Any] = {}
    if place.cause == "slow-start" and seen.over is not None:
        fills = place.numbers["trips_to_fill"] * seen.over.round_trip / 1e9
        seconds = max(5, math.ceil(_STARTS * fills))
    if ends_by_itself(seen.cell):
        words = "a larger table: the server has sent all that it holds of this one"
    elif _archived(seen) or (has_tables(url_of(seen)) and not seen.cell.in_rows):
        # What is made or written for the run must be of a known size.
        rows, took = seen.cell.parameters.get("rows_per_stream"), seen.cell.interval.value
        if rows and took:
            sizes = {"rows_per_stream": int(rows * max(2, math.ceil(seconds * 1e9 / took)))}
    else:
        sizes = {"duration_ns": seconds * 10**9}
    left = tuple(name for name in _SIZES if name not in sizes) if sizes else ()
    yield Remedy("longer-trial", words, sizes, left_out=left)


def _archived(seen: CellEvidence) -> bool:
    """Whether archives are sent, which were made before."""
    return str(seen.cell.parameters.get("data") or "").startswith("archive")


def fix_failures(seen: CellEvidence, place: Diagnosis) -> Remedies:
    yield Remedy("fix-failures", "fix what made them fail", again=True)


def record_more(seen: CellEvidence, place: Diagnosis) -> Remedies:
    """What would measure what is missing at the ends."""
    if MissingEvidence.BOTH_STAGES in place.lacks:
        if scheme_of(url_of(seen) or "flight://") in REFERENCE:
            yield Remedy("own-trials", "a similar transfer by Venturi", again=True)
        else:
            words = "record CPU at both ends, and the path, while it runs: the imported tool keeps none"
            yield Remedy("record-resources", words)
        return
    if MissingEvidence.CLIENT_HOST in place.lacks:
        yield Remedy("samples", "with samples", run={"sample_interval": "100ms"})
    if MissingEvidence.SERVER_CPU in place.lacks:
        yield Remedy("servers-host", "the same on the server's own host, where its process can be seen")


def more_repeats(seen: CellEvidence, place: Diagnosis) -> Remedies:
    yield Remedy("more-repeats", "more repeats, in case they were disturbed", run={"repeats": 15})


def adds_load(seen: CellEvidence, remedy: Remedy) -> bool:
    """Whether more would be in flight, which would wait for the CPUs that other programs hold."""
    now = {"streams": seen.streams, "in_flight": seen.cell.parameters.get("in_flight") or 1}
    return any(isinstance(it := remedy.changes.get(name), int) and it > now[name] for name in now)
