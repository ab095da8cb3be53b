"""Probes of physical limits: which ones the cells of a run need, and how each is executed.

Raw sockets need one of our servers at the other end: our own on this machine, and on another host `venturi
serve`, where that is what runs there. A raw pipe has both its ends here.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from venturi.analysis.cells.probes import (
    IDENTITY,
    codec_of,
    data_label,
    link_probe_name,
    loaders_probe_name,
    pinned,
    waits_for_disk,
)
from venturi.cluster.trial.loaders import divide
from venturi.common import links
from venturi.common.environment import usable_cores
from venturi.common.links import SERVER_END
from venturi.engine.executor import Executor, TrialControl, run_with_progress
from venturi.engine.spec import FORMAT_VERSION, build_spec
from venturi.measure.trial_targets import Endpoints, records
from venturi.netlab.network import filled
from venturi.plan.cell import Cell
from venturi.servers.reference import ReferenceServer, SocketServer
from venturi.targets.system import (
    DIALECTS,
    PIPES,
    REFERENCE,
    in_process,
    is_driver,
    is_local,
    is_ours,
    is_plugin,
    is_remote,
    is_shared,
    is_tls,
    is_unix,
    scheme_of,
)
from venturi.targets.urls import each_host, is_loopback, place_of, split_url

REPEATS = 3
SOCKETS = ("tcp", "unix")
"""Kinds of raw sockets, by what their addresses are."""
SECONDS = {
    "tcp": 0.3, "unix": 0.3, "pipe": 0.3, "memory": 0.1, "engine": 0.1, "cipher": 0.1, "codec": 0.2,
    "disk": 0.3,
}  # fmt: skip
"""How long one repeat of each kind moves data."""
_MAKING_READY = {"memory": 0.2, "engine": 0.05, "disk": 0.1}
"""Before a repeat, about: memory is touched, batches are made."""
MOST_DISK_BYTES = 1 << 30
_LINK_SECONDS, _LINK_TRIPS, _MOST_LINK_SECONDS = 0.5, 20.0, 6.0
"""Of raw TCP over a link: it doubles what it sends in each round trip, from ten packets on."""
_LINKS = 16
"""The most loaders, and the most links between hosts, that are also measured one by one."""
_MOST_ENGINE_ROWS = 50_000
"""Rows of `usage` that the engine's probe of upserts cycles through."""
_FIELDS = {
    "memory": ("threads",), "disk": ("name", "path"), "cipher": ("name",), "codec": ("name",),
    "pipe": ("direction", "streams", "threads"),
}  # fmt: skip
"""Of a probe's spec, what the probe says itself."""
NAMES = {
    "tcp": "raw TCP", "unix": "raw Unix socket", "pipe": "raw pipe", "memory": "memory copy",
    "engine": "engine", "cipher": "cipher", "codec": "codecs", "disk": "disk",
}  # fmt: skip


@dataclass(frozen=True)
class Probe:
    """What is probed: the fields that tell a line of ceilings.jsonl from others. Sizes are bytes."""

    kind: str
    place: str | None = None
    end: str | None = None
    name: str | None = None
    threads: int | None = None
    pin: str | None = None
    direction: str | None = None
    streams: int | None = None
    message_bytes: int | None = None
    path: str | None = None
    data: str | None = None
    link: str | None = None
    """Over which, where one is made for the run, what all loaders share, and what others take of it."""
    backplane: str | None = None
    cross: float | None = None
    url: str = field(default="", compare=False)
    """The scenario's address, of a probe of sockets."""
    cell: Cell | None = field(default=None, compare=False)
    """A cell that needs it, which says what the data are."""
    loader: str | None = field(default=None, compare=False)
    """From which loaders, of a cell that has some: `loaders=4` all at once, `loader-2` alone."""
    first: int = field(default=0, compare=False)
    """The number of the first stream whose way this is, which says the server."""
    server: int | None = field(default=None, compare=False)
    """The only server that is spoken to, from 1; None: all of them in turn, as streams do."""

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in IDENTITY)


