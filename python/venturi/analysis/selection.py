"""Cells that a user names, and those that stand for others where not all can be shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import by_key, main_rate, per_second
from venturi.analysis.cells.summary import Cell, best, by_operation, speed, varying
from venturi.common.conditions import Condition
from venturi.common.errors import VenturiError

if TYPE_CHECKING:
    from venturi.analysis.results import Results

__all__ = ["example", "find"]


def find(results: Results, name: str) -> Cell:
    """The cell that `name` means: `best`, a cell's name or the begin of one, or PARAMETER=VALUE,...

    Raises `VenturiError` where it is none, or more than one.
    """
    if not results.cells:
        raise VenturiError(f"{results.name}: there are no cells in this run")
    if name == "best":
        return best(results.cells) or results.cells[0]
    exact = [c for c in results.cells if c.name == name]
    begun = [c for c in results.cells if c.name.startswith(name)]
    found = exact or (_by_parameters(results, name) if "=" in name else begun)
    if len(found) == 1:
        return found[0]
    if not found:
        raise VenturiError(
            f"--cell {name}: there is no such cell in this run",
            hint=f"name one as {example(results.cells)}, or by its name: {_some(results.cells)}",
        )
    raise VenturiError(
        f"--cell {name}: {len(found)} cells fit",
        hint=f"name one of them: {_some(found)}; or add what tells it apart: {example(found)}",
    )


def _some(cells: Sequence[Cell], most: int = 4) -> str:
    rest = f", ... (venturi show RUN --format csv has all {len(cells)})" if len(cells) > most else ""
    return ", ".join(wording.plain(c.name) for c in cells[:most]) + rest


def example(cells: Sequence[Cell]) -> str:
    """The first of these cells by what tells it from the others, as `find` takes it; by its name where no
    parameters tell, or where they would need quotes."""
    one = cells[0]
    names = (["operation"] if len({c.operation for c in cells}) > 1 else []) + varying(cells)
    left, said = list(cells), list[str]()
    for name in names:
        value = one.parameters.get(name)
        rest = [c for c in left if c.parameters.get(name) == value]
        if len(rest) < len(left) and re.fullmatch(r"[\w.:/-]+", text := _typed(value)):
            left, said = rest, [*said, f"{name}={text}"]
    return ",".join(said) if len(left) == 1 else wording.plain(one.name)


def _typed(value: object) -> str:
    """A parameter's value as it is typed after `=`."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _by_parameters(results: Results, text: str) -> list[Cell]:
    wanted = []
    for part in text.split(","):
        key, separator, value = part.partition("=")
        if not separator or not any(key.strip() in c.parameters for c in results.cells):
            known = sorted({n for c in results.cells for n in c.parameters})
            raise VenturiError(
                f"--cell {text}: {part.strip()!r} names no parameter of this run",
                hint=f"PARAMETER=VALUE, parameters: {', '.join(known)}",
            )
        wanted.append((key.strip(), value.strip()))
    return [c for c in results.cells if all(_is(c.parameters.get(k), v) for k, v in wanted)]


def _is(value: object, text: str) -> bool:
    """Whether a parameter is what was typed: `4096` and `4,096` as well as `4k` for 4000; `none` for null."""
    if value is None:
        return text.lower() in ("none", "null", "-")
    if isinstance(value, bool):
        return text.lower() in (("yes", "true") if value else ("no", "false"))
    if isinstance(value, int | float):
        for suffix, factor in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)):
            if text.endswith(suffix):
                try:
                    return float(text.removesuffix(suffix).replace("_", "")) * factor == float(value)
                except ValueError:
                    return False
    return str(value) == text


def evenly(found: Sequence[Any], most: int) -> list[Any]:
    """At most so many of these: the first, the last and, evenly, some between."""
    step = (len(found) - 1) / (most - 1)
    return list(found) if len(found) <= most else [found[round(i * step)] for i in range(most)]


def cells_where(cells: Sequence[Cell], where: Sequence[str] | None, run: str) -> list[Cell]:
    """The cells for which all conditions hold, as "streams <= 8"; a parameter that a cell has not is null.

    Raises `VenturiError` for a condition that is none, and where no cell is left.
    """
    kept = list(cells)
    names = {name for cell in cells for name in cell.parameters}
    for text in where or []:
        try:
            condition = Condition(text)
            kept = [cell for cell in kept if condition(dict.fromkeys(names) | cell.parameters)]
        except ValueError as error:
            raise VenturiError(f"--where: {error}", hint='as in --where "streams <= 8"') from None
    if not kept:
        raise VenturiError(
            f"{run}: there are no trials" if not cells else f"{run}: --where leaves no cell",
            hint=f"see what was measured: venturi show {run}",
        )
    return kept


def representative(cells: Sequence[Cell], most: int) -> list[Cell]:
    """At most `most` cells: all, else the fastest of each operation, place and stream count, thinned
    evenly."""
    known = [c for c in cells if speed(c, cells).known]
    if len(known) <= most:
        return known
    groups = by_key(((c.operation, c.parameters.get("place"), c.parameters.get("streams")), c) for c in known)
    chosen = [b for members in groups.values() if (b := best(members))]
    return evenly(chosen, most)


def fastest_of_places(cells: Sequence[Cell]) -> list[Cell]:
    """The fastest cell of each operation and place."""
    ordered = (cell for members in by_operation(cells).values() for cell in members)
    groups = by_key(((c.operation, c.parameters.get("place")), c) for c in ordered)
    return [top for members in groups.values() if (top := best(members)) is not None]


def choice_note(shown: int, cells: Sequence[Cell]) -> str:
    total = sum(speed(c, cells).known for c in cells)
    return "" if shown >= total else f" {shown} of {total} cells are shown: the fastest of each stream count."


def middle_trial(cell: Cell) -> Any:
    """The trial whose throughput is the median (the lower of the two middle ones)."""
    ranked = sorted(cell.records, key=lambda r: main_rate(r) or per_second(r, "rows") or 0.0)
    return ranked[(len(ranked) - 1) // 2] if ranked else None
