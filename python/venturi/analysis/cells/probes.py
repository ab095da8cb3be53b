"""Which probes count for a cell, and what was measured of the link that was made for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from venturi.common.links import WAYS, Link, Way, read_rates
from venturi.engine.record import Trial
from venturi.targets.system import DIALECTS, KEEPS_NOTHING, UNSYNCED, scheme_of

IDENTITY = (
    *("kind", "place", "end", "name", "threads", "pin", "direction", "streams", "message_bytes", "path"),
    *("data", "link", "backplane", "cross"),
)
"""What tells a line of ceilings.jsonl from others, but for repeats."""
_ALONE = "loader-"
"""Prefix of the names of probes that one loader made alone."""


def is_stored(url: object) -> bool:
    """Whether what is sent to this address ends on a disk. Flight servers and `empty://` keep nothing."""
    return scheme_of(str(url or "")) not in ("", *KEEPS_NOTHING)


def waits_for_disk(parameters: Mapping[str, Any]) -> bool:
    """Whether what is acknowledged is on a disk by then, as far as the settings tell: what only lies in the
    system's cache is not held back by the disk.

    Some acknowledge before a log is synced, as Cassandra. Databases are taken at their durable default where
    nothing is set, and a SQLite in WAL mode syncs only with `synchronous = full`."""
    # What a store of time series writes is a fraction of the payload: the disk is no limit that payload has.
    if parameters.get("operation") in ("get", "ingest") or not is_stored(parameters.get("target")):
        return False
    scheme = scheme_of(str(parameters.get("target")))
    synchronous = parameters.get("synchronous")
    if scheme == "sqlite" and synchronous == "normal":
        return parameters.get("journal") not in ("wal", "memory", "off")
    return scheme not in UNSYNCED and synchronous != "off"


def loaders_probe_name(loaders: int | None) -> str | None:
    """What a probe of raw TCP from so many loaders at once is named."""
    return None if loaders is None else f"loaders={loaders}"


def link_probe_name(loader: int | None, server: int | None) -> str:
    """What a probe of raw TCP over one way is named, ends numbered from 1: `loader-2`, `server-1`, or both as
    `loader-2:server-1`."""
    ends = {"loader": loader, "server": server}
    return ":".join(f"{end}-{number}" for end, number in ends.items() if number is not None)


def is_single_link(name: str | None) -> bool:
    """Whether a probe of raw TCP of this name went over one way only, where trials have several."""
    return name is not None and "=" not in name


def single_links(probes: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any]) -> dict[str, float]:
    """What raw TCP carries from each loader of these trials alone (B/s), as far as it was probed; medians of
    the probes' repeats, of any message size."""
    wanted = (parameters.get("place"), parameters.get("operation"))
    found: dict[str, list[float]] = {}
    for probe in probes:
        name, moved, took = str(probe.get("name") or ""), probe.get("bytes"), probe.get("interval_ns")
        if probe.get("outcome", "ok") != "ok" or not moved or not took:
            continue
        if (
            name.startswith(_ALONE)
            and ":" not in name
            and (probe.get("place"), probe.get("direction")) == wanted
        ):
            found.setdefault(name, []).append(moved * 1e9 / took)
    return {name: median(rates) for name, rates in found.items()}


def data_label(parameters: Mapping[str, Any]) -> str | None:
    """What a probe of codec or engine must have worked on to count for a trial: how well data compress, and
    what a checksum costs, depends on them. None for remote data and states, which nobody has
    before the trial.

    Of upserts, statements that are built ahead are only handed on; those built inline cost what their system
    asks for, so that those of Cassandra, which the empty target does not build, have no limit."""
    data = parameters.get("data")
    if parameters.get("operation") == "ingest":
        return _ingest_label(parameters)
    if parameters.get("operation") == "upsert":
        return _upsert_label(parameters)
    if data == "records":
        return f"records, {parameters.get('columns')} columns, {parameters.get('values')}"
    scheme = scheme_of(str(parameters.get("target") or ""))
    if scheme == "charrow":
        # The server chooses the rows.
        return None
    return None if data in (None, "remote", "states") else str(data)


def _ingest_label(parameters: Mapping[str, Any]) -> str | None:
    """Points that are made and written inside the interval; ready-made ones have no such limit."""
    if parameters.get("data") != "metrics" or parameters.get("generate") != "inline":
        return None
    system = scheme_of(str(parameters.get("target") or ""))
    form = parameters.get("messages") or "lines"
    return f"metrics of {parameters.get('hosts')} hosts, {system}, {form}, {parameters.get('digits')} digits"


def _upsert_label(parameters: Mapping[str, Any]) -> str | None:
    lanes = int(parameters.get("in_flight") or 1)
    flight = f", {lanes} in flight" if lanes > 1 else ""
    if parameters.get("generate") != "inline":
        return f"{parameters.get('data')}, statements built ahead{flight}"
    dialect = DIALECTS.get(scheme_of(str(parameters.get("target") or "")))
    if dialect is None:
        return None
    return f"{parameters.get('data')}, statements of {dialect} built inline{flight}"


def codec_of(compression: object) -> str | None:
    """`zstd`, `zstd:7`, `lz4`; None where nothing is compressed."""
    text = str(compression or "none")
    return None if text == "none" else text


def is_compressed(parameters: Mapping[str, Any]) -> bool:
    """Whether what travels is compressed, batch by batch or as a whole."""
    return any(codec_of(parameters.get(key)) for key in ("compression", "http_compression"))


def pinned(parameters: Mapping[str, Any]) -> str | None:
    """The CPUs of the client's threads, as a probe's line has them: `0,2`."""
    return ",".join(map(str, parameters.get("pin") or ())) or None


def link_bits(record: Trial, way: Way) -> float | None:
    """What the link carried, in bits/s with all that Ethernet adds; None where no rate was asked for."""
    bits: float | None = record.link[f"{way}_bits_per_second"]
    return bits if bits and bits > 0 else None


def congestion_control(records: Iterable[Trial], link: Link, host: str | None = None) -> str | None:
    """The congestion control of TCP over a cell's link, as its trials tell, else as was asked for, else that
    of the host: records of older runs do not tell. None where nobody knows."""
    return next((control for record in records if (control := record.link.control)), link.control or host)


def cross_traffic_share(parameters: Mapping[str, Any]) -> float:
    """The part of the link's rate that others take, 0..1."""
    found = parameters.get("cross")
    return min(max(found / 100, 0.0), 1.0) if isinstance(found, int | float) else 0.0


def shared_rate(parameters: Mapping[str, Any], way: Way, rate: float) -> float | None:
    """What the links of all loaders carry, of which one alone carries this rate, in the same unit as the rate
    of a link (bits/s): they share as much as one has, where no more was asked for. None where what they share
    is not known: a newer Venturi's, or damaged."""
    backplane = parameters.get("backplane")
    if backplane is None:
        return rate
    found = read_rates(backplane)
    if found is None:
        return None
    loaders = parameters.get("loaders")
    return min(rate * (loaders if isinstance(loaders, int) else 1), found[WAYS.index(way)])