def foreign(url: str, over_link: bool = False) -> bool:
    """Whether the other end is another host, or somebody else's program at the end of a link: it answers the
    probe only if it is `venturi serve`."""
    return SERVER_END in url if over_link else not is_local(url) and not is_loopback(url)


def probes(found: Iterable[Cell], path: Path | None = None, servers: int = 1) -> list[Probe]:
    """The distinct probes that these cells ask for. `path`: where a local target would store; `servers`: how
    many `X://remote` stands for."""
    wanted: list[Probe] = []
    for cell in found:
        p, size, url = cell.parameters, cell.message_bytes, str(cell.parameters["target"])
        # The empty target is itself a limit.
        if url.startswith("empty:"):
            continue
        ways = _ways(cell, servers if is_remote(url) else len(each_host(url)))
        if p.get("on") != "spark" and (p.get("loaders") or 1) > 1:
            # One host's limit does not bound several hosts.
            wanted += ways
            continue
        # A point is larger on the wire than its payload, so the engine is the limit before memory.
        cores = sorted({1, usable_cores()}) if p["operation"] != "ingest" else ()
        wanted += [Probe("memory", end="client", name="copy", threads=threads) for threads in cores]
        away = foreign(url, p.get("link") is not None)
        if waits_for_disk(p) and not away:
            # How often a database commits is known of one that the run starts, or has in its process.
            own = p["operation"] == "upsert" and (is_local(url) or in_process(url))
            for name in ("fsync", "direct", *(("commit",) if own else ())):
                wanted.append(Probe("disk", end="client", name=name, path=str(_storage(url, path or Path()))))
        wanted += ways
        mine = "put" if p["operation"] == "put" else "get"
        # What a database sends for a row is not its payload.
        arrow = scheme_of(url) in REFERENCE
        for name, at in (("seal", "put"), ("open", "get")) if is_tls(url) and ways and arrow else ():
            if at == mine or not away:
                wanted.append(Probe("cipher", end="client", name=name, threads=1))
        label, upsert = data_label(p), p["operation"] == "upsert"
        if size is None or label is None:
            continue
        of: dict[str, Any] = {"message_bytes": size, "data": label, "cell": cell}
        check = "none" if upsert else p["verify"]
        wanted.append(Probe("engine", name=check, threads=p["threads"], streams=p["streams"], **of))
        codec = None if upsert or p["operation"] == "ingest" else codec_of(p.get("compression"))
        mine = "encode" if p["operation"] == "put" else "decode"
        for verb in ("encode", "decode") if codec else ():
            # Another host's cores cannot be measured from here.
            if verb == mine or not away:
                wanted.append(Probe("codec", end="client", name=f"{codec}-{verb}", threads=1, **of))
    return list(dict.fromkeys(wanted))


def _ways(cell: Cell, servers: int) -> list[Probe]:
    """Raw TCP over all ways of a cell at once, and over each alone where there are several but few."""
    p, url, streams = cell.parameters, str(cell.parameters["target"]), int(cell.parameters["streams"])
    # Databases and stores of time series have no port for plain bytes; what a plugin or a driver goes over,
    # nobody knows; shared memory is no socket, and copies in memory are probed anyway.
    if p["operation"] not in ("get", "put") or is_plugin(url) or is_driver(url) or is_shared(url):
        return []
    if scheme_of(url) in PIPES:
        threads, direction = min(int(p["threads"]), streams), str(p["operation"])
        return [
            Probe("pipe", end="client", threads=threads, pin=pinned(p), direction=direction, streams=streams)
        ]
    placed = p.get("on") != "spark" and p.get("loaders") is not None
    loaders = int(p.get("loaders") or 1) if placed else 1

    def probe(name: str | None, count: int, **more: Any) -> Probe:
        return Probe(
            "unix" if is_unix(url) else "tcp",
            place=str(p["place"]),
            name=name,
            threads=min(int(p.get("threads") or count), count),
            pin=pinned(p),
            direction=str(p["operation"]),
            streams=count,
            link=p.get("link"),
            backplane=p.get("backplane"),
            cross=p.get("cross"),
            url=url,
            cell=cell,
            **more,
        )

    all_at_once = loaders_probe_name(loaders) if placed else None
    found = [probe(all_at_once, streams, loader=all_at_once)]
    # The trial refuses fewer streams than loaders.
    shares = [(n + 1, share) for n, share in enumerate(divide(streams, min(loaders, streams)))]
    if 1 < loaders <= _LINKS:
        found += [
            probe(link_probe_name(n, None), share.count, loader=link_probe_name(n, None), first=share.first)
            for n, share in shares
        ]
    # All connections over loopback share one path.
    links = Counter(
        (n if placed else None, stream % servers + 1)
        for n, share in (shares if servers > 1 and foreign(url) else ())
        for stream in range(share.first, share.first + share.count)
    )
    if loaders < len(links) <= _LINKS:
        found += [
            probe(link_probe_name(n, server), count, loader=link_probe_name(n, None) or None, server=server)
            for (n, server), count in links.items()
        ]
    return found


