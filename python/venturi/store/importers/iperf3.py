"""iperf3's JSON (`iperf3 -J` or `--json-stream`), one document or several after each other.

Bytes are those that the receiver got, the interval is the receiver's; rates are bits in the file. `-R` (the
server sends) is a get, otherwise it is a put; `--bidir` is one of each. CPU is per cent of one core, of both
processes. A limit (`-b`) is that of each stream.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from venturi.engine.record import Sockets
from venturi.store.importers.record import (
    CONTRADICTS,
    MOST,
    Draft,
    Format,
    Parsed,
    agree,
    draft,
    get,
    items,
    join_notes,
    malformed,
    number,
    quoted,
    reading_json,
)

EXPECTED = "what iperf3 -J prints, whole, from { to }"
_REVERSE = "_bidir_reverse"
_SUMS = ("sum", "sum_sent", "sum_received")


def detect(text: str) -> bool:
    if not re.search(r"^[ \t]*\{", text, re.MULTILINE) or "iperf" not in text:
        return False
    return ('"intervals"' in text or '"event"' in text) and ('"start"' in text or '"end"' in text)


def parse(text: str, name: str) -> Parsed:
    drafts: list[Draft] = []
    first: dict[str, Any] | None = None
    skipped: list[str] = []
    for document, line in _joined(_documents(text, name, skipped)):
        first = first or document
        drafts += _drafts(document, line, name)
    if first is None:
        raise malformed(name, 1, "no JSON object", EXPECTED)
    if skipped:
        drafts[0].note = join_notes(drafts[0].note, f"not JSON, and skipped: {', '.join(skipped[:3])}")
    version = get(first, "start", "version")
    return Parsed(
        drafts,
        str(version) if isinstance(version, str) else "iperf3",
        client=_client(first),
        started_unix_ns=_started(first),
    )


class _Twice(Exception):
    """A name twice in one object of JSON."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. iperf3 3.7 to 3.10 name the sums of both directions of `--bidir` alike."""
    out: dict[str, Any] = {}
    for key, value in pairs:
        if key in out:
            ways = {get(v, "sender") is True: v for v in (out[key], value)}
            if key not in _SUMS or key + _REVERSE in out or len(ways) < 2:
                raise _Twice(key)
            out[key], out[key + _REVERSE] = ways[True], ways[False]
        else:
            out[key] = value
    return out


def _joined(documents: Iterable[tuple[dict[str, Any], int]]) -> Iterator[tuple[dict[str, Any], int]]:
    """The documents; the events of `--json-stream` (3.17 and later) as those that they are parts of."""
    begun: dict[str, Any] = {}
    at = 0
    for found, line in documents:
        event = found.get("event")
        if begun and event in (None, "start"):
            yield begun, at
            begun = {}
        if not isinstance(event, str):
            yield found, line
        elif event == "interval" and begun:
            begun["intervals"].append(found.get("data"))
        else:
            begun, at = (begun, at) if begun else ({"intervals": []}, line)
            begun[event] = found.get("data")
    if begun:
        yield begun, at


def _documents(text: str, name: str, skipped: list[str]) -> Iterator[tuple[dict[str, Any], int]]:
    """The documents with their lines. Lines of prose before one, such as warnings, go to `skipped`."""
    decoder, at = json.JSONDecoder(object_pairs_hook=_object), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        if text[at].isalpha():
            line_end = text.find("\n", at) % (len(text) + 1)
            skipped.append(quoted(text[at:line_end]))
            at = line_end
            continue
        line = text.count("\n", 0, at) + 1
        try:
            with reading_json(text, name, line, EXPECTED):
                found, end = decoder.raw_decode(text, at)
        except _Twice as twice:
            what = f"{quoted(str(twice))} twice in one object, and no telling which is which"
            raise malformed(name, line, what, "each name once") from None
        if not isinstance(found, dict):
            raise malformed(name, line, "not a JSON object", EXPECTED)
        yield found, line
        at = end


