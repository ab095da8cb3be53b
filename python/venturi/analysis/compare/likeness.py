"""Whether two runs are alike: machines, software, settings, and which cell is which of the other run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import by_key, get
from venturi.analysis.cells.machines import (
    OTHERS,
    STOLEN,
    Fact,
    Weight,
    common,
    facts_of_end,
    host_noise,
    in_words,
    mapping,
    properties,
)
from venturi.analysis.cells.summary import Cell, follows
from venturi.analysis.wording import listed

if TYPE_CHECKING:
    from venturi.analysis.results import Results

# Parameters that change what a figure is, not how large it is.
_MEASURED_OTHERWISE = frozenset({"verify", "include_setup"})
_IDLE_PARAMETERS = frozenset({"seed", "place", "target"})
_DERIVED = frozenset({"row_bytes"})


def facts(base: Results, run: Results) -> list[Fact]:
    """Everything known of both sides, the client first; the server only where it is another host."""
    out: list[Fact] = []
    for end in ("client", "server"):
        pair = [[mapping(get(r.environment, end))] for r in (base, run)]
        if end == "server":
            clients = [mapping(get(r.environment, "client")) for r in (base, run)]
            pair = [machines.first_place_servers(r.environment) for r in (base, run)]
            both = zip(pair, clients, strict=True)
            if all(s.get("host") == c.get("host") for side, c in both for s in side):
                # On the client's host only its software can differ.
                out += [
                    f
                    for f in facts_of_end(end, *pair)
                    if f.name in ("Venturi", "commit") and f.base is not None
                ]
                continue
        out += facts_of_end(end, *pair)
    out.append(Fact("server", "software", _peers(base), _peers(run), "matters"))
    numbers = [common("servers", [r.target.servers for r in side.records]) for side in (base, run)]
    if any(number not in (None, 1) for number in numbers):
        out.append(Fact("server", "servers", numbers[0], numbers[1], "matters"))
    busy = [_disturbance(r) for r in (base, run)]
    for i, name in enumerate((STOLEN, OTHERS)):
        out.append(Fact("client", name, busy[0][i], busy[1][i], "matters"))
    out.append(Fact("run", "started", _started(base), _started(run), "note"))
    return [f for f in out if f.base is not None or f.run is not None]


def machine(results: Results) -> dict[tuple[int, str], str]:
    """What is known of what makes runs comparable at all, by the end and the name, as `cores 8`."""
    ends = [mapping(get(results.environment, "client")), *machines.first_place_servers(results.environment)]
    return {
        (number, name): f"{name} {in_words(name, value)}"
        for number, end in enumerate(ends)
        for name, path, weight in properties([end])
        if weight == "unlike" and (value := get(end, *path)) is not None
    }


def _disturbance(results: Results) -> tuple[float, float] | tuple[None, None]:
    """Medians over the trials of the shares of the host's CPU time that were stolen and that others used."""
    found = [n for r in results.records if not r.warmup and (n := host_noise(r)) is not None]
    return (median(s for s, _ in found), median(o for _, o in found)) if found else (None, None)


def _started(results: Results) -> str | None:
    return f"{results.started:%Y-%m-%d %H:%M} UTC" if results.started else None


def _peers(results: Results) -> str | None:
    """The software of all servers that answered, addresses left out: ports differ from run to run."""
    names = {str(s) for r in results.records if (s := r.target.software)}
    return ", ".join(sorted(names)) or None


def settings(base: Sequence[Cell], run: Sequence[Cell]) -> list[Fact]:
    """Parameters that have one value throughout each side, and not the same: what the runs differ in."""
    out = []
    for name in dict.fromkeys(n for c in (*base, *run) for n in c.parameters):
        sides = [_only(name, cells) for cells in (base, run)]
        if name in _DERIVED or sides[0] is None or sides[1] is None or sides[0] == sides[1]:
            continue
        weight: Weight = (
            "unlike" if name in _MEASURED_OTHERWISE else "note" if name in _IDLE_PARAMETERS else "matters"
        )
        before, after = (_shown(cells[0].parameters[name]) for cells in (base, run))
        out.append(Fact("run", name, before, after, weight))
    return out


