"""Texts of others: servers, files and users say what they like."""

from __future__ import annotations

from typing import Any

__all__ = ["LONGEST", "plain"]

LONGEST = 4000
"""Of a line on a terminal."""


def plain(text: Any, longest: int | None = None) -> str:
    """A text from elsewhere, fit to be shown: no control characters (terminals obey them), not endless."""
    shown = "".join(
        c if c.isprintable() else " " if c in "\n\t\r" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"
