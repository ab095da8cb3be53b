"""What a report says of several hosts and places: tables with a sentence or two, one form for terminal, page
and Markdown. There are none where a run has one host and one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from venturi.report import labels
from venturi.report.summary import Column
from venturi.units import Quantity, pick_unit

if TYPE_CHECKING:
    from venturi.analysis.results import Results

__all__ = ["Section", "Table", "numbers", "sections", "setting", "settings"]


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


def sections(results: Results, most: int | None = None) -> list[Section]:
    """In the order of the report; of more than `most` loaders of a cell the slowest and the fastest."""
    from venturi.report import hosts, places

    found = [places.section(results), places.convergence(results), hosts.efficiency(results)]
    found += [hosts.loaders(results, most)]
    return [section for section in found if section is not None]


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


def setting(where: dict[str, Any]) -> str:
    """`2 streams, uncompressed`; empty where nothing varies."""
    return ", ".join(labels.phrase(name, value) for name, value in where.items())