def _storage(url: str, usual: Path) -> Path:
    """The directory that a target on this machine stores in, as far as it is known."""
    if is_local(url):
        return Path(tempfile.gettempdir()).resolve()
    return (Path(url.partition("://")[2]).parent if in_process(url) else usual).resolve()


def seconds(wanted: Iterable[Probe]) -> float:
    """Approximate duration of probing once, before the trials."""
    return sum(map(cost, wanted)) * REPEATS


def cost(probe: Probe) -> float:
    """Approximate seconds of one repeat."""
    return max(SECONDS[probe.kind], least(probe)) + _MAKING_READY.get(probe.kind, 0.0)


def least(probe: Probe) -> float:
    """Seconds that one repeat takes at the least: over a link, until TCP has found what it carries."""
    if probe.link is None:
        return 0.0
    trip = links.parse(probe.link).round_trip_ns / 1e9
    return min(_LINK_SECONDS + _LINK_TRIPS * trip, _MOST_LINK_SECONDS)


def _cpus(probe: Probe) -> list[int] | None:
    return [int(cpu) for cpu in probe.pin.split(",")] if probe.pin else None


def _messages(cell: Cell) -> dict[str, Any]:
    """The empty target's options for the messages of a cell that ingests."""
    options = {name: cell.options[name] for name in ("format", "digits") if name in cell.options}
    return {"dialect": scheme_of(str(cell.parameters["target"])), **options}


