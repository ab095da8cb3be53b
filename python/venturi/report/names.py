"""How cells and their settings are named in a report, and the mark of figures after a failed self-test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.machines import unproven
from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results

__all__ = ["marked", "name_of", "setting"]


def name_of(results: Results, cell: Cell) -> str:
    """A cell by what distinguishes it in its table: `get, 4 streams`."""
    names = results.telling.get(cell.operation, [])
    return ", ".join(dict.fromkeys([cell.operation, wording.label(cell, names)]))


def setting(where: dict[str, Any]) -> str:
    """`2 streams, uncompressed`; empty if nothing varies."""
    return ", ".join(wording.phrase(name, value) for name, value in where.items())


def marked(environment: Mapping[str, Any]) -> str:
    """` (unproven)` for a run whose self-test failed; empty for all others."""
    return " (unproven)" if unproven(environment) else ""
