"""Scripts and data of a page, packed into text: zlib in base 85. Plain, Vega's alone are 900 kB."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

__all__ = ["LETTERS", "Packed", "Packer", "letters"]

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;,=>?@^_`{|}~"
"""Digits of base 85 as RFC 1924 has them, but for `<`: of these no tag can be made, and no comment."""


@dataclass(frozen=True)
class Packed:
    text: str
    bytes: int
    """How many of the decoded ones count; what follows fills a group of four."""
    letters: str = LETTERS


class Packer:
    """Scripts that run one after the other, and documents that become elements of their ids with their JSON.
    unpack.js is the other half.

    Vega's script takes as long to compress as all else of a small page to make, so that a thread does it
    meanwhile, and once a process.
    """

    def __init__(self, scripts: Sequence[str]) -> None:
        self._scripts = tuple(scripts)
        self._thread = threading.Thread(target=_begun, args=(self._scripts,), daemon=True)
        self._thread.start()

    def finish(self, documents: Mapping[str, Any]) -> Packed:
        """Both."""
        text = json.dumps(documents, separators=(",", ":"), allow_nan=False, default=str)
        self._thread.join()
        begun, first = _begun(self._scripts)
        stream = begun.copy()
        data = b"".join([first, stream.compress(f"{text}}}".encode()), stream.flush()])
        return Packed(letters(data), len(data))


@lru_cache(2)
def _begun(scripts: tuple[str, ...]) -> tuple[Any, bytes]:
    """What compresses a page, after its scripts, and what it has given."""
    # A higher level takes a third longer, and makes a page smaller by a fraction of a percent.
    stream = zlib.compressobj(6)
    return stream, stream.compress(f'{{"scripts":{json.dumps(scripts)},"documents":'.encode())


def letters(data: bytes) -> str:
    """In base 85: four bytes are five letters. `base64` takes a second for a large page."""
    import numpy as np

    words = np.frombuffer(data + bytes(-len(data) % 4), ">u4").astype(np.uint32)
    digits = np.empty((words.size, 5), np.uint8)
    for place in range(4, -1, -1):
        digits[:, place] = words % 85
        words //= 85
    return np.frombuffer(LETTERS.encode(), np.uint8)[digits].tobytes().decode()
