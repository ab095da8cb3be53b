"""Who sent how much to whom: a bar for each server, a part of it for each loader."""

from __future__ import annotations

from venturi.analysis import wording
from venturi.analysis.cells import hosts
from venturi.analysis.cells.hosts import Flows
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.results import Results
from venturi.common.units import Quantity, plural
from venturi.report.figures import palette
from venturi.report.figures.figure import Figure, Panel, Series
from venturi.report.names import name_of

__all__ = ["figure"]

MOST_ENDS = 16
"""Servers, and loaders; the smallest of more stand as one."""
MOST_PANELS = 4
CAPTION = (
    "Payload of one trial, mean over the good ones: a bar for each server, a part of it for what each loader "
    "had of it."
)
IN_TURN = " Stream s speaks to server s mod {}."
AS_ONE = " Which server had which part is not known here: the servers told the client whom to ask."


def figure(results: Results, cell: Cell | None = None) -> Figure | None:
    """Of a cell, by default of the fastest of each operation and place with several ends on a side."""
    chosen = [cell] if cell is not None else _chosen(results)[:MOST_PANELS]
    found = [(one, way) for one in chosen if (way := hosts.payload_flows(one)) is not None and way.total]
    if not found:
        return None
    first, flows = found[0]
    ends = _ends(first, flows)
    caption = CAPTION + (AS_ONE if not flows.by_server else "")
    if flows.by_server and len(ends[0]) > 1:
        caption += IN_TURN.format(len(ends[0]))
    return Figure(
        "flows",
        _title(results, first, flows),
        caption,
        "share of the payload, %",
        "",
        [Panel(name_of(results, one), _bars(one, way)) for one, way in found],
        columns=1,
    )


def _chosen(results: Results) -> list[Cell]:
    out = []
    for members in by_operation(results.cells).values():
        places: dict[object, list[Cell]] = {}
        for cell in members:
            if hosts.payload_flows(cell) is not None:
                places.setdefault(cell.parameters.get("place"), []).append(cell)
        out += [top for same in places.values() if (top := best(same)) is not None]
    return out


def _ends(cell: Cell, found: Flows) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Servers and loaders."""
    ends = (found.senders, found.receivers)
    return ends if cell.operation == "get" else (ends[1], ends[0])


def _bars(cell: Cell, found: Flows) -> list[Series]:
    servers, loaders = _ends(cell, found)
    moved: dict[tuple[str, str], float] = {}
    for flow in found.flows:
        server, loader = (
            (flow.sender, flow.receiver) if cell.operation == "get" else (flow.receiver, flow.sender)
        )
        moved[server, loader] = flow.payload_bytes
    rows = _fewer(servers, {s: sum(v for (one, _), v in moved.items() if one == s) for s in servers})
    parts = _fewer(loaders, {x: sum(v for (_, one), v in moved.items() if one == x) for x in loaders})
    shares: dict[str, dict[str, float]] = {}
    for (server, loader), payload in moved.items():
        share = shares.setdefault(parts[loader], dict.fromkeys(rows.values(), 0.0))
        share[rows[server]] += 100 * payload / found.total
    return [
        Series(
            wording.plain(loader), list(share.values()), [wording.plain(s, 60) for s in share],
            palette.series_colour(i), "bar",
        )
        for i, (loader, share) in enumerate(shares.items())
    ]  # fmt: skip


def _fewer(names: tuple[str, ...], amount: dict[str, float]) -> dict[str, str]:
    """The name that each stands under: the smallest of too many have one together."""
    if len(names) <= MOST_ENDS:
        return {name: name for name in names}
    largest = set(sorted(names, key=lambda name: -amount[name])[: MOST_ENDS - 1])
    rest = f"{len(names) - len(largest)} others"
    return {name: name if name in largest else rest for name in names}


def _title(results: Results, cell: Cell, found: Flows) -> str:
    """`get, remote, 8 streams: 2.56 GB from 2 servers to 4 loaders`."""
    servers, loaders = _ends(cell, found)
    # Servers that cannot be told apart stand as one, and are counted by their addresses.
    count = len(servers) if found.by_server else servers[0].count(",") + 1
    here = loaders == (hosts.HERE,)
    ends = [plural(count, "server"), hosts.HERE if here else plural(len(loaders), "loader")]
    sender, receiver = ends if cell.operation == "get" else reversed(ends)
    return f"{name_of(results, cell)}: {Quantity(found.total, unit='B')} from {sender} to {receiver}"
