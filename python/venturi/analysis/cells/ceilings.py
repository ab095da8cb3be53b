"""Which measured physical limits apply to a result, and which of them is the lowest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from venturi.analysis.cells.probes import (
    codec_of,
    cross_traffic_share,
    data_label,
    link_bits,
    loaders_probe_name,
    pinned,
    shared_rate,
    waits_for_disk,
)
from venturi.analysis.statistics.intervals import Interval, median_interval, ratio_interval
from venturi.common import links
from venturi.common.units import Quantity
from venturi.engine.record import Trial
from venturi.targets.system import DRIVERS, FILES, NO_PLACE, PIPES, is_shared, is_tls, is_unix, scheme_of

NEAR = math.log(2.0)
"""A probe of batches counts for batches up to twice as large or small: a last short one or a string column
moves a trial's mean a little off the probe's."""

OVER = 1.05
"""A result that is so much above its limit has passed it, however far its repeats lie apart."""

RAW_TCP, RAW_PIPE, ENGINE, MEMORY, DISK = "raw TCP", "raw pipe", "engine", "memory copy", "disk"
RAW_UNIX, CIPHER, LINK = "raw Unix socket", "AES-128-GCM", "link"
COMMITS = "disk commits"
COMMIT_BYTES = 4096
"""Of one commit that was probed."""
SOCKETS = {"tcp": RAW_TCP, "unix": RAW_UNIX}
"""Limits of bare sockets, by the kind of their probes."""
SOCKETLESS = (*FILES, *NO_PLACE, *DRIVERS)
"""Schemes whose data pass no socket of Venturi's: their engine is in the client's process, or a driver's."""
PACKED = 0.98
"""Encoded bytes over payload, from which on a codec has packed nothing, and unpacks nothing."""


@dataclass(frozen=True)
class Ceiling:
    """One limit (bytes of payload per second) over the probe's repeats, and the share of it that a cell
    reached."""

    name: str
    rate: Interval
    rounds: Mapping[int, float] = field(default_factory=dict)
    """What it was in each round in which it was probed."""
    share: Interval | None = None
    """None where no trial was good."""
    paired: bool = False
    """Whether the share is of trials and probes of the same rounds."""

    @property
    def passed(self) -> bool:
        """Whether the cell did more, so that it is no limit but a reference; of a single repeat, which has no
        interval, anything above it."""
        return self.share is not None and (self.share.low > 1.0 or self.share.median > OVER)


def _same_machine(parameters: Mapping[str, Any], records: Sequence[Trial]) -> bool:
    """Whether both ends share this host's processors and disks: as the trials found, else by the address."""
    for record in records:
        known = record.resources.same_machine
        if known is not None:
            return known
    target = str(parameters.get("target") or "")
    parts = urlsplit(target)
    host = parts.hostname or ""
    return (
        parts.scheme in (*FILES, *PIPES)
        or is_unix(target)
        or host in ("local", "localhost", "::1")
        or host.startswith("127.")
    )


def _cores_of(records: Sequence[Trial]) -> int:
    """Of the client's host, as its trials tell; the least where they do not."""
    return max((r.resources.client.host.cores or 1 for r in records), default=1)


def _scaled(ceiling: Ceiling, factor: float) -> Ceiling:
    rate = ceiling.rate
    scaled = Interval(rate.median * factor, rate.low * factor, rate.high * factor, rate.n, rate.coverage)
    return replace(ceiling, rate=scaled, rounds={n: found * factor for n, found in ceiling.rounds.items()})


def _of_payload(
    raw: Ceiling | None, parameters: Mapping[str, Any], payload_per_wire: float | None
) -> Ceiling | None:
    """Sockets carry compressed bytes, results count payload: without both counts no limit is known."""
    packed = codec_of(parameters.get("compression")) or codec_of(parameters.get("http_compression"))
    if raw is None or packed is None:
        return raw
    if payload_per_wire is None:
        return None
    return _scaled(raw, payload_per_wire)


