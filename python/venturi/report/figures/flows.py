"""The picture of who sent how much to whom: senders to the left, receivers to the right, a band between two
as thick as what went from one to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from venturi.analysis.cells import flows as analysis
from venturi.analysis.cells import hosts as loaders
from venturi.analysis.cells.flows import Flows
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import Quantity, percent, plural
from venturi.report.figures import palette
from venturi.report.figures.figure import Figure, Panel, Series
from venturi.report.names import name_of

__all__ = ["Band", "End", "Picture", "chosen", "figure", "picture", "title"]

MOST_ENDS = 16
"""Ends a side; the smallest of more stand as one."""
ALL = 260.0
"""Height of all that was moved."""
SLOT, GAP = 46.0, 12.0
"""Least height of an end with its words, and between the bars of two ends."""
BAR = 3.0
"""Width of an end's bar, of 100."""


@dataclass(frozen=True)
class End:
    """A sender or a receiver: its bar from `top` to `bottom`, in the picture's units."""

    name: str
    more: str
    """Its address, where the name is not one."""
    amount: str
    top: float
    bottom: float
    colour: str


@dataclass(frozen=True)
class Band:
    """From a sender's bar to a receiver's."""

    left: tuple[float, float]
    right: tuple[float, float]
    colour: str
    words: str


@dataclass(frozen=True)
class Picture:
    """All of it; x goes from 0 to 100, y from 0 to `height` downwards."""

    senders: tuple[End, ...]
    receivers: tuple[End, ...]
    bands: tuple[Band, ...]
    height: float
    words: str
    """The picture for those who do not see it."""


def chosen(results: Results) -> list[Cell]:
    """Of each operation and place the fastest cell with several ends on a side."""
    out = []
    for members in by_operation(results.cells).values():
        places: dict[object, list[Cell]] = {}
        for cell in members:
            if analysis.flows(cell) is not None:
                places.setdefault(cell.parameters.get("place"), []).append(cell)
        out += [top for same in places.values() if (top := best(same)) is not None]
    return out


def picture(cell: Cell) -> Picture | None:
    """None where one process spoke to one server."""
    found = analysis.flows(cell)
    if found is None or not found.total:
        return None
    found = _fewer(found)
    addresses = {host.name: host.address or "" for host in loaders.hosts(cell)}
    to_clients = cell.operation == "get"
    clients = found.receivers if to_clients else found.senders
    colours = {name: palette.series_colour(i) for i, name in enumerate(clients)}
    heights = [_height(found, names) for names in (found.senders, found.receivers)]
    height = max(heights)
    sides = [
        _side(found, names, of, (height - own) / 2, colours, addresses)
        for names, of, own in (
            (found.senders, found.sent, heights[0]),
            (found.receivers, found.received, heights[1]),
        )
    ]
    return Picture(
        tuple(sides[0].values()),
        tuple(sides[1].values()),
        _bands(found, sides[0], sides[1], colours, to_clients),
        height,
        "; ".join(_words(found, flow) for flow in found.flows),
    )


def _fewer(found: Flows) -> Flows:
    """With the smallest ends of a side taken together, where there are too many to be told apart."""

    def kept(names: tuple[str, ...], amount: dict[str, float]) -> dict[str, str]:
        if len(names) <= MOST_ENDS:
            return {name: name for name in names}
        largest = set(sorted(names, key=lambda name: -amount[name])[: MOST_ENDS - 1])
        rest = f"{len(names) - len(largest)} others"
        return {name: name if name in largest else rest for name in names}

    senders = kept(found.senders, {name: found.sent(name) for name in found.senders})
    receivers = kept(found.receivers, {name: found.received(name) for name in found.receivers})
    summed: dict[tuple[str, str], float] = {}
    for flow in found.flows:
        key = (senders[flow.sender], receivers[flow.receiver])
        summed[key] = summed.get(key, 0.0) + flow.payload_bytes
    return Flows(
        tuple(dict.fromkeys(senders.values())),
        tuple(dict.fromkeys(receivers.values())),
        tuple(analysis.Flow(one, other, moved) for (one, other), moved in summed.items()),
        found.by_server,
    )


def _slot(amount: float, total: float) -> float:
    return max(SLOT, ALL * amount / total + GAP)


def _height(found: Flows, names: tuple[str, ...]) -> float:
    amount = found.sent if names is found.senders else found.received
    return sum(_slot(amount(name), found.total) for name in names)


