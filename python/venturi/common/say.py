"""A line for the user on standard error."""

from __future__ import annotations

import sys

from venturi.common.credentials import without_secrets
from venturi.common.plain import LONGEST, plain

__all__ = ["say"]


def say(level: str, text: str) -> None:
    """A line for the user on standard error: info, warning, error or hint; it may quote what a server
    said."""
    print(f"{level}: {plain(without_secrets(text), LONGEST)}", file=sys.stderr, flush=True)
