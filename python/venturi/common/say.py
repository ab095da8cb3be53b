"""A line for the user on standard error."""

from __future__ import annotations

import sys

from venturi.common.credentials import without_secrets

__all__ = ["say"]


def say(level: str, text: str) -> None:
    """A line for the user on standard error: info, warning, error or hint."""
    print(f"{level}: {without_secrets(text)}", file=sys.stderr, flush=True)
