"""Probes of physical limits as a table of limits, for `venturi ceilings`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from venturi.analysis.cells.ceilings import CIPHER, RAW_UNIX, SOCKETS, unpacked
from venturi.analysis.cells.probes import IDENTITY, is_single_link
from venturi.analysis.statistics.intervals import Interval, median_interval
from venturi.common.units import Quantity


@dataclass(frozen=True)
class Limit:
    """One limit over its repeats. `error` says why it has no rate, or fewer repeats than asked for."""

    title: str
    family: str
    """What it has in common with others: raw TCP, memory copy, disk, codecs, ..."""
    meaning: str
    fields: Mapping[str, Any]
    rate: Interval | None
    spread: float | None
    """(largest - smallest) / median of the repeats; None for a single one."""
    error: str | None = None
    cached: bool = False
    """From an earlier run of the same boot, machine and configuration."""
    rates: tuple[float, ...] = field(default=(), repr=False)
    ratio: float | None = None
    """Of a codec: payload bytes to a byte that they are encoded as."""
    moot: str | None = None
    """Why it is no limit, of what was measured and limits nothing."""

    @property
    def quantity(self) -> Quantity:
        return self.rate.quantity("B/s") if self.rate else Quantity(None, unit="B/s")


def _count(number: Any, word: str) -> str:
    return f"{number} {word}" + ("" if number == 1 else "s")


def title(line: Mapping[str, Any]) -> str:
    """What a probe is called: `raw TCP get, 4 connections`."""
    kind, name = line.get("kind"), str(line.get("name") or "")
    if kind in SOCKETS:
        place = str(line.get("place") or "local")
        first, _, more = place.partition(",")
        named = f"{first} and {more.count(',') + 1} more" if more else place
        where = "" if place == "local" else f", {named}"
        if name.startswith("loaders="):
            where += f", {_count(int(name.partition('=')[2]), 'loader')}"
        elif is_single_link(name or None):
            address = line.get("address")
            ends = [str(address) if address and end.startswith("server-") else end for end in name.split(":")]
            # A place without a name of its own is the list of the servers.
            where = "" if address in place.split(",") else where
            where += f", {' and '.join(ends)} alone"
        over = f" over {line['link']}" if line.get("link") else ""
        others = f", {line['cross']:g} % of it others'" if line.get("cross") else ""
        where = f"{_ends(line)}{where}{over}{others}"
        return f"{SOCKETS[kind]} {line.get('direction')}, {_count(line.get('streams'), 'connection')}{where}"
    if kind == "pipe":
        return f"raw pipe {line.get('direction')}, {_count(line.get('streams'), 'pipe')}{_ends(line)}"
    if kind == "memory":
        return f"memory copy, {_count(line.get('threads'), 'core')}"
    if kind == "disk":
        ways = {"fsync": "with fsync", "commit": "commits of 4 KiB, one after another"}
        return f"disk, {ways.get(name, 'direct I/O')}"
    if kind == "cipher":
        return f"{CIPHER} {name}, 1 core"
    if kind == "codec":
        codec, _, verb = name.rpartition("-")
        return f"{'IPC' if codec == 'ipc' else codec} {verb}, 1 core"
    if kind == "engine":
        return f"engine, {_count(line.get('streams'), 'stream')}"
    return f"{kind} {name}".strip()


def _ends(line: Mapping[str, Any]) -> str:
    """The threads of this end, where they are not as many as streams, and their CPUs."""
    threads, pin = line.get("threads"), line.get("pin")
    few = f" on {_count(threads, 'thread')}" if threads not in (None, line.get("streams")) else ""
    return f"{few}{f', pinned to {pin}' if pin else ''}"


def raw_tcp_meaning(size: str = "") -> str:
    """What raw TCP means; of older lines with messages `of 4 kB`, or however `size` puts it."""
    return "sockets alone, without any protocol" + (f", in messages {size}" if size else "")


def _meaning(line: Mapping[str, Any], cores: int) -> tuple[str, str]:
    """The family that a limit belongs to, and what it means."""
    kind, name = line.get("kind"), str(line.get("name") or "")
    if kind == "unix":
        return RAW_UNIX, "Unix sockets alone, between two processes of this machine"
    if kind == "tcp":
        size = line.get("message_bytes")
        return "raw TCP", raw_tcp_meaning(f"of {Quantity(size, unit='B').text()}" if size else "")
    if kind == "pipe":
        return "raw pipe", "pipes of the kernel alone, without any format in them"
    if kind == "memory":
        return "memory copy", "one large buffer copied to another, bytes counted once"
    if kind == "disk":
        system = f" ({line['filesystem']})" if line.get("filesystem") else ""
        how = "with fsync through the page cache and kept when it ends, direct I/O past the cache"
        return "disk", f"written in order to {line.get('path')}{system}; {how}"
    if kind == "engine":
        return "engine", "batches of the empty target: what Venturi itself can do"
    if kind == "cipher":
        return "cipher", "records of TLS, without TLS around them"
    if kind == "codec" and name.startswith("ipc"):
        return "IPC", "payload into Arrow messages and back; columns are referred to, not copied"
    if kind == "codec":
        more = f"; {_count(cores, 'core')} at most {cores} times that" if cores > 1 else ""
        return "codecs", f"payload of {line.get('data')} through one core{more}"
    return str(kind), ""


def limits(lines: Sequence[Mapping[str, Any]]) -> list[Limit]:
    """The lines of ceilings.jsonl by what was probed, in the order of their first."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for line in lines:
        groups.setdefault(tuple(line.get(name) for name in IDENTITY), []).append(line)
    cores = max((int(x.get("threads") or 1) for x in lines if x.get("kind") == "memory"), default=1)
    found = [_limit(group, cores) for group in groups.values()]
    memory = max((_median(one) for one in found if one.fields.get("kind") == "memory"), default=None)
    return [_without_moving(one, memory) for one in found]


