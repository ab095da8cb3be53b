"""What a cell's trials report of its two ends and of the path between them, as a few named figures.

A trial's record is flattened to numbers, the median over the repeats is taken number by number, and
`CellEvidence` gives them names. Imported results and foreign servers report only part: None always means "not
measured", never zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from statistics import median
from typing import Any

from venturi.analysis.cells.figures import ENDS, cpu_ns, middle_shares, quotient, total_ns, wire_bytes
from venturi.analysis.cells.probes import congestion_control as control_of
from venturi.analysis.cells.probes import cross_traffic_share, shared_rate
from venturi.analysis.cells.summary import Cell
from venturi.analysis.models.batch_cost import Packing
from venturi.common import links
from venturi.common.links import WAYS, Link
from venturi.engine.record import EndResources, HostLoad, Trial
from venturi.targets.system import PIPES, scheme_of

Facts = dict[str, float]

# A stage that waits begins like this (docs/format.md); all others are work.
WAITS = ("await_", "wait")
# What the client does for the sake of measuring, or for the handicap that was asked of it. Everything that
# any Flight client would have to do (receive, send, a codec that the scenario asks for) is not its own.
OWN = ("generate", "verify")
CODEC = ("encode", "unpack", "decode")
POOLS = {"client": ("decoders",), "server": ("encoders",)}
"""Pools that an end may have (docs/format.md)."""


def waits(stage: str) -> bool:
    """Whether a stage waits for something, by its name."""
    return stage.startswith(WAITS)


@dataclass(frozen=True)
class Pool:
    """Threads of one end that do one thing, as many as were asked for."""

    name: str
    threads: float
    busy: float
    """Share of their time that they work."""


@dataclass(frozen=True)
class End:
    """One end. Shares are of worker time (stages) or of the interval; rates in B/s; None = not measured."""

    name: str
    stages: Mapping[str, float] = field(default_factory=dict)
    """Each stage's share of worker time."""
    workers: float | None = None
    threads: float | None = None
    """Threads that serve these workers, if they are fewer; else as many."""
    cpu: float | None = None
    """CPU seconds a second of its process: cores."""
    cores: float | None = None
    """Cores that it may use: of the host, its affinity, or those that it is pinned to."""
    busy: float | None = None
    """Busy share of these cores, of the time that was not stolen."""
    busiest: float | None = None
    steal: float | None = None
    softirq: float | None = None
    run_delay: float | None = None
    """Of the time that its threads were able to run: the share in which no CPU was free."""
    quota: float | None = None
    throttled: float | None = None
    """Share of the interval that a control group held it back; summed over CPUs, so it may pass 1."""
    psi_io: float | None = None
    disk_busy: float | None = None
    disk_rate: float | None = None
    rx: float | None = None
    tx: float | None = None
    speed: float | None = None
    rtt: float | None = None
    min_rtt: float | None = None
    retransmits: float | None = None
    receive_window_limited: float | None = None
    send_buffer_limited: float | None = None
    send_buffer: float | None = None
    busiest_thread: tuple[str, float] | None = None
    thread_wanted: float | None = None
    """Cores that one of its threads used or was ready to use, of the thread of which that is most."""
    thread_delay: float | None = None
    """Share of the interval in which that one waited for a CPU."""
    pools: Mapping[str, Pool] = field(default_factory=dict)
    """Its pools by name; their threads are among its workers, their stages among its stages."""

    @cached_property
    def work(self) -> dict[str, float]:
        """The stages at work, the largest first."""
        found = {n: s for n, s in self.stages.items() if not waits(n) and s > 0}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @cached_property
    def waiting(self) -> dict[str, float]:
        """The stages that wait, the largest first."""
        found = {n: s for n, s in self.stages.items() if waits(n) and s > 0}
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @cached_property
    def of_threads(self) -> dict[str, float]:
        """`work` as shares of the time of its threads, of which several streams may share one."""
        scale = max(1.0, (self.workers or 1.0) / (self.threads or self.workers or 1.0))
        return {stage: share * scale for stage, share in self.work.items()}

    @cached_property
    def occupancy(self) -> float | None:
        """Share of time that its threads work."""
        return min(1.0, sum(self.of_threads.values())) if self.stages else None

    def share(self, *stages: str) -> float:
        """The share of worker time of these stages together."""
        return sum(self.stages.get(n, 0.0) for n in stages)

    @property
    def first(self) -> str | None:
        """The stage at work that takes most; None if stages are not known."""
        return next(iter(self.work), None)


