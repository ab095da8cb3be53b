"""Text in lines of a terminal's width."""

from __future__ import annotations


def wrap(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters, all indented as the first one is."""
    import textwrap

    indent = text[: len(text) - len(text.lstrip())]
    # A number and its percent sign stay on one line.
    glued = text.replace(" %", "\N{NO-BREAK SPACE}%")
    wrapped = textwrap.wrap(glued, max(width, 20), subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}%", " %") for line in wrapped] or [""]