def _side(
    found: Flows,
    names: Sequence[str],
    amount: Callable[[str], float],
    top: float,
    colours: Mapping[str, str],
    addresses: Mapping[str, str],
) -> dict[str, End]:
    ends: dict[str, End] = {}
    for name in names:
        moved = amount(name)
        slot, bar = _slot(moved, found.total), ALL * moved / found.total
        begin = top + (slot - bar) / 2
        told = f"{Quantity(moved, unit='B')}, {percent(moved / found.total)}"
        ends[name] = End(
            labels.plain(name, 60),
            labels.plain(addresses.get(name, ""), 46),
            told,
            begin,
            begin + bar,
            colours.get(name, "$c7"),
        )
        top += slot
    return ends


def _bands(
    found: Flows, left: dict[str, End], right: dict[str, End], colours: dict[str, str], to_clients: bool
) -> tuple[Band, ...]:
    """In the order of the ends on either side, so that no two cross without need."""
    used = {
        (side, n): end.top for side, ends in (("left", left), ("right", right)) for n, end in ends.items()
    }
    spans: dict[tuple[str, str], list[tuple[float, float]]] = {}
    order = {name: i for i, name in enumerate((*found.senders, *found.receivers))}
    for side, at in (("left", 1), ("right", 0)):
        for flow in sorted(found.flows, key=lambda f: order[(f.sender, f.receiver)[at]]):
            name = flow.sender if side == "left" else flow.receiver
            begin = used[side, name]
            used[side, name] = begin + ALL * flow.payload_bytes / found.total
            spans.setdefault((flow.sender, flow.receiver), []).append((begin, used[side, name]))
    return tuple(
        Band(
            spans[flow.sender, flow.receiver][0],
            spans[flow.sender, flow.receiver][1],
            colours[flow.receiver if to_clients else flow.sender],
            _words(found, flow),
        )
        for flow in found.flows
    )


def _words(found: Flows, flow: analysis.Flow) -> str:
    share = percent(flow.payload_bytes / found.total, 1)
    return labels.plain(
        f"{flow.sender} to {flow.receiver}: {Quantity(flow.payload_bytes, unit='B')}, {share}"
    )


def title(results: Results, cell: Cell) -> str:
    """`get, remote, 8 streams: 2.56 GB from 2 servers to 4 loaders`."""
    found = analysis.flows(cell)
    assert found is not None
    server, client = ("senders", "receivers") if cell.operation == "get" else ("receivers", "senders")
    servers, clients = len(getattr(found, server)), len(getattr(found, client))
    # Servers that cannot be told apart stand as one, and are counted by their addresses.
    servers = servers if found.by_server else getattr(found, server)[0].count(",") + 1
    here = getattr(found, client) == (analysis.HERE,)
    ends = {server: plural(servers, "server"), client: analysis.HERE if here else plural(clients, "loader")}
    told = f"{Quantity(found.total, unit='B')} from {ends['senders']} to {ends['receivers']}"
    return f"{name_of(results, cell)}: {told}"


CAPTION = (
    "Payload of one trial, mean over the good ones; a band is as thick as what went that way, and has the "
    "colour of its loader."
)
IN_TURN = " Stream s speaks to server s mod {}."
AS_ONE = " Which server had which part is not known here: the servers told the client whom to ask."


def caption(cell: Cell) -> str:
    """How to read it."""
    found = analysis.flows(cell)
    if found is None:
        return CAPTION
    servers = len(found.senders if cell.operation == "get" else found.receivers)
    return CAPTION + (AS_ONE if not found.by_server else IN_TURN.format(servers) if servers > 1 else "")


def figure(results: Results, cell: Cell | None = None) -> Figure | None:
    """The picture of a cell, by default of the fastest one that has several ends on a side.

    The page draws `picture`; a file has the same as bars.
    """
    cells = [cell] if cell is not None else chosen(results)[:1]
    drawn = picture(cells[0]) if cells else None
    if drawn is None:
        return None
    found = analysis.flows(cells[0])
    assert found is not None
    bars = [
        Series(
            labels.plain(receiver),
            [100 * flow.payload_bytes / found.total for flow in own],
            [labels.plain(flow.sender) for flow in own],
            palette.series_colour(i),
            "bar",
        )
        for i, receiver in enumerate(found.receivers)
        for own in ([flow for flow in found.flows if flow.receiver == receiver],)
    ]
    return Figure(
        "flows",
        title(results, cells[0]),
        caption(cells[0]),
        "share of the payload, %",
        "",
        [Panel("who sent how much to whom", bars)],
    )
