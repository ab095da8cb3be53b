"""Texts for people: made fit to be shown, with the name that was meant, on standard error."""

from __future__ import annotations

import difflib
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from venturi.common.credentials import without_secrets

Note = Callable[[str, str], None]
"""Takes a line for the user: level (info, warning, error, hint) and text."""
LONGEST = 4000
"""Of a line on a terminal."""


def plain(text: Any, longest: int | None = None) -> str:
    """A text from elsewhere, fit to be shown: no control characters (terminals obey them), not endless."""
    shown = "".join(
        c if c.isprintable() else " " if c in "\n\t\r" else "\N{REPLACEMENT CHARACTER}" for c in str(text)
    )
    return shown if longest is None or len(shown) <= longest else shown[: longest - 1] + "…"


_MOST = 12
_MOST_LETTERS = 60


def listed(names: Sequence[str]) -> str:
    """a, b and 998 more"""
    shown = [n if len(n) <= _MOST_LETTERS else f"{n[:_MOST_LETTERS]}..." for n in names[:_MOST]]
    more = f" and {len(names) - _MOST:,} more" if len(names) > _MOST else ""
    return f"{', '.join(shown)}{more}"


def meant(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """`did you mean NAME?`, or where none is near, the other text."""
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"did you mean {listed(close)}?" if close else otherwise


def similar(name: str, names: Sequence[str]) -> str:
    """The end of an error about a column that is not there."""
    return f"; {meant(name, names, f'it has {listed(names)}')}"


def say(level: str, text: str) -> None:
    """A line for the user on standard error: info, warning, error or hint; it may quote what a server
    said."""
    print(f"{level}: {plain(without_secrets(text), LONGEST)}", file=sys.stderr, flush=True)


_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR}


def log(level: str, text: str) -> None:
    """The same line for a program that calls Venturi: to the logger `venturi`; hints are logged as info."""
    logger = logging.getLogger("venturi")
    logger.log(_LEVELS.get(level, logging.INFO), "%s", plain(without_secrets(text)))
