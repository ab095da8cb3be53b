"""What each loader and each place did: rates of hosts, local against remote, efficiency over hosts, flows.

Who sent how much to whom: payload between each loader and each server, from the streams of a cell.

Of several servers in one URL stream s speaks to server s % n: that is what clients of Venturi's do, so it is
known without being recorded. Where servers tell the client whom to ask (endpoints of a Flight server that is
not ours, the nodes of Cassandra that have a row) it is not, and all servers are taken as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from venturi.analysis.cells.figures import quotient, total_ns
from venturi.analysis.cells.summary import Cell, by_operation, by_setting, varying
from venturi.common.links import LINK_SETTINGS
from venturi.common.units import Quantity, percent
from venturi.engine.record import Loader, Trial


@dataclass(frozen=True)
class Host:
    """One loader."""

    name: str
    address: str | None
    node: str | None
    lead: bool
    first: int
    streams: int
    rows: float
    payload_bytes: float
    rate: float
    """Payload bytes, or of upserts rows, of ingests points, per second of its own interval."""
    share: float
    """Its share of what all loaders moved."""
    late_ns: float
    """How much later than agreed its last stream began, by its own clock."""
    offset_ns: float
    """Its clock minus the driver's."""
    uncertainty_ns: float
    """The largest error of this offset."""
    cores: float | None
    """CPU-seconds a second of its process."""
    busy: float | None
    """Share of its host's CPUs."""


def has_several_hosts(cell: Cell) -> bool:
    """Whether more than one loader ran it."""
    return any(len(record.hosts) > 1 for record in cell.records)


def hosts(cell: Cell) -> list[Host]:
    """In their order; empty where one process ran all streams."""
    what = counted(cell)
    found: dict[str, list[tuple[Loader, float]]] = {}
    for record in cell.records:
        listed = record.hosts
        total = sum(host[what] for host in listed)
        for host in listed:
            found.setdefault(host.host or "", []).append((host, host[what] / total if total else 0.0))
    return [_host(name, trials, what) for name, trials in found.items()]


def rates(cell: Cell) -> list[list[float]]:
    """Of each good trial every loader's rate, of those that took time."""
    what = counted(cell)
    return [
        [rate for host in record.hosts if (rate := quotient(host[what], host.interval_ns, 1e9)) is not None]
        for record in cell.records
    ]


def counted(cell: Cell) -> str:
    """The count by which its hosts are judged."""
    return "rows" if cell.in_rows else "payload_bytes"


def _host(name: str, trials: Sequence[tuple[Loader, float]], what: str) -> Host:
    listed = [host for host, _ in trials]
    first = listed[-1]
    cores = [used for host in listed if (used := quotient(total_ns(host.cpu), host.interval_ns)) is not None]
    busy = [b for host in listed if (b := host.resources.host.busy_share) is not None]
    return Host(
        name,
        first.address,
        first.node,
        bool(first.lead),
        *(first.streams or (0, 0)),
        median(host.rows or 0 for host in listed),
        median(host.payload_bytes or 0 for host in listed),
        median(quotient(host[what], host.interval_ns, 1e9) or 0.0 for host in listed),
        median(share for _, share in trials),
        median(host.start_skew_ns or 0 for host in listed),
        median(host.clock.offset_ns or 0.0 for host in listed),
        median(host.clock.uncertainty_ns or 0.0 for host in listed),
        median(cores) if cores else None,
        median(busy) if busy else None,
    )


def evenness(found: Sequence[Host]) -> str:
    """`the slowest 94 % of the fastest`; empty of one host, or where nothing was moved."""
    speeds = [host.rate for host in found]
    if len(found) < 2 or not max(speeds):
        return ""
    return f"the slowest {percent(min(speeds) / max(speeds))} of the fastest"


LOCAL, REMOTE = "local", "remote"
_SIZES = ("rows_per_stream", "bytes_per_stream")
_OF_THE_PLACE = frozenset({"place", "target"})


@dataclass(frozen=True)
class Pair:
    """The same cell in both places."""

    local: Cell
    remote: Cell

    @property
    def ratio(self) -> Quantity:
        """Remote over local (fraction), with the interval that both allow at their worst."""
        return ratio_of(self.remote.main, self.local.main)

    def cost(self, end: str) -> Quantity:
        """CPU time of what was moved, remote over local (fraction): above 1 the path costs CPU."""
        # per_cpu is what a CPU-second moves, so the quotient is inverted.
        return ratio_of(self.local.per_cpu[end], self.remote.per_cpu[end])


