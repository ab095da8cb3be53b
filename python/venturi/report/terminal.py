"""Documents on a terminal: readable at 80 columns, without colours and rules if it is a file."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from venturi.analysis import wording
from venturi.common.errors import VenturiError
from venturi.common.texts import meant
from venturi.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Item,
    Lines,
    Section,
    Style,
    Table,
    Terms,
    Text,
    plain,
)

if TYPE_CHECKING:
    from rich.console import Console

GAP = 2
"""Spaces between columns."""
MOST_ROWS = 60
SHORTEST = 14
"""Characters of a text below which it is left out rather than cut."""
_FOLDED = 12
"""Characters that a folded text has at least."""
_STYLES: dict[Style, str] = {
    "": "", "strong": "bold", "quiet": "dim", "bad": "red", "good": "green", "alert": "yellow",
}  # fmt: skip
_TITLES: dict[Style, str] = {
    "": "bold cyan", "strong": "bold", "quiet": "dim",
    "bad": "bold red", "good": "bold green", "alert": "bold yellow",
}  # fmt: skip


def write(document: Document, console: Console) -> None:
    """Prints a document. Nothing in it is taken for markup or for control characters."""
    _blocks(document.blocks, console, 0)


def text(document: Document, width: int) -> str:
    """The same as a text."""
    from rich.console import Console

    out = io.StringIO()
    write(document, Console(file=out, width=width, color_system=None))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _blocks(blocks: Sequence[Block], console: Console, depth: int) -> None:
    for i, block in enumerate(blocks):
        if i and not depth and (_apart(block) or _apart(blocks[i - 1])):
            console.print()
        if isinstance(block, Section):
            _say(console, block.title, _TITLES[block.style] if not depth or block.style else "bold")
            _blocks(block.blocks, console, depth + 1)
        elif isinstance(block, Text):
            _say(console, block.text, _STYLES[block.style])
        elif isinstance(block, Bullets):
            for item in block.items:
                first, below = (item.text, item.below) if isinstance(item, Item) else (plain(item), ())
                _say(console, first, "", f"  {block.mark}")
                for line in below:
                    _say(console, line, "", "    . " if block.mark else "    ")
        elif isinstance(block, Table):
            _table(block, console)
        elif isinstance(block, Terms):
            wide = max((len(term) for term, _ in block.pairs), default=0) + GAP
            for term, meaning in block.pairs:
                _say(console, meaning, "", f"  {wording.plain(term):<{wide}}")
        else:
            _lines(block, console)


def _apart(block: Block) -> bool:
    """Whether empty lines are around it."""
    return isinstance(block, Table) or (isinstance(block, Section) and block.style != "strong")


def _say(console: Console, text: str, style: str, first: str = "") -> None:
    """A paragraph, indented by what is before its first line."""
    from rich.text import Text

    rest = "    " if first == "  " else " " * len(first)
    for i, line in enumerate(wrap(wording.plain(text), console.width - len(rest))):
        console.print(Text((rest if i else first) + line, style=style))


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, all indented as the first one is."""
    indent = text[: len(text) - len(text.lstrip())]
    # A number and its percent sign stay on one line.
    glued = text.replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.wrap(glued, max(width, 20), subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in wrapped] or [""]


def _lines(block: Lines, console: Console) -> None:
    from rich.text import Text

    for line in block.lines:
        console.print(Text(wording.plain(line)[: console.width]), no_wrap=True, crop=False)


def _table(table: Table, console: Console) -> None:
    """Heads with units under them, a rule, the rows; what finds no room is named below it."""
    from rich.table import Table as Grid
    from rich.text import Text

    if table.caption:
        _say(console, table.caption, "bold")
    shown = [
        replace(
            c, head=wording.plain(c.head), cells=[wording.plain(cell) for cell in c.cells[:MOST_ROWS]],
            styles=c.styles[:MOST_ROWS],
        )
        for c in table.columns
    ]  # fmt: skip
    kept, left_out = fit(shown, console.width + GAP)
    grid = Grid(box=None, padding=(0, GAP, 0, 0), pad_edge=False, show_edge=False)
    units = any(c.unit for c in kept)
    for column in kept:
        head = Text(column.head + ("\n" if units else ""), style="bold")
        head.append(column.unit, style="dim")
        justify: Literal["left", "right"] = "left" if column.text else "right"
        grid.add_column(head, justify=justify, no_wrap=True, min_width=column.width)
    for i in range(len(kept[0].cells) if kept else 0):
        grid.add_row(*(Text(c.cells[i], style=_STYLES[c.styles[i]] if c.styles else "") for c in kept))
    console.print(grid)
    if left_out:
        _say(console, f"no room here for: {', '.join(c.head for c in left_out)}; {table.hint}", "dim")
    if table.rows > MOST_ROWS:
        _say(console, f"{table.rows - MOST_ROWS} more rows: {table.hint}", "dim")


