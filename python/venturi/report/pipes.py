"""Markdown's tables, and texts in which it finds nothing to obey."""

from __future__ import annotations

from typing import Any

from venturi.analysis.words import labels

__all__ = ["escape", "table"]


def table(heads: list[str], rows: list[list[str]], left: list[bool]) -> list[str]:
    """A pipe table, followed by an empty line."""
    rule = ["---" if to_left else "---:" for to_left in left]
    lines = [[escape(h) for h in heads], rule, *([escape(c) for c in row] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines] + [""]


def escape(found: Any) -> str:
    """A text in which Markdown and the HTML within it find nothing to obey."""
    shown = labels.plain(found)
    for sign in "\\`*_[]|#":
        shown = shown.replace(sign, "\\" + sign)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