@dataclass(frozen=True)
class Row:
    """Both places over sizes, all else equal."""

    operation: str
    where: dict[str, Any]
    pairs: tuple[Pair, ...]
    """One a size, the smallest first."""

    @property
    def largest(self) -> Pair:
        """At the largest size, on which start-up weighs least."""
        return self.pairs[-1]

    @property
    def sizes(self) -> tuple[float, float, float] | None:
        """Ratio over all sizes: median, least, most. None where there is one size."""
        ratios = [r.value for pair in self.pairs if (r := pair.ratio).value is not None]
        return (median(ratios), min(ratios), max(ratios)) if len(ratios) > 1 else None


def place_rows(cells: Sequence[Cell]) -> list[Row]:
    """In the cells' order; empty unless the run has a place `local` and a place `remote`."""
    found = []
    for operation, members in by_operation(cells).items():
        both = [c for c in members if c.parameters.get("place") in (LOCAL, REMOTE) and c.main.measured]
        names = [n for n in varying(both) if n not in _OF_THE_PLACE]
        near = {_values(c, names): c for c in both if c.parameters["place"] == LOCAL}
        far = [c for c in both if c.parameters["place"] == REMOTE]
        # A link may lead to the remote one alone.
        links = [n for n in LINK_SETTINGS if len({c.parameters.get(n) for c in far}) < 2]
        fixed = [n for n in names if n not in (*_SIZES, *links)]
        groups: dict[tuple[str, ...], list[Pair]] = {}
        for cell in far:
            local = near.get(_values(cell, names)) or near.get(_values(cell, names, without=LINK_SETTINGS))
            if local is not None:
                groups.setdefault(_values(cell, fixed), []).append(Pair(local, cell))
        for pairs in groups.values():
            pairs.sort(key=lambda pair: pair.local.payload_bytes or 0.0)
            where = {n: pairs[0].remote.parameters.get(n) for n in fixed}
            found.append(Row(operation, where, tuple(pairs)))
    return found


def _values(cell: Cell, names: Sequence[str], without: Sequence[str] = ()) -> tuple[str, ...]:
    """Of these parameters, as if the cell had none of those."""
    return tuple(repr(None if n in without else cell.parameters.get(n)) for n in names)


def ratio_of(numerator: Quantity, denominator: Quantity) -> Quantity:
    """The quotient of two medians (fraction). Its margin divides the ends crosswise, as `ratio_interval`
    does; none where one of them has none."""
    if numerator.value is None or not denominator.value:
        return Quantity(None, unit="fraction")
    low = high = None
    if numerator.low is not None and numerator.high is not None and denominator.low and denominator.high:
        low, high = numerator.low / denominator.high, numerator.high / denominator.low
    return Quantity(numerator.value / denominator.value, low, high, "fraction")


@dataclass(frozen=True)
class Step:
    """The figures of one number of hosts."""

    hosts: int
    cell: Cell
    efficiency: Quantity
    """Of the rate per host, as a fraction of that with the fewest hosts."""
    per_core: Quantity
    """The same of what a CPU-second of the client's hosts moves; unknown where it was not accounted."""
    slowest: float | None
    """The slowest loader's rate over the fastest's, median over the trials."""
    machines: int
    """On how many machines the processes really ran: loaders may share one."""

    @property
    def each(self) -> Quantity:
        """Rate per host."""
        main = self.cell.main
        value, low, high = (None if v is None else v / self.hosts for v in (main.value, main.low, main.high))
        return Quantity(value, low, high, main.unit)


@dataclass(frozen=True)
class Scaled:
    """Cells that differ in the number of hosts only."""

    operation: str
    where: dict[str, Any]
    steps: tuple[Step, ...]
    """The fewest hosts first; two or more."""


def axis_of(cell: Cell) -> str | None:
    """The parameter that counts this cell's hosts; None where one process did it all.

    `hosts` is what imported runs say; of a trial of Venturi's own it is the hosts whose metrics are made up.
    """
    placed = cell.parameters.get("on") is not None or cell.parameters.get("link") is not None
    if placed and _number_of(cell, "loaders"):
        return "loaders"
    if _number_of(cell, "hosts") and any(record.imported.source for record in cell.records):
        return "hosts"
    return None


def _number_of(cell: Cell, axis: str) -> int:
    found = cell.parameters.get(axis)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def scaled(cells: Sequence[Cell]) -> list[Scaled]:
    """Every setting that was measured with two numbers of hosts or more, in the cells' order."""
    found = []
    for operation, members in by_operation(cells).items():
        known = [c for c in members if c.main.measured and axis_of(c) is not None]
        axes = {axis_of(c) for c in known}
        for axis in ("hosts", "loaders"):
            if axis not in axes:
                continue
            own = [c for c in known if axis_of(c) == axis]
            # Streams that grow with the hosts are no further condition: `varying` leaves followers out.
            names = [n for n in varying(own) if n != axis]
            for group in by_setting(own, names):
                group.sort(key=lambda c: _number_of(c, axis))
                if len({_number_of(c, axis) for c in group}) > 1:
                    where = {n: group[0].parameters.get(n) for n in names}
                    found.append(Scaled(operation, where, _steps(group, axis)))
    return found


