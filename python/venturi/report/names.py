"""How cells and their settings are named in a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.words import labels

if TYPE_CHECKING:
    from venturi.analysis.results import Results

__all__ = ["setting"]


def name_of(results: Results, cell: Cell) -> str:
    """A cell as its table tells it from the others: `get, 4 streams`."""
    names = results.telling.get(cell.operation, [])
    return ", ".join(dict.fromkeys([cell.operation, labels.label(cell, names)]))


def setting(where: dict[str, Any]) -> str:
    """`2 streams, uncompressed`; empty where nothing varies."""
    return ", ".join(labels.phrase(name, value) for name, value in where.items())
