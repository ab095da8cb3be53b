"""Names of parameters, and of cells by the parameters that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.words.wording import NOUNS, Nouns, nouns_of
from venturi.common.texts import plain as plain
from venturi.common.units import FACTORS, MISSING, Quantity, count, pick_unit, plural

HEADS = {
    "streams": "{stream}s",
    "rows_per_batch": "{row}s/batch",
    "rows_per_stream": "{row}s/{stream}",
    "bytes_per_stream": "bytes/{stream}",
    "duration_ns": "duration",
}
"""Column heads where the parameter's own name is too long, or a system has another word."""


def head(name: str, nouns: Nouns = NOUNS) -> str:
    return HEADS.get(name, "").format(row=nouns.row, stream=nouns.stream) or name


def value(name: str, found: Any) -> str:
    """A parameter's value as in a table whose head names it."""
    if found is None:
        return MISSING
    if isinstance(found, bool):
        return "yes" if found else "no"
    if name.endswith("_ns") and isinstance(found, int | float):
        shown = pick_unit("ns", [found])
        return f"{found / FACTORS[shown][1]:g} {shown}"
    if name.startswith("bytes") and isinstance(found, int | float):
        return Quantity(float(found), unit="B").text()
    if isinstance(found, int | float):
        return count(found)
    if name == "data":
        # A path or "builtin:birdstrikes": its last word names it, the whole of it is in the scenario.
        return plain(str(found).removeprefix("builtin:").rsplit("/", 1)[-1], 40)
    if isinstance(found, list):
        return plain(",".join(str(item) for item in found), 60)
    return plain(found, 60)


def phrase(name: str, found: Any, nouns: Nouns = NOUNS) -> str:
    """A parameter's value as it stands alone in a legend."""
    if name in ("streams", "loaders") and found is not None:
        return plural(found, nouns.stream if name == "streams" else name[:-1])
    if name == "rows_per_batch" and found == 1:
        return f"1 {nouns.row}/batch"
    if name == "in_flight" and isinstance(found, int):
        return f"{found} in flight"
    if name in ("rows_per_batch", "rows_per_stream", "bytes_per_stream"):
        return f"{value(name, found)} {head(name, nouns)}"
    if name in ("operation", "place", "data", "target"):
        return value(name, found)
    if name == "compression":
        return "uncompressed" if found is None else plain(found)
    return f"{head(name, nouns)} {value(name, found)}"


def label(cell: Cell, names: Sequence[str]) -> str:
    """A cell by these parameters: `2 streams, 4,096 rows/batch`; its operation where nothing varies."""
    nouns = nouns_of(cell)
    return ", ".join(phrase(n, cell.parameters.get(n), nouns) for n in names) or cell.operation