def _steps(cells: Sequence[Cell], axis: str) -> tuple[Step, ...]:
    first = cells[0]
    fewest = _number_of(first, axis)
    return tuple(
        Step(
            n,
            cell,
            Quantity(1.0, unit="fraction")
            if cell is first
            else _scaled_by(ratio_of(cell.main, first.main), fewest / n),
            Quantity(1.0 if cell.per_cpu["client"].measured else None, unit="fraction")
            if cell is first
            else ratio_of(cell.per_cpu["client"], first.per_cpu["client"]),
            _slowest(cell),
            len({host.node or host.address or host.name for host in hosts(cell)}) or n,
        )
        for cell in cells
        for n in (_number_of(cell, axis),)
    )


def _scaled_by(found: Quantity, factor: float) -> Quantity:
    value, low, high = (None if v is None else v * factor for v in (found.value, found.low, found.high))
    return Quantity(value, low, high, found.unit)


def _slowest(cell: Cell) -> float | None:
    found = [share for each in rates(cell) if len(each) > 1 and (share := min(each) / max(each))]
    return median(found) if found else None


HERE = "this process"


@dataclass(frozen=True)
class Flow:
    """Payload that went one way between two ends, mean over the good trials."""

    sender: str
    receiver: str
    payload_bytes: float


@dataclass(frozen=True)
class Flows:
    """All of one cell."""

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    flows: tuple[Flow, ...]
    by_server: bool
    """Whether each server's part is known; else they stand as one."""

    @property
    def total(self) -> float:
        return sum(flow.payload_bytes for flow in self.flows)

    def sent(self, name: str) -> float:
        """All that this end sent."""
        return sum(flow.payload_bytes for flow in self.flows if flow.sender == name)

    def received(self, name: str) -> float:
        """All that this end received."""
        return sum(flow.payload_bytes for flow in self.flows if flow.receiver == name)


def payload_flows(cell: Cell) -> Flows | None:
    """None where one process spoke to one server, or where streams were not recorded."""
    # Most runs have one of each; this saves a large one from looking at every stream.
    if not any(len(r.hosts) > 1 or len(server_addresses(r)) > 1 for r in cell.records):
        return None
    found: dict[tuple[str, str], float] = {}
    clients: dict[str, None] = {}
    servers: dict[str, None] = {}
    known = True
    for record in cell.records:
        names = server_addresses(record)
        told = deals_streams_in_turn(record)
        known = known and (told or len(names) == 1)
        if not told:
            names = [names[0] if len(names) == 1 else ", ".join(names)]
        servers |= dict.fromkeys(names)
        owners = _owners(record)
        clients |= dict.fromkeys(owner for _, _, owner in owners)
        for stream in record.streams:
            number, moved = stream.stream, stream.payload_bytes
            if number is None or not moved:
                continue
            owner = next((name for first, count, name in owners if first <= number < first + count), HERE)
            clients.setdefault(owner)
            key = (owner, names[number % len(names)])
            found[key] = found.get(key, 0.0) + moved / len(cell.records)
    if not found or (len(clients) < 2 and len(servers) < 2):
        return None
    # Data flow from the server in a get, from the client in every other operation.
    if cell.operation == "get":
        listed = tuple(Flow(server, client, moved) for (client, server), moved in found.items())
        return Flows(tuple(servers), tuple(clients), listed, known)
    listed = tuple(Flow(client, server, moved) for (client, server), moved in found.items())
    return Flows(tuple(clients), tuple(servers), listed, known)


def server_addresses(record: Trial) -> list[str]:
    """Addresses of a trial's servers, in their order."""
    address = record.target.address or "the server"
    return [part for part in address.split(",") if part] or [address]


def deals_streams_in_turn(record: Trial) -> bool:
    """Whether there are n servers, and stream s is at server s % n."""
    if len(server_addresses(record)) < 2:
        return False
    scheme = str(record.parameters.get("target") or "").partition("://")[0]
    if scheme.startswith("flight"):
        perf = record.target.protocol == "perf" or record.parameters.get("operation") != "get"
        return perf or record.target.reference is True
    return scheme != "cassandra"


def _owners(record: Trial) -> list[tuple[int, int, str]]:
    """First stream, number of streams, and the loader that runs them."""
    out = []
    for host in record.hosts:
        first, count = host.streams
        out.append((first, count, host.host or ""))
    return out
