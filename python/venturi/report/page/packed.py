"""Scripts and data of a page, packed into text: zlib in base 85. Plain, plotly's bundle alone is 4.8 MB."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["LETTERS", "Packed", "pack"]

_THEIRS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""Digits of base 85 as Python has them (RFC 1924)."""
LETTERS = _THEIRS.replace("<", ",")
"""Of these no tag can be made, and no comment."""


@dataclass(frozen=True)
class Packed:
    text: str
    bytes: int
    """How many of the decoded ones count; what follows fills a group of four."""
    letters: str = LETTERS


def pack(documents: Mapping[str, Any], scripts: Sequence[str]) -> Packed:
    """`documents` become elements of these ids with their JSON; then the scripts run, one after the other.
    unpack.js is the other half."""
    whole = json.dumps(
        {"documents": documents, "scripts": scripts},
        separators=(",", ":"), allow_nan=False, default=str,
    )  # fmt: skip
    data = zlib.compress(whole.encode(), 9)
    text = base64.b85encode(data, pad=True).decode().translate(str.maketrans(_THEIRS, LETTERS))
    return Packed(text, len(data))
