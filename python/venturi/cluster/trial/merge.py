"""One record of a trial from those of its loaders. Pure: what goes in is all that it knows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from venturi.cluster.trial import counters
from venturi.cluster.trial.loaders import Part
from venturi.common import hdr
from venturi.common.units import plural
from venturi.engine.spec import completed

Record = Mapping[str, Any]
_MOST_ERROR_KINDS = 32
_SHOWN_THREADS = 4
"""Of each host; the busiest of all are in the sum over hosts."""


def merge(parts: Sequence[Part], agreed_unix_ns: int | None = None) -> dict[str, Any]:
    """The record of the whole trial (docs/format.md), with its field `hosts`.

    Args:
        parts: One a loader, in the order of their shares; one of them leads. A loader that was lost has a
            record that says so, with what was last known of it.
        agreed_unix_ns: The start instant that all were given, by the driver's clock; None takes the
            earliest that a loader began at.

    Raises ValueError if there is no part.
    """
    if not parts:
        raise ValueError("no part to merge")
    parts = [replace(part, record=completed(part.record)) for part in parts]
    started = [part.started_ns for part in parts if part.started_ns]
    agreed = agreed_unix_ns or min(started, default=0)
    # How much later than agreed each one began. Nobody begins before: an earlier start is its clock's error.
    late = {part.host: max(0, part.started_ns - agreed) if part.started_ns else 0 for part in parts}
    # The record's one zero is when the first of them began: all times in it count from there.
    zero = min((late[part.host] for part in parts if part.record["streams"]), default=0)
    parts = [replace(part, origin_ns=max(0, late[part.host] - zero)) for part in parts]
    lead = next((part for part in parts if part.lead), parts[0])
    records = [part.record for part in parts]
    outcome, error = _outcome(parts)
    first = lead.record
    merged = {
        "outcome": outcome,
        "error": error,
        "target": first["target"] or next((r["target"] for r in records if r["target"]), None),
        "counts": _counts(records, first),
        "times": _times(parts, first, agreed + zero if agreed else 0, zero),
        "verification": first["verification"],
        "errors": _errors(records),
        "cpu": _cpu(first, parts, records),
        "stages": _both(records, first, "stages"),
        "workers": _both(records, first, "workers"),
        "resources": counters.merged_resources(parts, lead, lead.clock.uncertainty_ns),
        "streams": _streams(parts),
        "latency": _latency(records),
        "schedule": _schedule(records),
        "pin": first["pin"],
        "instrument": _instrument(records),
        "hosts": [_host(part) for part in parts],
        "samples": _samples(parts, lead),
    }
    pools = _pools(records, first)
    return merged | ({"pools": pools} if pools else {})


def _outcome(parts: Sequence[Part]) -> tuple[str, dict[str, Any] | None]:
    """Failed where one has failed, and of which the error tells: the others were cancelled for it."""
    failed = [part for part in parts if part.record["outcome"] == "failed"]
    if failed:
        part = failed[0]
        error = dict(part.record["error"])
        more_failed = len(failed) - 1
        more = f" (and {plural(more_failed, 'other loader')} failed)" if more_failed else ""
        return "failed", {**error, "message": f"{part.where}: {error['message']}{more}"}
    interrupted = [part for part in parts if part.record["outcome"] != "ok"]
    if interrupted:
        return interrupted[0].record["outcome"], dict(interrupted[0].record["error"] or {})
    return "ok", None


def _counts(records: Sequence[Record], lead: Record) -> dict[str, Any]:
    names = ("rows", "batches", "payload_bytes", "wire_bytes")
    summed = {name: sum(int(record["counts"].get(name) or 0) for record in records) for name in names}
    return {**summed, "stored_bytes": lead["counts"].get("stored_bytes")}


def _times(parts: Sequence[Part], lead: Record, started: int, late: int) -> dict[str, int]:
    ran = [part for part in parts if part.record["streams"]]
    # Lost ones have no streams to tell of, but a time until which they were known.
    ends = [part.origin_ns + int(part.record["times"]["interval_ns"]) for part in parts]
    if len(parts) == 1:
        times = lead["times"]
        window = {name: int(times[name]) for name in ("steady_ns", "steady_rows", "steady_payload_bytes")}
    else:
        window = counters.steady_window(parts)
    return {
        "started_unix_ns": started,
        "setup_ns": max(int(part.record["times"]["setup_ns"]) for part in parts),
        "interval_ns": max(ends),
        "verify_ns": int(lead["times"]["verify_ns"]),
        "start_skew_ns": max((_skew(part, late + part.origin_ns) for part in ran), default=0),
        **window,
    }


def _skew(part: Part, late: int) -> int:
    """How much later than agreed its last stream began, at the most: the clock's error is in it."""
    latest = max((int(stream["start_ns"]) for stream in part.record["streams"]), default=0)
    return late + latest + part.clock.uncertainty_ns