class Prober:
    """Executes probes: fills in addresses and data, and turns answers into lines.

    `stand_in`: for a foreign server on this machine any of ours shows the loopback's limit.
    """

    def __init__(
        self,
        executor: Executor,
        endpoints: Endpoints | None,
        stack: contextlib.ExitStack,
        stand_in: bool = True,
    ) -> None:
        self._executor, self._endpoints, self._stack = executor, endpoints, stack
        self._servers: dict[str, str] = {}
        self._stand_in = stand_in

    def line(
        self,
        probe: Probe,
        repeat: int,
        control: TrialControl,
        length: float | None = None,
        number: int | None = None,
    ) -> dict[str, Any]:
        """One repeat as a line of ceilings.jsonl, whatever becomes of it. `number`: of its round, if any."""
        duration = int(max(length or SECONDS[probe.kind], least(probe)) * 1e9)
        try:
            answer = self._answer(probe, duration, control)
        except Exception as error:  # the run is worth more than its ceiling; the reason is told
            answer = {"outcome": "failed", "error": str(error) or type(error).__name__}
        own = ("batches", "address", "encoded_bytes")
        more: dict[str, Any] = {name: answer[name] for name in own if name in answer}
        return {
            "format": FORMAT_VERSION,
            **dict(zip(IDENTITY, probe.key, strict=True)),
            "bytes": answer.get("bytes") or 0,
            **more,
            "interval_ns": answer.get("interval_ns") or 0,
            "repeat": repeat,
            "round": number,
            "outcome": answer.get("outcome"),
            "error": answer.get("error"),
            "measured_unix_ns": answer.get("measured_unix_ns") or time.time_ns(),
            "cached": False,
        }

    def _answer(self, probe: Probe, duration: int, control: TrialControl) -> dict[str, Any]:
        executor = self._executor
        if probe.kind in SOCKETS:
            assert probe.cell is not None
            ours = is_ours(probe.url) or (self._stand_in and is_loopback(probe.url))
            options = {} if ours else dict(probe.cell.options)
            target = self._server(probe.url)
            one = {}
            if probe.server is not None:
                hosts = each_host(target)
                # A model has no addresses.
                target = hosts[(probe.server - 1) % len(hosts)]
                one = {"address": place_of(target)}
            spec: dict[str, Any] = {
                "target": target,
                # Another host may want a token or a certificate; the run's own servers do not.
                "options": options,
                "direction": probe.direction,
                "streams": probe.streams,
                "threads": probe.threads,
                "duration_ns": duration,
                "pin": _cpus(probe),
                # For whoever places it: from how many loaders, or from which one, and its first stream.
                **({"from": probe.loader, "first": probe.first} if probe.loader else {}),
                **({name: it for name in ("link", "backplane", "cross") if (it := getattr(probe, name))}),
            }
            return run_with_progress(executor.probe_tcp, spec, control) | one
        if probe.kind == "engine":
            return self._engine(probe, duration, control)
        fields = _FIELDS[probe.kind]
        spec = {
            "kind": probe.kind,
            "duration_ns": duration,
            **{name: getattr(probe, name) for name in fields},
        }
        if probe.kind == "disk":
            spec["most_bytes"] = MOST_DISK_BYTES
        elif probe.kind == "pipe":
            spec["pin"] = _cpus(probe)
        elif probe.kind == "codec":
            assert probe.cell is not None
            rows = probe.cell.parameters["rows_per_batch"]
            spec |= {"data": self._data(probe.cell), "rows_per_batch": rows}
        return run_with_progress(executor.probe, spec, control)

    def _engine(self, probe: Probe, duration: int, control: TrialControl) -> dict[str, Any]:
        assert probe.cell is not None
        p = probe.cell.parameters
        spec = build_spec(probe.cell, "engine", "empty://", self._data(probe.cell), sample_interval_ns=0)
        spec |= {"rows_per_stream": None, "duration_ns": duration, "rate": None, "pin": None}
        spec |= {"streams": probe.streams, "threads": probe.threads, "verify": probe.name}
        spec |= {"options": {}, "include_setup": False}
        if p["operation"] == "ingest":
            spec["options"] = _messages(probe.cell)
        if p["operation"] == "upsert":
            scheme = scheme_of(str(p["target"]))
            spec["options"] = {"dialect": DIALECTS[scheme]} if scheme in DIALECTS else {}
            if p["working_set"] is not None:
                # Repeated statements cost the same, and building all of them would take time.
                most = max(_MOST_ENGINE_ROWS, 16 * p["rows_per_batch"])
                spec["data"]["working_set"] = min(p["working_set"], most)
        record = run_with_progress(self._executor.run_trial, spec, control)
        return {
            "bytes": record["counts"]["payload_bytes"],
            "batches": record["counts"]["batches"],
            "interval_ns": record["times"]["interval_ns"],
            "outcome": record["outcome"],
            "error": record["error"],
            # A deterministic executor tells its own time.
            "measured_unix_ns": None if self._executor.measures else record["times"]["started_unix_ns"],
        }

    def _data(self, cell: Cell) -> dict[str, Any]:
        return records(cell) if self._endpoints is None else dict(self._endpoints.data(cell))

    def _server(self, url: str) -> str:
        """The reference server that stands for this address in a probe."""
        if not self._executor.needs_server:
            return url
        if not is_ours(url) and not (self._stand_in and is_loopback(url)):
            return filled(split_url(url)._replace(path="", query="").geturl())
        # Asked each time: one that died was started again, somewhere else.
        own = self._endpoints.local.reference_url(url) if self._endpoints is not None else None
        if own is None and url not in self._servers:
            server = SocketServer() if is_unix(url) else ReferenceServer()
            self._servers[url] = self._stack.enter_context(server).url
        return own or self._servers[url]
