"""Figures of stages and of flows between hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from venturi.analysis import wording
from venturi.analysis.cells import hosts
from venturi.analysis.cells.figures import CALLS, ENDS
from venturi.analysis.cells.hosts import Flows
from venturi.analysis.cells.summary import Cell, best, varying
from venturi.analysis.results import Results, choice_note, fastest_of_places, representative
from venturi.analysis.statistics.intervals import median_interval
from venturi.analysis.verdict.types import Verdict
from venturi.common.units import Quantity, plural
from venturi.report.figures import figure
from venturi.report.figures.figure import Figure, Panel, Series, series_colour
from venturi.report.summary import name_of

MOST_BARS = 16
SENDING = ("generate", "encode", "send")
RECEIVING = ("receive", "unpack", "decode", "verify", "apply")
_SOME = ("apply", "unpack")
WAITS = {
    "await_input": "for input",
    "await_output": "for the socket",
    "await_window": "for the window",
    "await_reply": "for the reply",
    "await_schedule": "for the schedule",
    "await_thread": "for the thread",
    "wait": "not told apart",
}
"""Stages in which a worker does nothing, and for what."""


@dataclass(frozen=True)
class Part:
    """A stage and its share of the time of its end's workers."""

    stage: str
    share: float


@dataclass(frozen=True)
class Side:
    """One end. Shares of `work`, `besides` and `waiting` together are one."""

    end: str
    sends: bool
    work: tuple[Part, ...]
    """Stages on the data's way, in its order."""
    besides: tuple[Part, ...]
    """Work off that way, such as reading window updates while sending."""
    waiting: tuple[Part, ...]
    workers: float | None
    """Median number of workers whose time the shares are of; None where it was not recorded."""

    @property
    def idle(self) -> float:
        return sum(part.share for part in self.waiting)


@dataclass(frozen=True)
class Pipeline:
    """Sides in the order in which data pass them; an end that did not account for its stages is missing."""

    sides: tuple[Side, ...]
    missing: str | None
    narrowest: tuple[str, str] | None
    """End and stage that the verdict names; without any verdict the working stage with the highest share.
    None where the narrow place is no stage: a link, a window, the cores."""


def of(cell: Cell, verdict: Verdict | None = None) -> Pipeline | None:
    """The pipeline of a cell; None where neither end accounted for stages.

    Data flow from the server in a get, from the client in every other operation.
    """
    order = ("server", "client") if cell.operation == "get" else ("client", "server")
    sides = [_side(cell, end, end == order[0]) for end in order if cell.stages.get(end)]
    if not sides:
        return None
    missing = next((end for end in order if not cell.stages.get(end)), None)
    client = cell.stages.get("client", {})
    if (cell.in_rows and "apply" in client) or not client.keys().isdisjoint(CALLS):
        missing = None  # the engine, the plugin or the driver runs in the client's process
    work = [(part.share, side.end, part.stage) for side in sides for part in (*side.work, *side.besides)]
    narrowest: tuple[str, str] | None = None
    if verdict is None:
        narrowest = max(work)[1:] if work else None
    elif verdict.end and verdict.stage and verdict.stage not in WAITS:
        narrowest = (verdict.end, verdict.stage)
    return Pipeline(tuple(sides), missing, narrowest)


def _side(cell: Cell, end: str, sends: bool) -> Side:
    shares = cell.stages[end]
    way: tuple[str, ...] = SENDING if sends else RECEIVING
    if sends and "apply" in shares:
        # An engine within this process takes what a socket would.
        way = ("generate", "encode", "apply")
    for call in CALLS:
        if call in shares:
            # Code that is called takes or gives whole batches.
            way = ("generate", call) if sends else (call, "verify")
    # A stage of the way that took no time is a stage all the same; `apply` only where a target has it, and
    # `unpack` where HTTP packs.
    work = [Part(stage, shares.get(stage, 0.0)) for stage in way if stage in shares or stage not in _SOME]
    besides = [Part(s, v) for s, v in shares.items() if s not in way and s not in WAITS and v > 0]
    waiting = [Part(s, shares[s]) for s in WAITS if shares.get(s, 0.0) > 0]
    counts = [float(n) for record in cell.records if (n := record.workers[end].workers) is not None]
    workers = median_interval(counts).median if counts else None
    return Side(
        end, sends, tuple(work), tuple(sorted(besides, key=lambda p: -p.share)), tuple(waiting), workers
    )


def percent(share: float) -> str:
    """A share in few characters: `41 %`, `<1 %`."""
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


BAR = 10
_FULL, _EMPTY = "\N{FULL BLOCK}", "\N{LIGHT SHADE}"


def ascii_lines(pipeline: Pipeline, width: int = 80) -> list[str]:
    """The picture in characters: a line a stage, in the data's order, the wire between the ends.

    server   generate  ░░░░░░░░░░   5 %
    1 worker encode    █░░░░░░░░░  10 %
             send      ████░░░░░░  45 %
             waits: for the socket 40 %
      ~~~ wire ~~~
    """
    lines: list[str] = []
    wide = max([11, *(len(_workers(side)) + 1 for side in pipeline.sides)])
    for index, side in enumerate(pipeline.sides):
        if index:
            lines.append("  ~~~~ wire ~~~~")
        heads = [side.end, _workers(side)]
        rows = [(part, _row(part)) for part in side.work]
        for at, (part, text) in enumerate(rows):
            head = heads[at] if at < len(heads) else ""
            mark = "  <- narrowest" if pipeline.narrowest == (side.end, part.stage) else ""
            lines.append(f"  {head:<{wide}}{text}{mark}")
        for name, parts in (("besides", side.besides), ("waits", side.waiting)):
            shares = ", ".join(
                f"{WAITS.get(p.stage, p.stage.replace('_', ' '))} {percent(p.share)}" for p in parts
            )
            if shares:
                lines.append(f"  {'':<{wide}}{name}: {shares}"[:width])
    if pipeline.missing:
        lines.append(f"  {pipeline.missing}: did not account for its stages")
    return lines