def _text(found: Any, *path: str) -> str | None:
    value = get(found, *path)
    return value if isinstance(value, str) and value else None


def _started(document: Mapping[str, Any]) -> int | None:
    at = number(document, "start", "timestamp", "timesecs")
    return int(at) * 10**9 if at and at < 10**10 else None


def _client(document: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"software": {"iperf3": _text(document, "start", "version")}}
    words = (_text(document, "start", "system_info") or "").split()
    if len(words) >= 4:  # uname: system, host, kernel, ..., architecture
        out |= {"system": words[0], "host": words[1], "kernel": words[2], "architecture": words[-1]}
    return out


def _drafts(document: dict[str, Any], line: int, name: str) -> list[Draft]:
    test = get(document, "start", "test_start")
    reverse = bool(number(test, "reverse"))
    parameters = _parameters(document, test)
    target = {"address": parameters["target"].removeprefix("iperf3://"), "software": None}
    error = _text(document, "error")
    end = get(document, "end")
    if error is None and not isinstance(end, Mapping):
        raise malformed(name, line, 'no object "end"', EXPECTED)
    operation = "get" if reverse else "put"
    if error is not None:
        return [Draft(operation, parameters, target=target, line=line, error=error)]
    both = any(get(end, key + _REVERSE) is not None for key in _SUMS)
    if number(test, "bidir") and not both:
        raise malformed(name, line, "--bidir, but the sums of one direction", "the sums of both directions")
    if both and _at_server(document):
        raise malformed(name, line, "a server's output of --bidir", "the output of the client")
    if both:
        parameters["bidirectional"] = True
    return [
        _direction(document, ending, reverse or bool(ending), both, line, name, parameters, target)
        for ending in (("", _REVERSE) if both else ("",))
    ]


def _parameters(document: Mapping[str, Any], test: Any) -> dict[str, Any]:
    host = _text(document, "start", "connecting_to", "host") or "unknown"
    port = number(document, "start", "connecting_to", "port")
    local = host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")
    duration, total = number(test, "duration"), number(test, "bytes")
    streams = int(number(test, "num_streams") or 0) or None
    rate = number(test, "target_bitrate") or number(document, "start", "target_bitrate")
    return {
        "place": "local" if local else host,
        "target": f"iperf3://{host}" + (f":{port:.0f}" if port else ""),
        "transport": (_text(test, "protocol") or "TCP").lower(),
        "streams": streams,
        "message_bytes": int(number(test, "blksize") or 0) or None,
        "duration_ns": int(duration * 10**9) if duration else None,
        "total_bytes": int(total) if total else None,
        "limit_bytes_per_second": rate * (streams or 1) / 8 if rate else None,
        "congestion": _text(document, "end", "sender_tcp_congestion"),
        "socket_buffer": int(number(document, "start", "sock_bufsize") or 0) or None,
    }


def _at_server(document: Mapping[str, Any]) -> bool:
    return get(document, "start", "accepted_connection") is not None


def _arrived(found: Any) -> float:
    """The share of the packets that arrived."""
    lost, packets = number(found, "lost_packets"), number(found, "packets")
    return 1.0 if not lost or not packets else max(0.0, 1 - lost / packets)


def _hold(sums: Iterable[Any], line: int, name: str) -> None:
    for found in sums:
        moved, seconds, bits = (number(found, key) for key in ("bytes", "seconds", "bits_per_second"))
        if moved is not None and seconds and bits is not None:
            agree(name, line, "bits/s, and bytes by seconds", bits, moved * 8 / seconds)
        if number(found, "packets") and (lost := number(found, "lost_percent")) is not None:
            agree(name, line, "lost_percent, and lost_packets of packets", lost, 100 - 100 * _arrived(found))


