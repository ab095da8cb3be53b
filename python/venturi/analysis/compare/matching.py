"""Which cell of one run is which of another: by their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare.likeness import canonical


def spelled(value: Any) -> str:
    """A parameter's value as one types it."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def implied(by: str, cells: Sequence[Cell]) -> frozenset[str]:
    """Parameters that follow from `by`, as a target from its place, or threads from streams."""
    names = {n for c in cells for n in c.parameters} - {by}
    out = set()
    for name in names:
        pairs = {(spelled(c.parameters.get(by)), spelled(c.parameters.get(name))) for c in cells}
        if len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs}):
            out.add(name)
    return frozenset(out)


def match(
    base: Sequence[Cell], run: Sequence[Cell], ignored: frozenset[str] | set[str] = frozenset()
) -> tuple[list[tuple[Cell, Cell]], list[Cell], list[Cell]]:
    """Cells with the same parameters, and those without a partner on either side.

    A parameter that only one side knows does not count: an imported run has few of them. Where that leaves
    several cells with the same parameters on one side, none of them is matched: which is meant is unknown.
    """
    known = [{n for c in side for n in c.parameters} for side in (base, run)]
    names = sorted((known[0] & known[1]) - set(ignored) - {"row_bytes", "seed"})

    def keyed(cells: Sequence[Cell]) -> dict[tuple[Any, ...], list[Cell]]:
        out: dict[tuple[Any, ...], list[Cell]] = {}
        for cell in cells:
            key = tuple(canonical(n, cell.parameters.get(n)) for n in names)
            out.setdefault(key, []).append(cell)
        return out

    ours, theirs = keyed(base), keyed(run)
    pairs = [
        (ours[key][0], theirs[key][0])
        for key in ours
        if key in theirs and len(ours[key]) == len(theirs[key]) == 1
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
