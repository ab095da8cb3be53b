"""Names that somebody may have meant, for errors: few of them, however many and however long they are."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

__all__ = ["listed", "meant", "similar"]

_MOST = 12
_MOST_LETTERS = 60


def listed(names: Sequence[str]) -> str:
    """a, b and 998 more"""
    shown = [n if len(n) <= _MOST_LETTERS else f"{n[:_MOST_LETTERS]}..." for n in names[:_MOST]]
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"{', '.join(shown)}{more}"


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?`, or where none is near, the other text."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {listed(close)}?" if close else otherwise


def similar(name: str, known: Sequence[str]) -> str:
    """The end of an error about a column that is not there."""
    return f"; {meant(name, known, f'it has {listed(known)}')}"