def _direction(
    document: Mapping[str, Any],
    ending: str,
    gets: bool,
    both: bool,
    line: int,
    name: str,
    parameters: Mapping[str, Any],
    target: dict[str, Any],
) -> Draft:
    end = get(document, "end")
    # What arrived counts; a server of another version may not have told.
    sums = [get(end, key + ending) for key in _SUMS]
    total_sum, sent, received = sums
    _hold([*sums, *(get(it, "sum" + ending) for it in items(document, "intervals"))], line, name)
    loss, sent = total_sum if number(total_sum, "packets") else received, sent or total_sum
    used = received if number(received, "bytes") and number(received, "seconds") else sent
    moved, seconds = number(used, "bytes"), number(used, "seconds")
    if moved is None or not seconds:
        raise malformed(name, line, "no bytes and seconds in sum_sent and sum_received", EXPECTED)
    note = None
    rows = [s for s in items(end, "streams") if not both or _of_direction(s, gets)]
    streams = [s for i, row in enumerate(rows) if (s := _stream(i, row, sent=used is not received))]
    if used is not received:
        note = "the receiver told nothing: bytes and seconds are the sender's"
        if _arrived(loss) < 1:
            moved = int(moved * _arrived(loss))
            note += ", less the share of the packets that were lost"
    if streams:
        parts = sum(s["payload_bytes"] for s in streams)
        agree(name, line, "bytes of the streams, and of their sum", parts, moved)
    samples = _samples(document, ending)
    if samples is not None and not number(document, "start", "test_start", "omit"):
        counted = samples["client"]["payload_bytes"][-1]
        nearest = min((number(s, "bytes") or 0.0 for s in sums), key=lambda v: abs(v - counted))
        agree(name, line, "bytes of the intervals, and of their sum", counted, nearest)
        if abs(counted - moved) > CONTRADICTS * counted:
            samples = None  # They count what was sent.
    printed = {"retransmits": number(sent, "retransmits")}
    printed |= {key: number(loss, key) for key in ("lost_packets", "packets", "jitter_ms")}
    figures = {key: value for key, value in printed.items() if value is not None}
    if figures.get("lost_packets"):
        note = join_notes(
            note, f"{figures['lost_packets']:,.0f} of {figures.get('packets', 0):,.0f} packets were lost"
        )
    return draft(
        "get" if gets else "put",
        {
            "payload_bytes": int(moved),
            "interval_ns": max(1, round(seconds * 1e9)),
            "started_unix_ns": _started(document),
        },
        parameters,
        cpu=_cpu(end, seconds, _at_server(document)),
        streams=streams,
        samples=samples,
        resources=_resources(rows, figures, gets),
        figures=figures,
        target=target,
        line=line,
        note=note,
    )


def _of_direction(stream: Any, gets: bool) -> bool:
    """`sender` in a stream of --bidir is whether this client sent it."""
    return bool(get(stream, "sender", "sender")) is not gets


def _cpu(end: Any, seconds: float, at_server: bool) -> dict[str, Any] | None:
    def side(prefix: str) -> dict[str, int] | None:
        user, system = (
            number(end, "cpu_utilization_percent", f"{prefix}_{kind}") for kind in ("user", "system")
        )
        if user is None or system is None:
            return None
        return {
            "user_ns": round(user / 100 * seconds * 1e9),
            "system_ns": round(system / 100 * seconds * 1e9),
        }

    client, server = ("remote", "host") if at_server else ("host", "remote")
    out = {"client": side(client), "server": side(server)}
    return out if any(out.values()) else None


def _stream(index: int, row: Any, sent: bool) -> dict[str, Any] | None:
    """`sent`: what the sender told is taken, as in the sum."""
    parts = ("sender", "receiver", "udp") if sent else ("receiver", "udp", "sender")
    got = next((part for key in parts if (part := get(row, key))), None)
    moved, end = number(got, "bytes"), number(got, "end")
    if moved is None:
        return None
    return {
        "stream": index,
        **dict.fromkeys(("thread", "rows", "batches", "first_batch_ns", "connect_ns")),
        "payload_bytes": int(moved * _arrived(get(row, "udp"))),
        "start_ns": round((number(got, "start") or 0.0) * 1e9),
        "end_ns": None if end is None else round(end * 1e9),
        "stages": {},
    }