def _of_wire(
    link: Ceiling | None, parameters: Mapping[str, Any], payload_per_wire: float | None
) -> Ceiling | None:
    """A link carries whatever a protocol makes of payload, which is more than it in a database's own form."""
    if link is None or payload_per_wire is None:
        return _of_payload(link, parameters, payload_per_wire)
    return _scaled(link, payload_per_wire)


@dataclass(frozen=True)
class Moved:
    """What the good trials of a cell moved (payload bytes per second), and in which rounds."""

    speed: Interval
    trials: Sequence[tuple[int | None, float]]

    def over(self, ceiling: Ceiling) -> Ceiling:
        """The limit with the median of each trial's share of what was probed in its own round. Where that was
        not done for half of them, with the quotient of the medians."""
        rounds = ceiling.rounds
        pairs = [rate / rounds[n] for n, rate in self.trials if n is not None and n in rounds]
        if pairs and 2 * len(pairs) >= len(self.trials):
            return replace(ceiling, share=median_interval(pairs), paired=True)
        return replace(ceiling, share=ratio_interval(self.speed, ceiling.rate))


_ANY = 0.0
"""The message size of probes to which it does not matter; older ones of raw TCP have one."""
Sample = tuple[float, int | None]
"""A probe's rate and its round, None where it was made before them."""


def unpacked(probe: Mapping[str, Any]) -> bool:
    """Whether a codec was to unpack what it had not packed: Arrow then has the bytes as they are."""
    moved, encoded = probe.get("bytes"), probe.get("encoded_bytes")
    codec, _, verb = str(probe.get("name")).rpartition("-")
    packs = probe.get("kind") == "codec" and codec != "ipc" and verb == "decode"
    return bool(packs and moved and encoded and encoded >= PACKED * moved)


