"""Documents as Markdown: for an issue, a pull request, a wiki."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

from venturi.analysis import wording
from venturi.report.document import (
    Block,
    Bullets,
    Document,
    Item,
    Section,
    Sentence,
    Table,
    Terms,
    Text,
    sentence,
)


def text(document: Document, level: int = 1) -> str:
    """A document; its title is a heading of this level."""
    return "\n".join([f"{'#' * level} {_escape(document.title)}", "", *_blocks(document.blocks, level + 1)])


def _blocks(blocks: Sequence[Block], level: int) -> list[str]:
    return [line for block in blocks for line in _block(block, level)]


def _block(block: Block, level: int) -> list[str]:
    if isinstance(block, Section):
        inner = _blocks(block.blocks, level + 1)
        if block.folded:
            title = html.escape(wording.plain(block.title), quote=False)
            return [f"<details><summary>{title}</summary>", "", *inner, "</details>", ""]
        return [f"{'#' * level} {_escape(block.title)}", "", *inner]
    if isinstance(block, Text):
        strong = "**" if block.style in ("strong", "bad") else ""
        return [f"{strong}{_escape(sentence(block.text))}{strong}", ""]
    if isinstance(block, Bullets):
        return [*(line for item in block.items for line in _item(item)), ""]
    if isinstance(block, Terms):
        return [*(f"- **{_escape(term)}**: {_escape(meaning)}" for term, meaning in block.pairs), ""]
    if isinstance(block, Table):
        return [*([f"**{_escape(block.caption)}**", ""] if block.caption else ()), *_table(block)]
    lines = [wording.plain(line) for line in block.lines]
    fence = max(["```", *(f"{run}`" for line in lines for run in re.findall("```+", line))], key=len)
    return [fence, *lines, fence, ""]


def _item(item: Sentence | Item) -> list[str]:
    if isinstance(item, Item):
        return [f"- **{_escape(item.text)}**", *(f"  - {_escape(line)}" for line in item.below)]
    parts = [(item, False)] if isinstance(item, str) else [(wording.plain(t), code) for t, code in item]
    return ["- " + "".join(f"`{t}`" if code and "`" not in t else _escape(t) for t, code in parts)]


def _table(table: Table) -> list[str]:
    """A pipe table, followed by an empty line."""
    lines = [
        [_escape(c.title) for c in table.columns],
        ["---" if c.text else "---:" for c in table.columns],
        *([_escape(cell) for cell in table.row(i)] for i in range(table.rows)),
    ]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def _escape(found: Any) -> str:
    """A text in which Markdown and the HTML within it find nothing to obey."""
    shown = wording.plain(found)
    for sign in "\\`*_[]|#":
        shown = shown.replace(sign, "\\" + sign)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