def choose(tables: Sequence[Sequence[Column]], names: Sequence[str]) -> list[list[Column]]:
    """Of each table settings, medians and counts, and the columns with these heads.

    Raises `VenturiError` for a head that no table has.
    """
    wanted = {name.strip().casefold() for name in names} - {""}
    heads = list(dict.fromkeys(_typed(c) for table in tables for c in table))
    if unknown := sorted(wanted - set(heads)):
        raise VenturiError(
            f"--columns: no column of this run is called {unknown[0]}",
            hint=meant(unknown[0], heads, f"there are: {', '.join(heads)}"),
        )
    return [[c for c in table if c.rank == 0 or _typed(c) in wanted] for table in tables]


def _typed(column: Column) -> str:
    """A head as it is typed."""
    return column.head.replace("\N{NON-BREAKING HYPHEN}", "-").casefold()


def fit(offered: Sequence[Column], room: int, gap: int = GAP) -> tuple[list[Column], list[Column]]:
    """As many columns as `room` characters hold, and those left out.

    The lowest ranks come first, of the lowest those to the left. A text that is too long for what is left is
    cut, if a word or two of it can stay, or folded.
    """
    fixed = sum(c.width + gap for c in offered if c.rank == 0 and not c.folds)
    most = max(room - fixed - gap, _FOLDED)
    offered = [
        replace(c, cells=["\n".join(textwrap.wrap(cell, most)) for cell in c.cells]) if c.folds else c
        for c in offered
    ]

    def lost(columns: list[Column]) -> bool:
        return any(c.rank == 1 and c.text for c in columns)

    found = _fitted(offered, room, gap)
    if not lost(found[1]):
        return found
    again = _fitted([c if c.yields is None else replace(c, rank=c.yields) for c in offered], room, gap)
    if not lost(again[1]):
        return again
    # Numbers that matter less than the text are not shown in its place.
    kept, left_out = _fitted([c for c in offered if c.rank <= 2], room, gap)
    return kept, [c for c in offered if c.rank > 2 or c in left_out]


def _fitted(offered: Sequence[Column], room: int, gap: int) -> tuple[list[Column], list[Column]]:
    def width(column: Column) -> int:
        return column.width + gap

    fitted = {i: c for i, c in enumerate(offered) if c.rank == 0}
    free = room - sum(width(c) for c in fitted.values())
    left_out: dict[int, Column] = {}
    while free < 0 and len(fitted) > 1:
        i, column = fitted.popitem()
        left_out[i] = column
        free += width(column)

    def take(i: int, column: Column) -> None:
        nonlocal free
        fitted[i] = column
        free -= width(column)

    wanted = sorted((i for i, c in enumerate(offered) if c.rank > 0), key=lambda i: (offered[i].rank, -i))
    for at, i in enumerate(wanted):
        column = offered[i]
        if width(column) <= free:
            take(i, column)
            continue
        if not column.text:
            left_out[i] = column
            continue
        # Numbers of the next rank are short: they go before the end of a text.
        beside = [offered[j] for j in wanted[at + 1 :] if offered[j].rank == column.rank + 1]
        alone = len(max(column.cells, key=len)) - (width(column) - free)
        most = alone - sum(width(c) for c in beside)
        if most < SHORTEST <= alone:
            most = alone  # rather the text without the numbers than neither
        if most < SHORTEST:
            left_out[i] = column
            continue
        take(i, replace(column, cells=[_cut(c, most) for c in column.cells]))
    return [fitted[i] for i in sorted(fitted)], [left_out[i] for i in sorted(left_out)]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip(" ,:") + "…"