def _samples(document: Mapping[str, Any], ending: str) -> dict[str, Any] | None:
    """The intervals, bytes so far; those that -O omits are left out, as the tool's own sums do. Of each
    sending stream its socket besides: retransmits so far, round trip and congestion window."""
    times: list[int] = []
    done: list[int] = []
    sockets: list[list[Mapping[str, Any]]] = []
    so_far = 0
    for interval in items(document, "intervals"):
        found = get(interval, "sum" + ending)
        moved, end = number(found, "bytes"), number(found, "end")
        if moved is None or end is None or get(found, "omitted") is True:
            continue
        at = round(end * 1e9)
        if times and at <= times[-1]:
            continue
        so_far += int(moved)
        times.append(at)
        done.append(so_far)
        # The other direction of --bidir has sums of its own, and its sender is the far end.
        sending = [s for s in items(interval, "streams") if get(s, "sender") is True]
        sockets.append([] if ending else sending)
    if not times or so_far >= MOST:
        return None
    return {"client": {"t_ns": times, "payload_bytes": done, **_sockets(sockets)}, "server": None}


def _sockets(intervals: list[list[Mapping[str, Any]]]) -> dict[str, list[list[int]]]:
    """Columns of the sending sockets, a list a stream, where every interval tells them of every stream."""
    out: dict[str, list[list[int]]] = {}
    for column, name, factor in (
        ("socket_retransmits", "retransmits", 1),
        ("socket_rtt_ns", "rtt", 1000),
        ("socket_cwnd_bytes", "snd_cwnd", 1),
    ):
        rows = [[number(stream, name) for stream in streams] for streams in intervals]
        values = [[round(v * factor) for v in row if v is not None] for row in rows]
        sizes = {len(row) for row in rows} | {len(row) for row in values}
        if sizes != {len(values[0])} or not values[0]:
            continue
        if any(v >= MOST for row in values for v in row):
            continue
        streams = [list(stream) for stream in zip(*values, strict=True)]
        # The tool counts retransmits within an interval, samples count on.
        counts_on = column == "socket_retransmits"
        out[column] = [list(itertools.accumulate(v)) for v in streams] if counts_on else streams
    return out


def _resources(rows: list[Any], figures: Mapping[str, Any], gets: bool) -> dict[str, Any] | None:
    """What the sending side's sockets said (TCP_INFO); the receiving side keeps no such counters."""
    found = [get(row, "sender") for row in rows]
    rtts = sorted(v for f in found if (v := number(f, "mean_rtt")))
    if not rtts:
        return None
    least = min((v for f in found if (v := number(f, "min_rtt"))), default=None)
    windows = sorted(v for f in found if (v := number(f, "max_snd_cwnd")))
    sockets = {
        **dict.fromkeys(Sockets.__struct_fields__),
        "count": len(found),
        "rtt_ns": round(rtts[len(rtts) // 2] * 1000),
        "min_rtt_ns": None if least is None else round(least * 1000),
        "retransmits": int(figures["retransmits"]) if "retransmits" in figures else None,
        "cwnd_bytes": int(windows[len(windows) // 2]) if windows else None,
    }
    end = {
        "by": "self",
        "window_ns": None,
        **dict.fromkeys(("process", "host", "cgroup", "network", "disk")),
        "sockets": sockets,
    }
    return {
        "same_machine": None,
        "clock": None,
        "sampler": None,
        "client": None if gets else end,
        "server": end if gets else None,
    }


FORMAT = Format("iperf3", "iperf3's JSON (iperf3 -J)", detect, parse)