def _streams(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """All of them, with times on the common line; threads of later hosts get later numbers."""
    found: list[dict[str, Any]] = []
    threads = 0
    for part in parts:
        for stream in part.record["streams"]:
            moved = {
                # A stream that never came so far has no such moment, and says 0.
                name: stream[name] + part.origin_ns if stream[name] else 0
                for name in ("first_batch_ns", "end_ns")
            }
            started = stream["start_ns"] + part.origin_ns if stream["end_ns"] else stream["start_ns"]
            found.append({**stream, "thread": stream["thread"] + threads, "start_ns": started, **moved})
        threads += max((stream["thread"] for stream in part.record["streams"]), default=-1) + 1
    return sorted(found, key=lambda stream: stream["stream"])


def _errors(records: Sequence[Record]) -> dict[str, Any] | None:
    present = [record["errors"] for record in records if record["errors"]]
    if not present:
        return None
    kinds: dict[tuple[Any, Any], dict[str, Any]] = {}
    for found in present:
        for kind in found["kinds"]:
            same = kinds.setdefault((kind["kind"], kind["code"]), {**kind, "count": 0})
            count = same["count"] + kind["count"]
            if kind["first_ns"] < same["first_ns"]:
                same.update(kind)
            same["count"] = count
    return {
        **{
            what: {unit: sum(found[what][unit] for found in present) for unit in ("batches", "rows")}
            for what in ("refused", "in_doubt")
        },
        "retries": sum(found["retries"] for found in present),
        "kinds": sorted(kinds.values(), key=lambda kind: kind["first_ns"])[:_MOST_ERROR_KINDS],
    }


def _cpu(lead: Record, parts: Sequence[Part], records: Sequence[Record]) -> dict[str, Any] | None:
    if not any(record["cpu"] for record in records):
        return None
    return {"client": counters.cpu(parts), "server": (lead["cpu"] or {}).get("server")}


def _both(records: Sequence[Record], lead: Record, name: str) -> dict[str, Any] | None:
    """The clients' added up by their names, the server's as the lead has it."""
    present = [record[name]["client"] for record in records if record[name]]
    if not present:
        return None
    return {"client": _added(present), "server": (lead[name] or {}).get("server")}


def _added(found: Sequence[Mapping[str, int]]) -> dict[str, int]:
    out: dict[str, int] = {}
    for one in found:
        for name, value in one.items():
            out[name] = out.get(name, 0) + value
    return dict(sorted(out.items()))


def _pools(records: Sequence[Record], lead: Record) -> dict[str, Any] | None:
    present = [pools for record in records if (pools := record.get("pools"))]
    if not present:
        return None
    names = dict.fromkeys(name for pools in present for name in pools["client"])
    client = {name: _added([p["client"][name] for p in present if name in p["client"]]) for name in names}
    return {"client": client, "server": (lead.get("pools") or {}).get("server") or {}}


def _latency(records: Sequence[Record]) -> dict[str, Any] | None:
    present = [record["latency"] for record in records if record["latency"]]
    if not present:
        return None
    return {kind: merged_latency([found.get(kind) for found in present]) for kind in ("service", "response")}


def _schedule(records: Sequence[Record]) -> dict[str, Any] | None:
    present = [record["schedule"] for record in records if record["schedule"]]
    if not present:
        return None
    return {
        # Each has its part of the whole trial's.
        "rate": sum(found["rate"] for found in present),
        "intended": sum(found["intended"] for found in present),
        "late": sum(found["late"] for found in present),
        "max_lag_ns": max(found["max_lag_ns"] for found in present),
    }


def _instrument(records: Sequence[Record]) -> dict[str, Any] | None:
    present = [(record["instrument"], record["times"]["interval_ns"] or 1, len(record["streams"]) or 1)
             for record in records if record["instrument"]]  # fmt: skip
    if not present:
        return None
    time = sum(interval * streams for _, interval, streams in present)
    return {
        **present[0][0],
        "clock_read_ns": max(found["clock_read_ns"] for found, _, _ in present),
        "clock_reads": sum(found["clock_reads"] for found, _, _ in present),
        "share": sum(found["share"] * interval * streams for found, interval, streams in present) / time,
    }


def _samples(parts: Sequence[Part], lead: Part) -> dict[str, Any] | None:
    found = counters.merged_samples(parts)
    if not found:
        return None
    server = dict((lead.record["samples"] or {}).get("server") or {})
    if server:
        server["t_ns"] = [at + lead.origin_ns for at in server["t_ns"]]
    client = found.pop("client")
    return {"client": client, "server": server or None, **found}


def _host(part: Part) -> dict[str, Any]:
    """An item of `hosts`."""
    record, error = part.record, part.record["error"]
    end = (record["resources"] or {}).get("client")
    if end and end.get("process") and end["process"].get("threads"):
        process = {**end["process"], "threads": end["process"]["threads"][:_SHOWN_THREADS]}
        end = {**end, "process": process}
    started = max((int(stream["start_ns"]) for stream in record["streams"]), default=0)
    return {
        "host": part.host,
        "address": part.address,
        "node": part.identity.get("hostname"),
        "role": part.role,
        "lead": part.lead,
        "streams": [part.share.first, part.share.count],
        **{name: int(record["counts"].get(name) or 0) for name in ("rows", "batches", "payload_bytes")},
        "interval_ns": int(record["times"]["interval_ns"]),
        "start_skew_ns": max(started, int(record["times"]["start_skew_ns"])),
        "clock": {"offset_ns": part.clock.offset_ns, "uncertainty_ns": part.clock.uncertainty_ns},
        "cpu": dict(record["cpu"]["client"]) if record["cpu"] else None,
        "resources": end,
        "outcome": record["outcome"],
        "error": error["message"] if error else None,
    }


_LADDER = (0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0)
_A_HALVING = 5
"""Points each time the distance to 100 % halves, as the engine has them."""


def merged_latency(parts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """One distribution of all batches; None if no part has one. Percentiles are of the whole, never means
    of percentiles."""
    present = [part for part in parts if part is not None]
    some = [part for part in present if part.get("count")]
    if len(some) <= 1:
        return dict((some or present)[0]) if present else None
    counts: dict[int, int] = {}
    for part in some:
        for value, count in hdr.decode(part["hdr"]).items():
            counts[value] = counts.get(value, 0) + count
    total = sum(int(part["count"]) for part in some)
    mean = sum(part["count"] * part["mean"] for part in some) / total
    spread = sum(part["count"] * (part["stdev"] ** 2 + (part["mean"] - mean) ** 2) for part in some)
    return {
        "count": total,
        "min": min(part["min"] for part in some),
        "mean": mean,
        "max": max(part["max"] for part in some),
        "stdev": math.sqrt(spread / total),
        "percentiles": _percentiles(counts),
        "hdr": hdr.encode(counts),
    }


def _percentiles(counts: Mapping[int, int]) -> list[list[float | int]]:
    percents = sorted({*_LADDER, *(round(percent, 6) for percent in _halvings(sum(counts.values())))})
    return [*map(list, zip(percents, hdr.percentiles(counts, percents), strict=True))]


def _halvings(total: int) -> list[float]:
    """Percents that come closer to 100 as long as a recording lies between two of them."""
    found, share = [], 0.0
    while (1.0 - share) * total >= 1.0:
        found.append(share * 100)
        share += 1.0 / (_A_HALVING * 2 ** (math.floor(math.log2(1.0 / (1.0 - share))) + 1))
    return found
