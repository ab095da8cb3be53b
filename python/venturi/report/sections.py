"""What a report says of several hosts and places: tables with a sentence or two, one form for terminal, page
and Markdown. There are none where a run has one host and one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.analysis.words import labels
from venturi.common.units import Quantity, pick_unit
from venturi.report.summary import Column

__all__ = ["Section", "Table", "numbers", "settings"]


@dataclass(frozen=True)
class Table:
    """`caption` tells which cells it is of; empty where there is only one such table."""

    caption: str
    columns: list[Column]
    sentences: list[str] = field(default_factory=list)
    """What the table says."""

    @property
    def rows(self) -> int:
        return len(self.columns[0].cells) if self.columns else 0


@dataclass(frozen=True)
class Section:
    """Tables about one question. `note` tells how to read them."""

    title: str
    tables: list[Table]
    note: str
    captioned: bool = False
    """Whether a single table, too, needs its caption."""


def numbers(head: str, quantities: Sequence[Quantity], rank: int, unit: str | None = None) -> Column:
    """A column of figures in one unit."""
    base = quantities[0].unit if quantities else ""
    shown = unit if unit is not None else pick_unit(base, [q.value for q in quantities])
    return Column(head, shown, [q.number(shown) for q in quantities], rank)


def settings(where: Sequence[dict[str, Any]]) -> list[Column]:
    """The parameters that tell the rows apart, as the tables of cells have them."""
    names = list(dict.fromkeys(name for one in where for name in one))
    return [
        Column(
            labels.head(name),
            "",
            [labels.value(name, one.get(name)) for one in where],
            0,
            text=any(isinstance(one.get(name), str) for one in where),
        )
        for name in names
    ]