def _workers(side: Side) -> str:
    return "" if side.workers is None else plural(side.workers, "worker")


def _row(part: Part) -> str:
    filled = round(BAR * min(1.0, part.share))
    return f"{part.stage:<9} {_FULL * filled}{_EMPTY * (BAR - filled)} {percent(part.share):>5}"


def sentence(pipeline: Pipeline) -> str:
    """The picture in words, for those who do not see it."""
    parts = []
    for side in pipeline.sides:
        work = ", ".join(f"{p.stage} {percent(p.share)}" for p in side.work)
        parts.append(f"{side.end}: {work}, waiting {percent(side.idle)}")
    if pipeline.narrowest:
        parts.append(f"narrowest: {pipeline.narrowest[0]} {pipeline.narrowest[1]}")
    return "; ".join(parts)


def stages(results: Results, cell: Cell | None = None) -> Figure | None:
    """Where the time went by stage, at both ends: of one cell, else of several. None where no trial accounted
    for stages."""
    accounted = [c for c in results.cells if any(c.stages[end] for end in ENDS)]
    chosen = [c for c in accounted if c is cell] if cell else representative(accounted, MOST_BARS)
    if not chosen:
        return None
    names = varying(chosen)
    rows = [", ".join(filter(None, [c.operation, wording.label(c, names) if names else ""])) for c in chosen]
    panels = []
    for end in ENDS:
        if not any(c.stages[end] for c in chosen):
            continue
        seen = {s for c in chosen for s in c.stages[end]}
        order = [s for s in figure.STAGES if s in seen] + sorted(seen - set(figure.STAGES))
        shares = {s: [round(100 * c.stages[end].get(s, 0.0), 3) for c in chosen] for s in order}
        bars = [Series(s, shares[s], rows, figure.STAGES.get(s, "$other"), "bar") for s in order]
        panels.append(Panel(end, bars))
    missing = "" if len(panels) == 2 else " The other end did not account for its stages."
    note = "" if cell else choice_note(len(chosen), accounted)
    return Figure(
        "stages",
        _title(results, chosen, cell),
        "Share of the time of all workers of that end, median over the good trials. Pale stages wait "
        "(await_input for the other end's bytes, await_output for the socket, await_window for the peer's "
        "HTTP/2 window, await_thread for a thread at work for another stream); verify is the instrument's "
        f"own checksum.{missing}{note}",
        "share of time, %",
        "",
        panels,
        x_range=(0.0, 100.0),
        categories=rows,
    )


def _title(results: Results, chosen: Sequence[Cell], cell: Cell | None) -> str:
    if cell is not None:
        found = of(cell, results.verdicts.get(cell.name))
        narrowest = found.narrowest if found else None
        place = f": {narrowest[1]} at the {narrowest[0]} is the narrowest stage" if narrowest else ""
        return f"{name_of(results, cell)}{place}"
    top = best(chosen)
    shares = [(v, s, end) for end in ENDS if top for s, v in top.stages[end].items() if s not in WAITS]
    if top is None or not shares:
        return "Where the time went"
    share, stage, end = max(shares)
    where = wording.label(top, ["operation", "streams"])
    return f"In the fastest cell ({where}) most work is {stage} at the {end}: {percent(share)} of its time"


MOST_ENDS = 16
"""Servers, and loaders; the smallest of more stand as one."""
MOST_PANELS = 4
CAPTION = (
    "Payload of one trial, mean over the good ones: a bar for each server, a part of it for what each loader "
    "had of it."
)
IN_TURN = " Stream s speaks to server s mod {}."
AS_ONE = " Which server had which part is not known here: the servers told the client whom to ask."


def flow_figure(results: Results, cell: Cell | None = None) -> Figure | None:
    """Of a cell, by default of the fastest of each operation and place with several ends on a side."""
    several = [one for one in results.cells if hosts.payload_flows(one) is not None]
    chosen = [cell] if cell is not None else fastest_of_places(several)[:MOST_PANELS]
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
        _flow_title(results, first, flows),
        caption,
        "share of the payload, %",
        "",
        [Panel(name_of(results, one), _bars(one, way)) for one, way in found],
        columns=1,
    )


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
    out = []
    for i, (loader, share) in enumerate(shares.items()):
        names = [wording.plain(server, 60) for server in share]
        out.append(Series(wording.plain(loader), list(share.values()), names, series_colour(i), "bar"))
    return out


def _fewer(names: tuple[str, ...], amount: dict[str, float]) -> dict[str, str]:
    """The name that each stands under: the smallest of too many have one together."""
    if len(names) <= MOST_ENDS:
        return {name: name for name in names}
    largest = set(sorted(names, key=lambda name: -amount[name])[: MOST_ENDS - 1])
    rest = f"{len(names) - len(largest)} others"
    return {name: name if name in largest else rest for name in names}


def _flow_title(results: Results, cell: Cell, found: Flows) -> str:
    """`get, remote, 8 streams: 2.56 GB from 2 servers to 4 loaders`."""
    servers, loaders = _ends(cell, found)
    # Servers that cannot be told apart stand as one, and are counted by their addresses.
    count = len(servers) if found.by_server else servers[0].count(",") + 1
    local = loaders == (hosts.HERE,)
    ends = [plural(count, "server"), hosts.HERE if local else plural(len(loaders), "loader")]
    sender, receiver = ends if cell.operation == "get" else reversed(ends)
    return f"{name_of(results, cell)}: {Quantity(found.total, unit='B')} from {sender} to {receiver}"
