"""Cells named by the parameters in which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from venturi.plan.cell import Cell

__all__ = ["labels"]


def varying(found: Sequence[Cell]) -> list[str]:
    """The parameters that tell these cells apart, in their order."""
    derived = {"row_bytes", "target", "bytes_per_stream"}
    names = [name for name in (found[0].parameters if found else {}) if name not in derived]
    several = [name for name in names if len({repr(cell.parameters[name]) for cell in found}) > 1]
    if "threads" in several and all(c.parameters["threads"] == c.parameters["streams"] for c in found):
        several.remove("threads")
    if "rows_per_stream" in several and all(c.parameters["bytes_per_stream"] for c in found):
        # The rows follow from the bytes, which are what was asked for.
        amounts = {c.parameters["bytes_per_stream"] for c in found}
        several[several.index("rows_per_stream")] = "bytes_per_stream"
        if len(amounts) == 1:
            several.remove("bytes_per_stream")
    records = {name for name in ("columns", "values", "seed") if name in several}
    if records and len({repr([c.parameters[n] for n in sorted(records)]) for c in found}) <= 2:
        # These are null for files, so they vary with the data and say nothing of their own.
        several = [name for name in several if name not in records]
    return several


def labels(found: Sequence[Cell]) -> dict[str, str]:
    """A short text a cell: what tells it from the others."""
    names = [name for name in varying(found) if name != "operation"]
    return {cell.id: _label(cell, names) for cell in found}


def _label(cell: Cell, names: list[str]) -> str:
    p = cell.parameters
    parts = [str(p["operation"])]
    for name in names:
        value = p[name]
        if value is not None:
            text = Path(value).name if name == "data" else value
            parts.append(f"{name}={text}")
    return " ".join(parts)