@dataclass(frozen=True)
class OverLink:
    """Rates are B/s of TCP's payload in full packets, of the way that the data take. Of several loaders they
    are of all their links together."""

    link: Link
    loaders: int
    """Links that share a backplane; 1 if there is one link, or all loaders share it."""
    bits: float | None
    """What the link carries in bits/s, as measured, with all that Ethernet adds; None if no rate was asked
    for."""
    round_trip: float
    """ns, as measured."""
    loss: float
    """The part of packets that is lost, as asked for: what was measured of it has the error of a few."""
    cross: float
    """The part of the rate that others take."""
    moved: float | None
    """What the cell moved, with all that its protocol adds; its payload if no more was counted."""
    control: str | None
    """TCP's congestion control; None if it is not known."""

    @property
    def rate(self) -> float | None:
        """What the link carries."""
        return None if self.bits is None else self.bits / 8 * self.link.payload_part

    @property
    def free(self) -> float | None:
        """What others leave of the rate."""
        return None if self.rate is None else self.rate * (1 - self.cross)

    @property
    def share(self) -> float | None:
        """Of what others leave of the rate, what was moved."""
        return quotient(self.moved, self.free)

    @property
    def holds(self) -> float | None:
        """Bytes in flight that keep it full: rate x round trip, the bandwidth-delay product."""
        return None if self.free is None else self.free * self.round_trip / 1e9


@dataclass(frozen=True)
class CellEvidence:
    """Both ends of a cell and what lies between them."""

    cell: Cell
    trials: int
    client: End
    server: End
    rate: float | None
    """Payload, B/s."""
    rows: float | None
    """Rows a second."""
    service: float | None
    """Mean service time of a batch, ns."""
    wire_rate: float | None
    same_machine: bool | None
    loopback: bool | None
    round_trip: float | None
    """ns there and back, of the connection itself if it was asked, else of TCP's least."""
    instrument: float | None
    offered: float | None
    """Batches/s that the schedule asked for; None for a closed loop."""
    kept: float | None
    """Batches/s that were moved, over those offered."""
    late: float | None
    """Share of batches that were sent late."""
    start: float | None
    """Share of the interval that had gone when the last stream got its first batch."""
    helpers: Mapping[str, End] = field(default_factory=dict)
    """What Venturi runs beside both ends on the client's host, by role."""
    over: OverLink | None = None
    """The link that was made for it, if any."""
    packings: Sequence[Packing] = ()
    """What codecs do to the data of the run, as far as it was measured."""
    facts: Facts = field(default_factory=dict, repr=False)

    @property
    def _puts(self) -> bool:
        return self.cell.operation == "put" or self.cell.in_rows

    @property
    def sender(self) -> End:
        return self.client if self._puts else self.server

    @property
    def receiver(self) -> End:
        return self.server if self._puts else self.client

    def other(self, end: End) -> End:
        return self.server if end is self.client else self.client

    @property
    def streams(self) -> float:
        return float(self.cell.parameters.get("streams") or 1)

    @property
    def servers(self) -> int:
        """How many servers there were, one of which was watched; 1 if both ends share a host."""
        return 1 if self.same_machine else int(self.facts.get("of_servers", 1))

    @property
    def busy(self) -> float | None:
        """Of the busier host."""
        known = [e.busy for e in (self.client, self.server) if e.busy is not None]
        return max(known, default=None)

    def of(self, limit: str) -> float | None:
        """Share of one of the cell's limits, by its name; None of one that it has passed, which proves
        nothing."""
        if limit in self.cell.passed:
            return None
        return self.facts.get(f"share.{limit}")