class Limits:
    """The probes of a run, ordered once, so that thousands of cells find theirs quickly."""

    def __init__(self, probes: Iterable[Mapping[str, Any]]) -> None:
        # kind -> what must be equal -> message size -> samples
        self._found: dict[str, dict[tuple[Any, ...], dict[float, list[Sample]]]] = {}
        self._cores = 0
        """Of this host, as its memory was probed on them; 0: it was not."""
        self._intervals: dict[tuple[float, ...], Interval] = {}
        for probe in probes:
            moved, took = probe.get("bytes"), probe.get("interval_ns")
            if probe.get("outcome", "ok") != "ok" or not moved or not took:
                continue
            kind = str(probe.get("kind") or "tcp")
            if unpacked(probe):
                continue
            names = {
                "tcp": (
                    "place",
                    "direction",
                    "streams",
                    "name",
                    "threads",
                    "pin",
                    "link",
                    "backplane",
                    "cross",
                ),
                "unix": ("place", "direction", "streams", "name", "threads", "pin"),
                "pipe": ("direction", "streams", "threads", "pin"),
                "engine": ("data", "name", "streams", "threads"),
                "cipher": ("end", "name"),
                "codec": ("end", "data", "name"),
                "memory": ("end", "name", "threads"),
                "disk": ("end", "name", "path"),
            }.get(kind)
            if names is None:
                continue
            key = tuple(probe.get(name) for name in names)
            size = float(probe.get("message_bytes") or _ANY)
            self._found.setdefault(kind, {}).setdefault(key, {}).setdefault(size, []).append(
                (moved * 1e9 / took, probe.get("round"))
            )
            if kind == "memory" and probe.get("end") in (None, "client"):
                self._cores = max(self._cores, int(probe.get("threads") or 1))

    def of(
        self,
        parameters: Mapping[str, Any],
        message_bytes: float | None,
        records: Sequence[Trial] = (),
        payload_per_wire: float | None = None,
        done: Moved | None = None,
    ) -> dict[str, Ceiling]:
        """Every limit that applies to a cell, by name; see docs/method.md, "Ceilings".

        `message_bytes` is the trial's payload bytes per batch; `payload_per_wire` how many bytes of payload
        one byte on the wire carried (compression), None where that was not counted. `records` are the good
        trials, `done` what they moved. Limits measured under other conditions are left out: a share of one
        would mislead.
        """
        piped = scheme_of(str(parameters.get("target") or "")) in PIPES
        raw = self._pipe(parameters) if piped else self._sockets(parameters, message_bytes)
        if (parameters.get("loaders") or 1) > 1:
            # One host's limit does not bound several hosts.
            links_ = self._link(parameters, records)
            found = [_of_payload(one, parameters, payload_per_wire) for one in (links_, raw)]
            return _held_against(found, done)
        found = [
            _of_wire(self._link(parameters, records), parameters, payload_per_wire),
            _of_payload(raw, parameters, payload_per_wire),
            self._engine(parameters, message_bytes),
            self._memory(),
            *(_of_payload(one, parameters, payload_per_wire) for one in self._cipher(parameters, records)),
            *self._codec(parameters, message_bytes, records),
            self._disk(parameters, records),
            self._commits(parameters, message_bytes, records),
        ]
        limits = _held_against(found, done)
        # What passed sockets, or a pipe, faster than memory is copied stayed in the processor's cache,
        # so memory is no limit. Compared are bytes on the wire: those passed.
        if MEMORY in limits and ENGINE in limits and _above(limits[ENGINE], limits[MEMORY]):
            # Batches that are only referred to, and read by nobody, are no bytes that were moved.
            del limits[ENGINE]
        wire = next(iter(_held_against([raw], done).values()), None)
        if wire is not None and MEMORY in limits and _above(wire, limits[MEMORY]):
            del limits[MEMORY]
        return limits

    def _link(self, parameters: Mapping[str, Any], records: Sequence[Trial]) -> Ceiling | None:
        """Of a link that was made for the run: what full packets of TCP carry at the rate that was measured.
        What others take of it is theirs."""
        link = links.read_link(parameters.get("link"))
        if link is None or parameters.get("operation") not in ("get", "put"):
            return None
        way = links.way(parameters["operation"])
        part = link.payload_part * (1 - cross_traffic_share(parameters))
        found: list[Sample] = [
            (every / 8 * part, record.repeat)
            for record in records
            if part > 0 and (rate := link_bits(record, way)) and (every := shared_rate(parameters, way, rate))
        ]
        return self._ceiling(LINK, found) if found else None

    def _sockets(self, parameters: Mapping[str, Any], size: float | None) -> Ceiling | None:
        url = str(parameters.get("target") or "")
        if is_shared(url) or scheme_of(url) in SOCKETLESS:
            return None
        kind = "unix" if is_unix(url) else "tcp"
        own = parameters.get("place")
        sizes: dict[float, list[Sample]] = {}
        loaders = loaders_probe_name(parameters.get("loaders") if parameters.get("on") != "spark" else None)
        client = (parameters.get("threads"), pinned(parameters))
        over = [parameters.get(name) for name in ("link", "backplane", "cross")]
        for (place, direction, streams, name, threads, pin, *link), rates in self._found.get(
            kind, {}
        ).items():
            if direction != parameters.get("operation") or streams != parameters.get("streams"):
                continue
            # From as many hosts as the trial's streams.
            if name != loaders:
                continue
            # Threads that have no stream do nothing; lines of older runs do not tell.
            if threads is not None and (threads, pin) != (min(client[0] or streams, streams), client[1]):
                continue
            if link and link != over:
                continue
            # A loopback probe is no ceiling of a remote target; imported lines name no place.
            if place is not None and own is not None and place != own:
                continue
            for at, values in rates.items():
                sizes.setdefault(at, []).extend(values)
        of_any = sizes.pop(_ANY, [])
        # Those of a run that was begun when probes had a size count with the others.
        found = of_any + self._near(sizes, size)
        return self._ceiling(SOCKETS[kind], found) if found else None

    def _pipe(self, parameters: Mapping[str, Any]) -> Ceiling | None:
        """As many pipes and threads as the trial's."""
        p, streams = parameters, parameters.get("streams")
        threads = min(p.get("threads") or streams or 1, streams or 1)
        sizes = self._found.get("pipe", {}).get((p.get("operation"), streams, threads, pinned(p)), {})
        found = [sample for samples in sizes.values() for sample in samples]
        return self._ceiling(RAW_PIPE, found) if found else None

    def _engine(self, parameters: Mapping[str, Any], size: float | None) -> Ceiling | None:
        p = parameters
        label = data_label(p)
        # An upsert is verified after the clock has stopped.
        verify = "none" if p.get("operation") == "upsert" else p.get("verify")
        key = (label, verify, p.get("streams"), p.get("threads"))
        return self._nearest(ENGINE, self._found.get("engine", {}).get(key, {}), size) if label else None

    def _memory(self) -> Ceiling | None:
        """The better of one core and all: which is higher depends on the machine."""
        return self._best(
            MEMORY, (key for key in self._found.get("memory", ()) if key[0] in (None, "client"))
        )

    def _workers(
        self, parameters: Mapping[str, Any], records: Sequence[Trial], sends: str, takes: str
    ) -> Iterable[tuple[str, int]]:
        """What the sender and the receiver do, and the cores that each, where it is on this host, can put to
        it."""
        puts = parameters.get("operation") == "put"
        cores = self._cores or _cores_of(records)
        for verb, client in ((sends, puts), (takes, not puts)):
            if client or _same_machine(parameters, records):
                # The client's threads are set by the run, the server's are not.
                threads = parameters.get("threads") if client else None
                yield verb, min(int(threads or cores), cores)

    def _cipher(self, parameters: Mapping[str, Any], records: Sequence[Trial]) -> Iterable[Ceiling]:
        """Of bytes on the wire."""
        if parameters.get("operation") not in ("get", "put") or not is_tls(str(parameters.get("target"))):
            return
        streams = int(parameters.get("streams") or 1)
        for verb, workers in self._workers(parameters, records, "seal", "open"):
            sizes = self._found.get("cipher", {}).get(("client", verb), {})
            if found := [sample for samples in sizes.values() for sample in samples]:
                # A connection has one thread at either end.
                yield _scaled(self._ceiling(f"{CIPHER} {verb}", found), min(workers, streams))

    def _codec(
        self,
        parameters: Mapping[str, Any],
        size: float | None,
        records: Sequence[Trial],
    ) -> Iterable[Ceiling]:
        """The codec's rate of one core x the cores that each end on this host can put to it."""
        codec = codec_of(parameters.get("compression"))
        if codec is None or parameters.get("operation") == "upsert":
            # A database compresses its own frames its own way.
            return
        for verb, workers in self._workers(parameters, records, "encode", "decode"):
            key = ("client", data_label(parameters), f"{codec}-{verb}")
            one = self._nearest(f"{codec} {verb}", self._found.get("codec", {}).get(key, {}), size)
            if one is not None:
                yield _scaled(one, workers)

    def _disk(self, parameters: Mapping[str, Any], records: Sequence[Trial]) -> Ceiling | None:
        """The better way of writing, where what is put stays on this host's disk."""
        if not waits_for_disk(parameters) or not _same_machine(parameters, records):
            return None
        keys = (key for key in self._found.get("disk", ()) if key[1] != "commit")
        return self._best(DISK, keys)

    def _commits(
        self, parameters: Mapping[str, Any], size: float | None, records: Sequence[Trial]
    ) -> Ceiling | None:
        """Payload in batches of which each connection has one at a time that waits for its commit. Commits of
        several connections may be on the disk together."""
        p = parameters
        if p.get("operation") != "upsert" or not size or not waits_for_disk(p):
            return None
        found = [key for key in self._found.get("disk", ()) if key[1] == "commit"]
        if not found or not _same_machine(p, records):
            return None
        samples = [
            sample for key in found for values in self._found["disk"][key].values() for sample in values
        ]
        batches = float(p.get("streams") or 1) * float(p.get("in_flight") or 1)
        return _scaled(self._ceiling(COMMITS, samples), size * batches / COMMIT_BYTES)

    def _best(self, name: str, keys: Iterable[tuple[Any, ...]]) -> Ceiling | None:
        """The probe of the highest median of these."""
        kind = {MEMORY: "memory", DISK: "disk"}[name]
        found = [self._ceiling(name, samples) for key in keys for samples in self._found[kind][key].values()]
        return max(found, key=lambda ceiling: ceiling.rate.median, default=None)

    def _near(self, sizes: Mapping[float, list[Sample]], size: float | None) -> list[Sample]:
        """Those of the nearest message size, on a logarithmic scale, within a factor 2."""
        if size is None or size <= 0:
            return []
        near = {at: abs(math.log(at / size)) for at in sizes if at > 0}
        best = min(near, key=lambda at: near[at], default=None)
        return sizes[best] if best is not None and near[best] <= NEAR + 1e-9 else []

    def _nearest(self, name: str, sizes: Mapping[float, list[Sample]], size: float | None) -> Ceiling | None:
        found = self._near(sizes, size)
        return self._ceiling(name, found) if found else None

    def _ceiling(self, name: str, samples: Sequence[Sample]) -> Ceiling:
        rates = tuple(rate for rate, _ in samples)
        if rates not in self._intervals:
            self._intervals[rates] = median_interval(rates)
        rounds: dict[int, float] = {}
        for rate, number in samples:
            if number is not None:
                rounds[number] = max(rate, rounds.get(number, 0.0))
        return Ceiling(name, self._intervals[rates], rounds)


