"""What a report has packed, as its browser unpacks it."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from typing import Any

THEIRS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def unpacked(page: str) -> dict[str, Any]:
    """Its `documents` by id, and its `scripts`."""
    found = re.search(r'id="packed" data-bytes="(\d+)" data-letters="([^"]+)">([^<]+)</script>', page)
    assert found is not None
    return unpacked_text(found[3], html.unescape(found[2]), int(found[1]))


def unpacked_text(text: str, letters: str, size: int) -> dict[str, Any]:
    """The same of the packed text, in these digits and of so many bytes."""
    data = base64.b85decode(text.translate(str.maketrans(letters, THEIRS)))[:size]
    whole: dict[str, Any] = json.loads(zlib.decompress(data))
    return whole