# The resources that are read, each with the field of an end that it is: these few of a trial's sixty numbers.
_PARTS = {
    "host": {"cores": "host_cores", "busy_share": "host_busy", "steal_share": "steal",
             "softirq_share": "softirq", "psi_io_share": "psi_io"},
    "cgroup": {"quota_cores": "quota"},
    "network": {"loopback": "loopback", "speed_bits_per_second": "speed_bits"},
    "disk": {"busy_share": "disk_busy"},
    "sockets": {"rtt_ns": "rtt", "min_rtt_ns": "min_rtt", "retransmits": "retransmits",
                "receive_window_limited_share": "receive_window_limited",
                "send_buffer_limited_share": "send_buffer_limited", "send_buffer_bytes": "send_buffer"},
}  # fmt: skip
_FLAT = {
    end: [(part, [(name, f"{end}.{to}") for name, to in names.items()]) for part, names in _PARTS.items()]
    for end in ENDS
}
_SCALARS = tuple(f.name for f in fields(End) if f.default is None)
_OF_CELL = ("rate", "rows", "service", "wire_rate", "instrument", "offered", "kept", "late", "start")


def facts(record: Trial, usable: Mapping[str, int]) -> Facts:
    """A trial's numbers under flat names: `client.steal`, `server.stage.send`, `rate`, ..."""
    found: Facts = {}
    counts, target, resources = record.counts, record.target, record.resources
    interval = record.times.interval_ns

    def put(name: str, value: float | None) -> None:
        if value is not None:
            found[name] = float(value)

    put("rate", quotient(counts.payload_bytes, interval, 1e9))
    put("wire_rate", quotient(wire_bytes(record), interval, 1e9))
    put("rows", quotient(counts.rows, interval, 1e9))
    put("service", record.latency.service.mean or None)
    put("instrument", record.instrument.share)
    if rate := record.schedule.rate:
        put("offered", rate)
        put("kept", quotient(quotient(counts.batches, interval, 1e9), rate))
        put("late", quotient(record.schedule.late, record.schedule.intended))
    firsts = [t for s in record.streams if (t := s.first_batch_ns) is not None]
    put("start", quotient(max(firsts, default=None), interval))
    put("round_trip", target.round_trip_ns or None)
    _link_facts(record, put)
    put("same_machine", resources.same_machine)
    put("of_servers", resources.server.of_servers)
    for end in ENDS:
        _stages(record, end, put)
        put(f"{end}.cpu", quotient(cpu_ns(record, end) or None, interval))
        _resources(record, end, usable.get(end), found, put)
    for role, helper in resources.helpers.items():
        _process(helper, f"helper.{role}", put)
    return found


def _stages(record: Trial, end: str, put: Any) -> None:
    stages = record.stages[end]
    whole = record.workers[end].time_ns or sum(stages.values())
    for name, value in stages.items():
        put(f"{end}.stage.{name}", quotient(value, whole))
    put(f"{end}.workers", record.workers[end].workers)
    pools = record.pools[end]
    for name in POOLS[end] if pools else ():
        pool = pools[name]
        put(f"{end}.pool.{name}.threads", pool.threads)
        put(f"{end}.pool.{name}.busy", quotient(pool.busy_ns, pool.time_ns))


def _resources(record: Trial, end: str, usable: int | None, facts: Facts, put: Any) -> None:
    seen: EndResources = record.resources[end]
    window, network, disk = seen.window_ns, seen.network, seen.disk
    for part, names in _FLAT[end]:
        found = seen[part]
        for name, flat in names:
            if (value := found[name]) is not None:
                facts[flat] = float(value)
    _process(seen, end, put, f"{end}.cpu" not in facts)
    put(f"{end}.throttled", quotient(seen.cgroup.throttled_ns, window))
    put(f"{end}.rx", quotient(network.rx_bytes, window, 1e9))
    put(f"{end}.tx", quotient(network.tx_bytes, window, 1e9))
    if disk.read_bytes is not None or disk.written_bytes is not None:
        put(f"{end}.disk_rate", quotient((disk.read_bytes or 0) + (disk.written_bytes or 0), window, 1e9))
    _cores(record, end, seen.host, usable, put)


