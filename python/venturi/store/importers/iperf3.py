"""iperf3's JSON (`iperf3 -J`), one document or several after each other.

Bytes are those that the receiver got, the interval is the receiver's; rates are bits in the file. `-R` (the
server sends) is a get, otherwise it is a put; `--bidir` is one of each. CPU is per cent of one core, of both
processes.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from venturi.store.importers.record import Draft, Parsed, join_notes, malformed

NAME = "iperf3"
ABOUT = "iperf3's JSON (iperf3 -J)"
EXPECTED = "what iperf3 -J prints, whole, from { to }"
_MOST = 10**18


def detect(text: str) -> bool:
    head = text.lstrip()[:1]
    return (
        head == "{" and '"intervals"' in text and ('"start"' in text or '"end"' in text) and "iperf" in text
    )


def parse(text: str, name: str) -> Parsed:
    drafts: list[Draft] = []
    first: dict[str, Any] | None = None
    for document, line in _documents(text, name):
        first = first or document
        drafts += _drafts(document, line, name)
    if first is None:
        raise malformed(name, 1, "no JSON object", EXPECTED)
    version = _get(first, "start", "version")
    return Parsed(
        drafts,
        str(version) if isinstance(version, str) else "iperf3",
        client=_client(first),
        started_unix_ns=_started(first),
    )


def _documents(text: str, name: str) -> Iterator[tuple[dict[str, Any], int]]:
    decoder, at = json.JSONDecoder(), 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return
        line = text.count("\n", 0, at) + 1
        try:
            found, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            cut = error.pos >= len(text.rstrip()) - 1
            what = "the JSON ends early" if cut else f"not JSON: {error.msg}"
            raise malformed(name, error.lineno, what, EXPECTED) from None
        except RecursionError:
            raise malformed(name, line, "JSON nested without end", EXPECTED) from None
        except ValueError:
            # A number with thousands of digits.
            raise malformed(name, line, "a number out of all bounds", EXPECTED) from None
        if not isinstance(found, dict):
            raise malformed(name, line, "not a JSON object", EXPECTED)
        yield found, line
        at = end


def _get(found: Any, *path: str) -> Any:
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _number(found: Any, *path: str) -> float | None:
    value = _get(found, *path)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if 0 <= value < _MOST else None


def _text(found: Any, *path: str) -> str | None:
    value = _get(found, *path)
    return value if isinstance(value, str) and value else None


def _started(document: Mapping[str, Any]) -> int | None:
    at = _number(document, "start", "timestamp", "timesecs")
    return int(at) * 10**9 if at and at < 10**10 else None


def _client(document: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {"software": {"iperf3": _text(document, "start", "version")}}
    words = (_text(document, "start", "system_info") or "").split()
    if len(words) >= 4:  # uname: system, host, kernel, ..., architecture
        out |= {"system": words[0], "host": words[1], "kernel": words[2], "architecture": words[-1]}
    return out


def _drafts(document: dict[str, Any], line: int, name: str) -> list[Draft]:
    asked = _get(document, "start", "test_start")
    reverse = bool(_number(asked, "reverse"))
    parameters = _parameters(document, asked)
    target = {"address": parameters["target"].removeprefix("iperf3://"), "software": None}
    error = _text(document, "error")
    end = _get(document, "end")
    if error is None and not isinstance(end, Mapping):
        raise malformed(name, line, 'no object "end"', EXPECTED)
    operation = "get" if reverse else "put"
    if error is not None:
        return [Draft(operation, parameters, target=target, line=line, error=error)]
    both = _get(end, "sum_received_bidir_reverse") is not None
    out = []
    for ending in ("", "_bidir_reverse") if both else ("",):
        gets = reverse or bool(ending)
        draft = _direction(document, ending, gets, both)
        if draft is None:
            raise malformed(name, line, "no bytes and seconds in sum_sent and sum_received", EXPECTED)
        draft.parameters = {**parameters, **({"bidirectional": True} if both else {})}
        draft.target, draft.line = target, line
        out.append(draft)
    return out


def _parameters(document: Mapping[str, Any], asked: Any) -> dict[str, Any]:
    host = _text(document, "start", "connecting_to", "host") or "unknown"
    port = _number(document, "start", "connecting_to", "port")
    local = host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")
    duration, total = _number(asked, "duration"), _number(asked, "bytes")
    streams = int(_number(asked, "num_streams") or 0) or None
    rate = _number(asked, "target_bitrate") or _number(document, "start", "target_bitrate")
    return {
        "place": "local" if local else host,
        "target": f"iperf3://{host}" + (f":{port:.0f}" if port else ""),
        "transport": (_text(asked, "protocol") or "TCP").lower(),
        "streams": streams,
        "message_bytes": int(_number(asked, "blksize") or 0) or None,
        "duration_ns": int(duration * 10**9) if duration else None,
        "total_bytes": int(total) if total else None,
        "limit_bytes_per_second": rate / 8 if rate else None,
        "congestion": _text(document, "end", "sender_tcp_congestion"),
        "socket_buffer": int(_number(document, "start", "sock_bufsize") or 0) or None,
    }


def _direction(document: Mapping[str, Any], ending: str, gets: bool, both: bool) -> Draft | None:
    end = _get(document, "end")
    # What arrived counts; a server of another version may not have told.
    received, sent = _get(end, "sum_received" + ending), _get(end, "sum_sent" + ending) or _get(end, "sum")
    used = received if _number(received, "bytes") and _number(received, "seconds") else sent
    moved, seconds = _number(used, "bytes"), _number(used, "seconds")
    if moved is None or not seconds:
        return None
    note = None if used is received else "the receiver told nothing: bytes and seconds are the sender's"
    figures: dict[str, float | str] = {}
    if (again := _number(sent, "retransmits")) is not None:
        figures["retransmits"] = again
    loss = _get(end, "sum") if _number(end, "sum", "packets") else received
    for key in ("lost_packets", "packets", "jitter_ms"):
        if (value := _number(loss, key)) is not None:
            figures[key] = value
    if figures.get("lost_packets"):
        note = join_notes(
            note, f"{figures['lost_packets']:,.0f} of {figures.get('packets', 0):,.0f} packets were lost"
        )
    rows = [s for s in _list(_get(end, "streams")) if not both or _of_direction(s, gets)]
    return Draft(
        "get" if gets else "put",
        {},
        counts={"payload_bytes": int(moved)},
        times={"interval_ns": max(1, round(seconds * 1e9)), **_start_time(document)},
        cpu=_cpu(end, seconds),
        streams=[s for i, row in enumerate(rows) if (s := _stream(i, row))],
        samples=_samples(document, ending),
        resources=_resources(rows, figures, gets),
        figures=figures,
        note=note,
    )


def _start_time(document: Mapping[str, Any]) -> dict[str, int]:
    at = _started(document)
    return {} if at is None else {"started_unix_ns": at}


def _list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else []


def _of_direction(stream: Any, gets: bool) -> bool:
    """`sender` in a stream of --bidir is whether this client sent it."""
    return bool(_get(stream, "sender", "sender")) is not gets


def _cpu(end: Any, seconds: float) -> dict[str, Any] | None:
    def side(prefix: str) -> dict[str, int] | None:
        user, system = (
            _number(end, "cpu_utilization_percent", f"{prefix}_{kind}") for kind in ("user", "system")
        )
        if user is None or system is None:
            return None
        return {
            "user_ns": round(user / 100 * seconds * 1e9),
            "system_ns": round(system / 100 * seconds * 1e9),
        }

    out = {"client": side("host"), "server": side("remote")}
    return out if any(out.values()) else None


def _stream(index: int, row: Any) -> dict[str, Any] | None:
    got = _get(row, "receiver") or _get(row, "udp") or _get(row, "sender")
    moved, end = _number(got, "bytes"), _number(got, "end")
    if moved is None:
        return None
    return {
        "stream": index,
        "thread": None,
        "rows": None,
        "batches": None,
        "payload_bytes": int(moved),
        "start_ns": round((_number(got, "start") or 0.0) * 1e9),
        "first_batch_ns": None,
        "end_ns": None if end is None else round(end * 1e9),
        "connect_ns": None,
        "stages": {},
    }


def _samples(document: Mapping[str, Any], ending: str) -> dict[str, Any] | None:
    """The intervals, bytes so far; those that -O omits are left out, as the tool's own sums do. Of each
    sending stream its socket besides: retransmits so far, round trip and congestion window."""
    times: list[int] = []
    done: list[int] = []
    sockets: list[list[Mapping[str, Any]]] = []
    so_far = 0
    for interval in _list(_get(document, "intervals")):
        found = _get(interval, "sum" + ending)
        moved, end = _number(found, "bytes"), _number(found, "end")
        if moved is None or end is None or _get(found, "omitted") is True:
            continue
        at = round(end * 1e9)
        if times and at <= times[-1]:
            continue
        so_far += int(moved)
        times.append(at)
        done.append(so_far)
        # The other direction of --bidir has sums of its own, and its sender is the far end.
        sending = [s for s in _list(_get(interval, "streams")) if _get(s, "sender") is True]
        sockets.append([] if ending else sending)
    if not times or so_far >= _MOST:
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
        rows = [[_number(stream, name) for stream in streams] for streams in intervals]
        known = [[round(v * factor) for v in row if v is not None] for row in rows]
        sizes = {len(row) for row in rows} | {len(row) for row in known}
        if sizes != {len(known[0])} or not known[0]:
            continue
        if any(v >= _MOST for row in known for v in row):
            continue
        streams = [list(values) for values in zip(*known, strict=True)]
        # The tool counts retransmits within an interval, samples count on.
        counts_on = column == "socket_retransmits"
        out[column] = [list(itertools.accumulate(v)) for v in streams] if counts_on else streams
    return out


def _resources(rows: list[Any], figures: Mapping[str, Any], gets: bool) -> dict[str, Any] | None:
    """What the sending side's sockets said (TCP_INFO); the receiving side keeps no such counters."""
    from venturi.store.samples import SOCKETS

    found = [_get(row, "sender") for row in rows]
    rtts = sorted(v for f in found if (v := _number(f, "mean_rtt")))
    if not rtts:
        return None
    least = min((v for f in found if (v := _number(f, "min_rtt"))), default=None)
    windows = sorted(v for f in found if (v := _number(f, "max_snd_cwnd")))
    sockets = {
        "count": len(found),
        **dict.fromkeys(SOCKETS),
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