def _without_moving(limit: Limit, memory: float | None) -> Limit:
    """One of Venturi's engine that is above memory is none: its batches were referred to, and not moved."""
    if limit.fields.get("kind") != "engine" or memory is None or _median(limit) <= memory:
        return limit
    return replace(limit, moot="nobody reads its batches")


def _limit(group: Sequence[Mapping[str, Any]], cores: int) -> Limit:
    first = group[0]
    good = [x for x in group if x.get("outcome", "ok") == "ok" and x.get("bytes") and x.get("interval_ns")]
    rates = [x["bytes"] * 1e9 / x["interval_ns"] for x in good]
    rate = median_interval(rates) if rates else None
    failed = next((x for x in group if x.get("outcome", "ok") != "ok"), None)
    error: str | None = None
    if failed is not None:
        found = failed.get("error")
        error = str(found.get("message")) if isinstance(found, Mapping) else str(found)
    family, meaning = _meaning(first, cores)
    encoded = sum(int(x.get("encoded_bytes") or 0) for x in good)
    return Limit(
        title=title(first),
        family=family,
        meaning=meaning,
        fields={name: first.get(name) for name in IDENTITY},
        rate=rate,
        spread=(max(rates) - min(rates)) / rate.median if rate and len(rates) > 1 else None,
        error=error,
        cached=any(x.get("cached") for x in group),
        rates=tuple(rates),
        ratio=sum(x["bytes"] for x in good) / encoded if encoded else None,
        moot="these data were not packed" if any(map(unpacked, good)) else None,
    )


@dataclass(frozen=True)
class Narrowest:
    """The lowest limit of a path, and how far above it the others lie."""

    limit: Limit
    text: str


def narrowest(found: Sequence[Limit], place: str = "local", socket: str = "tcp") -> Narrowest | None:
    """The lowest limit of a transfer to `place` by such a socket (`tcp`, `unix`); None where nothing that
    limits one was measured.

    Of each kind the best counts: over more connections or cores there may be more to be had. Disk and codecs
    are left out, for they bind only what is stored or compressed.
    """
    best: dict[str, Limit] = {}
    for limit in found:
        kind = str(limit.fields.get("kind"))
        if limit.rate is None or limit.moot or kind not in (socket, "memory", "engine"):
            continue
        if kind == socket and (
            limit.fields.get("place") != place or is_single_link(limit.fields.get("name"))
        ):
            continue
        if kind not in best or limit.rate.median > _median(best[kind]):
            best[kind] = limit
    cached = ""
    if {socket, "memory"} <= best.keys() and _median(best[socket]) > _median(best["memory"]):
        # As in analysis.ceilings: what went through sockets faster than memory is copied was never in memory.
        rate = best.pop("memory").quantity.number("MB/s")
        cached = f"; memory copy {rate} MB/s does not bind: what passes sockets stays in the cache"
    if not best:
        return None
    lowest, *others = sorted(best.values(), key=_median)
    above = "".join(
        f"; {other.title} {other.quantity.number('MB/s')} MB/s is x{_factor(other, lowest)} above"
        for other in others
    )
    path = (
        "a loopback transfer on this machine"
        if place == "local"
        else f"a transfer between this machine and {place}"
    )
    if socket == "unix":
        path = f"a transfer over a Unix socket{'' if place == 'local' else f' to {place}'}"
    text = f"the lowest limit of {path}: {lowest.quantity.number('MB/s')} MB/s, {lowest.title}{above}{cached}"
    return Narrowest(lowest, text)


def _median(limit: Limit) -> float:
    return limit.rate.median if limit.rate else 0.0


def _factor(high: Limit, low: Limit) -> str:
    factor = _median(high) / max(_median(low), 1.0)
    return f"{factor:,.0f}" if factor >= 10 else f"{factor:.1f}"
