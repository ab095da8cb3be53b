"""What a report says, before it is written: sections of texts, bullets and tables.

Every view is a function from results to a `Document` or a `Section`. `terminal`, `markdown` and the page's
`document.html.j2` write it; JSON has the results themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from venturi.analysis import wording
from venturi.common.units import MISSING, Quantity, pick_unit

Style = Literal["", "strong", "quiet", "bad", "good", "alert"]
Sentence = str | Sequence[tuple[str, bool]]
"""A text, or its parts, each with whether it is a command."""
ALL = "venturi show --format markdown has all"
"""Where a reader of the terminal finds what it has no room for."""


@dataclass(frozen=True)
class Column:
    """A column of a table. `unit` is below the head; a lower `rank` stays longer if there is little room."""

    head: str
    unit: str
    cells: list[str]
    rank: int = 0
    text: bool = False
    """Text is set to the left, numbers to the right."""
    yields: int | None = None
    """Its rank if a text of rank 1, such as the verdict, has no room otherwise."""
    folds: bool = False
    """A text that is folded rather than cut."""
    styles: Sequence[Style] = ()
    """One per cell; none: all are plain."""

    @property
    def width(self) -> int:
        return max(len(line) for text in (self.head, self.unit, *self.cells) for line in text.split("\n"))

    @property
    def title(self) -> str:
        """Head and unit in one line."""
        return f"{self.head}, {self.unit}" if self.unit else self.head


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    caption: str = ""
    hint: str = ALL
    """Where the columns and rows are that a terminal has no room for."""

    @property
    def rows(self) -> int:
        return len(self.columns[0].cells) if self.columns else 0

    def row(self, index: int) -> list[str]:
        return [column.cells[index] for column in self.columns]


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    style: Style = ""


@dataclass(frozen=True)
class Item:
    """A bullet with further ones below it."""

    text: str
    below: Sequence[str]


@dataclass(frozen=True)
class Bullets:
    items: Sequence[Sentence | Item]
    mark: str = "- "
    """What a terminal has before each."""


@dataclass(frozen=True)
class Terms:
    """Terms, each with what it means."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Lines:
    """Lines to the letter, made for a terminal."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Section:
    title: str
    blocks: Sequence[Block]
    style: Style = ""
    folded: bool = False
    """Whether a reader opens it first, if the form can fold."""


Block = Text | Bullets | Terms | Lines | Table | Section


@dataclass(frozen=True)
class Document:
    title: str
    blocks: Sequence[Block]


def numbers(head: str, quantities: Sequence[Quantity], rank: int, unit: str | None = None) -> Column:
    """A column of figures in one unit, the most readable one unless it is given."""
    base = quantities[0].unit if quantities else ""
    shown = unit if unit is not None else pick_unit(base, [q.value for q in quantities])
    return Column(head, shown, [q.number(shown) for q in quantities], rank)


def intervals(
    head: str, quantities: Sequence[Quantity], margins: str, unit: str, rank: int = 1
) -> tuple[Column, Column]:
    """Figures in a unit, and a column of this rank for the margins of each."""
    return numbers(head, quantities, 0, unit), Column(
        margins, unit, [q.margin(unit) for q in quantities], rank
    )


def text_columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[Column]:
    """Columns of texts, from their rows."""
    columns = zip(heads, zip(*rows, strict=True), strict=True)
    return [Column(head, "", list(cells), text=True) for head, cells in columns]


def settings(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None, *nouns: Any
) -> list[Column]:
    """The parameters that distinguish the rows, a column each."""
    wanted = names if names is not None else list(dict.fromkeys(name for row in rows for name in row))
    return [
        Column(
            wording.head(name, *nouns),
            "",
            [wording.value(name, row.get(name)) for row in rows],
            text=any(isinstance(row.get(name), str) for row in rows),
        )
        for name in wanted
    ]


def fields(one: object, /, *names: str, **renamed: str) -> dict[str, Any]:
    """These attributes of a result, for JSON; `others` by the names that they have there."""
    named = {name: name for name in names} | renamed
    return {name: getattr(one, attribute) for name, attribute in named.items()}


def finite(found: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping for JSON, which has no infinity and no NaN: null."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in found.items()}


def begun(text: str) -> str:
    """A text as a sentence begins: with a capital."""
    return text[:1].upper() + text[1:]


def sentence(text: str) -> str:
    """A text as a paragraph has it: it begins with a capital and ends with a full stop."""
    return begun(text) + ("" if text.endswith((".", "!", "?", ":")) else ".")


def plain(sentence: Sentence) -> str:
    """A sentence without marks of commands."""
    return sentence if isinstance(sentence, str) else "".join(text for text, _ in sentence)


def filled_columns(columns: Sequence[Column]) -> list[Column]:
    """Those of rank 0, and those with a figure."""
    return [c for c in columns if c.rank == 0 or any(cell != MISSING for cell in c.cells)]


def without_notes(section: Section) -> Section:
    """A section without its paragraphs on how to read it."""
    return replace(section, blocks=[block for block in section.blocks if not isinstance(block, Text)])