def _held_against(found: Iterable[Ceiling | None], done: Moved | None) -> dict[str, Ceiling]:
    """By name, with the share of each that was reached."""
    known = [ceiling for ceiling in found if ceiling is not None]
    if done is not None:
        known = [done.over(ceiling) for ceiling in known]
    return {ceiling.name: ceiling for ceiling in known}


def _above(one: Ceiling, other: Ceiling) -> bool:
    """Whether it is the higher limit: less of it was reached."""
    if one.share is None or other.share is None:
        return one.rate.median > other.rate.median
    return one.share.median < other.share.median


def binding(limits: Mapping[str, Ceiling]) -> Ceiling | None:
    """The lowest of the limits that apply, of which most was reached; None where there is none. Over a link
    that was made for the run raw TCP is what TCP makes of it, and the link is the limit."""
    return min(
        [limit for name, limit in limits.items() if name != RAW_TCP or LINK not in limits],
        key=lambda ceiling: ceiling.rate.median if ceiling.share is None else -ceiling.share.median,
        default=None,
    )


def share(binding_name: str | None, passed: bool = False) -> str:
    """What a share of that limit is called: `of raw TCP`, `of the engine's limit`, and where it was passed
    `of raw TCP (a reference)`."""
    if binding_name is None:
        return ""
    named = {
        COMMITS: "the disk's commits",
        ENGINE: "the engine's limit",
        DISK: "the disk",
        LINK: "the link",
        RAW_UNIX: "a raw Unix socket",
    }
    text = f"of {named.get(binding_name, binding_name)}"
    return f"{text} (a reference)" if passed else text


def surely_above(share: Quantity) -> bool:
    """Whether the whole interval of a share lies above 100 %."""
    return share.low is not None and share.low > 1.0


def why_passed(share: Quantity, paired: bool) -> str:
    """What is known of why a limit was passed, by this share of it."""
    if not paired:
        return "it was not probed between the trials, but at another moment of the machine"
    if not surely_above(share):
        return "repeats do not tell whether it is one: they are too few, or the machine changes too fast"
    return (
        "it was probed between the trials, raw sockets and pipes with their ends in every placement, so the "
        "trials do something that the probe does not"
    )