def _process(seen: EndResources, name: str, put: Any, cpu: bool = True) -> None:
    """What a process did; `cpu`: its CPU time too, of one that accounts for none itself."""
    process = seen.process
    spent, delay = total_ns(process), process.run_delay_ns
    if cpu:
        put(f"{name}.cpu", quotient(spent or None, seen.window_ns))
    if delay is not None:
        put(f"{name}.run_delay", quotient(delay, (spent or 0) + delay))
    threads = [(t.cpu_share, t.delay_share) for t in process.threads if t.cpu_share is not None]
    put(f"{name}.busiest_thread", max((used for used, _ in threads), default=None))
    wanted = [(used + waited, waited) for used, waited in threads if waited is not None]
    if wanted:
        most = max(wanted)
        put(f"{name}.thread_wanted", most[0])
        put(f"{name}.thread_delay", most[1])


def _cores(record: Trial, end: str, host: HostLoad, usable: int | None, put: Any) -> None:
    """Busy share of the cores that this end may use; time that was stolen is no core's."""
    cores = host.core_busy_share
    total, busy = host.cores or len(cores) or None, host.busy_share
    pin = record.pin if end == "client" else ()
    if pin and cores and all(c < len(cores) for c in pin):
        chosen = [cores[c] for c in sorted(set(pin))]
    elif usable and total and usable < total and cores:
        # Which ones it may use is not recorded: taken to be the busiest.
        chosen = sorted(cores, reverse=True)[:usable]
    else:
        chosen = []
    if chosen:
        busy, total = sum(chosen) / len(chosen), len(chosen)
    if busy is not None:
        steal = min(0.9, host.steal_share or 0.0)
        put(f"{end}.busy", min(1.0, busy / (1.0 - steal)))
    put(f"{end}.cores", total)
    put(f"{end}.busiest", max(cores, default=None))


def medians(found: Sequence[Facts]) -> Facts:
    """The median of each number over the trials that have it; stages as a cell's figures have them."""
    if len({tuple(f) for f in found}) == 1:
        each = dict(zip(found[0], map(median, zip(*(f.values() for f in found), strict=True)), strict=True))
    else:
        names = dict.fromkeys(n for f in found for n in f)
        each = {n: median([f[n] for f in found if n in f]) for n in names}
    for end in ENDS:
        each |= middle_shares([{n: v for n, v in f.items() if n.startswith(f"{end}.stage.")} for f in found])
    return each


def seen(
    cell: Cell,
    found: Facts,
    trials: int,
    control: str | None = None,
    packings: Sequence[Packing] = (),
) -> CellEvidence:
    """The named view of a cell's facts. `control`: the host's congestion control of TCP."""
    # A single trial's share follows its rate.
    if (rate := found.get("rate")) and cell.throughput.value:
        part = rate / cell.throughput.value
        found = found | {f"share.{name}": s.value * part for name, s in cell.shares.items() if s.value}
    trips = [t for n in ("round_trip", "client.min_rtt", "client.rtt") if (t := found.get(n))]
    loopback = [f for e in ENDS if (f := found.get(f"{e}.loopback")) is not None]
    return CellEvidence(
        cell=cell,
        trials=trials,
        client=_end("client", found, cell),
        server=_end("server", found, cell),
        same_machine=_truth(found.get("same_machine")),
        loopback=_truth(loopback[0]) if loopback else _address_is_loopback(cell),
        # A request of our own also measures through a proxy; TCP's figures do not.
        round_trip=max(trips[:2]) if trips else found.get("link.round_trip"),
        helpers=_helpers(found),
        over=_over_link(cell, found, control),
        packings=packings,
        facts=found,
        **{name: found.get(name) for name in _OF_CELL},
    )