def _shown(value: Any) -> Any:
    # "none" is a value of a setting; None would be one that nobody wrote down.
    return "none" if value is None else value


def _only(name: str, cells: Sequence[Cell]) -> set[Any] | None:
    """The one value of a parameter in these cells; None where there are several, or where one lacks it."""
    if not all(name in c.parameters for c in cells):
        return None
    values = {canonical(name, c.parameters[name]) for c in cells}
    return values if len(values) == 1 else None


def canonical(name: str, value: Any) -> Any:
    """A parameter's value as it is matched: ports, folders and the type of a number do not count."""
    if name in ("target", "place") and isinstance(value, str):
        return without_port(value)
    if name == "data" and isinstance(value, str):
        return value.rsplit("/", 1)[-1]
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else repr(value)


def without_port(address: str) -> str:
    """`flight://host:31337/x` -> `flight://host/x`, `[::1]:80` -> `[::1]`: a port tells no cells apart."""
    # Only after the host: a path or a command may hold colons of its own.
    return re.sub(r"^((?:[a-z0-9+.-]+://)?(?:\[[^\]]*\]|[^/?:\[\]]+)):\d{1,5}(?=$|[/?])", r"\1", address)


def refusal(found: Sequence[Fact]) -> str | None:
    """What makes a comparison senseless, in a line; None where nothing does."""
    unlike = [f for f in found if f.weight == "unlike" and f.differs]
    if not unlike:
        return None
    first = unlike[0]
    where = "" if first.end == "run" else f"the {first.end}'s "
    more = f"; so do {listed([f'{f.end} {f.name}' for f in unlike[1:]])}" if len(unlike) > 1 else ""
    before, after = (in_words(first.name, value) for value in (first.base, first.run))
    return f"{where}{first.name} differs ({before} | {after}){more}"


def spelled(value: Any) -> str:
    """A parameter's value as one types it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def implied(by: str, cells: Sequence[Cell]) -> frozenset[str]:
    """Parameters that follow from `by`, as a target from its place, or threads from streams."""
    names = {n for c in cells for n in c.parameters} - {by}
    return frozenset(name for name in names if follows(cells, name, by))


def match(
    base: Sequence[Cell], run: Sequence[Cell], ignored: frozenset[str] | set[str] = frozenset()
) -> tuple[list[tuple[Cell, Cell]], list[Cell], list[Cell]]:
    """Cells with the same parameters, and those without a partner on either side.

    A parameter that only one side knows does not count: an imported run has few of them. Where that leaves
    several cells with the same parameters on one side, none of them is matched: which is meant is unknown.
    """
    known = [{n for c in side for n in c.parameters} for side in (base, run)]
    names = sorted((known[0] & known[1]) - set(ignored) - {"row_bytes", "seed"})

    first, second = (
        by_key((tuple(canonical(n, c.parameters.get(n)) for n in names), c) for c in side)
        for side in (base, run)
    )
    pairs = [
        (cells[0], second[key][0])
        for key, cells in first.items()
        if len(cells) == len(second.get(key, ())) == 1
    ]
    taken = [{id(pair[i]) for pair in pairs} for i in (0, 1)]
    return (
        pairs,
        [c for c in base if id(c) not in taken[0]],
        [c for c in run if id(c) not in taken[1]],
    )


def why(base: tuple[str, Sequence[Cell]], run: tuple[str, Sequence[Cell]]) -> str:
    """Which parameters keep the cells of two runs, each with its name, apart."""
    empty = [name for name, cells in (base, run) if not cells]
    if empty:
        return f"{empty[0]} has no cells"
    apart = []
    for name in sorted({n for c in base[1] for n in c.parameters} - {"row_bytes", "seed"}):
        values = [
            {canonical(name, c.parameters.get(name)) for c in cells if name in c.parameters}
            for _, cells in (base, run)
        ]
        if all(values) and not values[0] & values[1]:
            apart.append(name)
    return f"they share no value of: {', '.join(apart)}" if apart else "their parameters overlap nowhere"
