"""Names of parameters, and of cells by the parameters that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.words.wording import named
from venturi.common.units import FACTORS, MISSING, Quantity, count, pick_unit, plural

HEADS = {
    "rows_per_batch": "rows/batch",
    "rows_per_stream": "rows/stream",
    "bytes_per_stream": "bytes/stream",
    "duration_ns": "duration",
}
"""Column heads where the parameter's own name is too long."""


def plain(text: Any, longest: int | None = None) -> str:
    """A text from elsewhere, fit to be shown: no control characters (terminals obey them), not endless."""
    shown = "".join(
        c if c.isprintable() else " " if c in "\n\t\r" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


def head(name: str) -> str:
    return HEADS.get(name, name)


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


def phrase(name: str, found: Any) -> str:
    """A parameter's value as it stands alone in a legend."""
    if name in ("streams", "loaders") and found is not None:
        return plural(found, name[:-1])
    if name == "rows_per_batch" and found == 1:
        return "1 row/batch"
    if name == "in_flight" and isinstance(found, int):
        return f"{found} in flight"
    if name in ("rows_per_batch", "rows_per_stream", "bytes_per_stream"):
        return f"{value(name, found)} {head(name)}"
    if name in ("operation", "place", "data", "target"):
        return value(name, found)
    if name == "compression":
        return "uncompressed" if found is None else plain(found)
    return f"{head(name)} {value(name, found)}"


def label(cell: Cell, names: Sequence[str]) -> str:
    """A cell by these parameters: `2 streams, 4,096 rows/batch`; its operation where nothing varies."""
    text = ", ".join(phrase(n, cell.parameters.get(n)) for n in names)
    return named(text, cell) or cell.operation
