"""What a report has packed, as its browser unpacks it."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from typing import Any


def unpacked(page: str) -> dict[str, Any]:
    """Its `documents` by id, and its `scripts`."""
    found = re.search(r'id="packed" data-bytes="(\d+)" data-letters="([^"]+)">([^<]+)</script>', page)
    assert found is not None
    theirs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    text = found[3].translate(str.maketrans(html.unescape(found[2]), theirs))
    whole: dict[str, Any] = json.loads(zlib.decompress(base64.b85decode(text)[: int(found[1])]))
    return whole