def _helpers(found: Facts) -> dict[str, End]:
    roles = dict.fromkeys(name.split(".")[1] for name in found if name.startswith("helper."))
    return {role: End(role, **_scalars(f"helper.{role}", "", found)) for role in roles}


def _scalars(end: str, thread: str, found: Facts) -> dict[str, Any]:
    """The fields of an end that are facts as they stand; with the name of its busiest thread."""
    values: dict[str, Any] = {name: found.get(f"{end}.{name}") for name in _SCALARS}
    if values["busiest_thread"] is not None:
        values["busiest_thread"] = (thread, values["busiest_thread"])
    return values


def _truth(value: float | None) -> bool | None:
    return None if value is None else value >= 0.5


def _address_is_loopback(cell: Cell) -> bool | None:
    if scheme_of(str(cell.parameters.get("target") or "")) in PIPES:
        return True
    for record in cell.records:
        address = record.target.address
        if address:
            return address.startswith(("127.", "localhost", "[::1]", "unix:", "/"))
    return None


def _end(end: str, found: Facts, cell: Cell) -> End:
    prefix = f"{end}.stage."
    workers = found.get(f"{end}.workers")
    threads = cell.parameters.get("threads") if end == "client" else None
    if end == "client" and workers is None and cell.parameters.get("streams"):
        workers = float(cell.parameters["streams"])

    speed = found.get(f"{end}.speed_bits")
    stages = {n[len(prefix) :]: v for n, v in found.items() if n.startswith(prefix)}
    pools = {
        name: Pool(name, found[f"{end}.pool.{name}.threads"], min(1.0, found[f"{end}.pool.{name}.busy"]))
        for name in POOLS[end]
        if found.get(f"{end}.pool.{name}.threads") and f"{end}.pool.{name}.busy" in found
    }
    if threads and pools:
        # Those of the streams, and those of the pools.
        threads += sum(pool.threads for pool in pools.values())
    # A thread's name is for servers that report nothing else.
    unnamed = stages or f"{end}.busiest_thread" not in found
    values = _scalars(end, "" if unnamed else _thread_name(cell, end), found)
    values |= {
        "workers": workers,
        "threads": float(threads) if threads and workers and threads < workers else workers,
        "speed": speed / 8 if speed and speed > 0 else None,
    }
    return End(end, stages=stages, pools=pools, **values)


def _thread_name(cell: Cell, end: str) -> str:
    """The thread that is busiest in most trials."""
    names: dict[str, float] = {}
    for record in cell.records:
        for thread in record.resources[end].process.threads:
            name = thread.name or "?"
            names[name] = names.get(name, 0.0) + (thread.cpu_share or 0.0)
    return max(names, key=lambda n: names[n], default="?")


def _link_facts(record: Trial, put: Any) -> None:
    """What a trial's record tells of its link, under flat names."""
    found, way = record.link, links.way(record.parameters.get("operation"))
    put("link.bits_per_second", found[f"{way}_bits_per_second"])
    put("link.round_trip", found.round_trip_ns)
    put("link.loss", quotient(found[f"{way}_lost"], found[f"{way}_packets"]))


def _over_link(cell: Cell, found: Facts, host: str | None) -> OverLink | None:
    """The link of a cell; None if none was made, or it was not measured. `host`: the congestion control
    of the client's host."""
    p, trip = cell.parameters, found.get("link.round_trip")
    link = links.read_link(p.get("link"))
    if link is None or trip is None or trip <= 0:
        return None
    way = links.way(p.get("operation"))
    one = found.get("link.bits_per_second")
    bits = shared_rate(p, way, one) if one and one > 0 and link.rate is not None else None
    return OverLink(
        link=link,
        loaders=int(p.get("loaders") or 1) if p.get("backplane") is not None else 1,
        bits=bits,
        round_trip=trip,
        loss=link.loss[WAYS.index(way)],
        cross=cross_traffic_share(p),
        moved=found.get("wire_rate", found.get("rate")),
        control=control_of(cell.records, link, host),
    )
