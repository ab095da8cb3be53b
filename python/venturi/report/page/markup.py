"""Text as HTML, so that nothing a run says is obeyed by the page; scripts and data packed into text."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from venturi.analysis import wording
from venturi.common.units import percent, plural
from venturi.report import cell, reason
from venturi.report.figures import palette
from venturi.report.names import name_of

MOST_ROWS = 200
"""Rows of a table in the page itself."""


def render(section: str, **values: Any) -> Markup:
    """The template of that name; empty where it wrote nothing."""
    return Markup(_environment().get_template(f"{section}.html.j2").render(values).strip())


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        finalize=_clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "begun": begun,
        "commands": commands,
        "formatted": format,
        "in_parts": in_parts,
        "sentence": _sentence,
    }
    made.globals |= {
        "evidence_text": cell.evidence_text,
        "form_of": lambda block: type(block).__name__,
        "most_rows": MOST_ROWS,
        "name_of": name_of,
        "percent": percent,
        "plural": plural,
        "role": lambda kind: palette.verdict_colour(kind).removeprefix("$"),
        "title_of": reason.title,
    }
    return made


def _clean(found: Any) -> Any:
    """What a template shows, before it is escaped: control characters are replaced, lines are kept."""
    if isinstance(found, Markup):
        return found
    text = str(found)
    return "\n".join(map(wording.plain, text.splitlines())) if "\n" in text else wording.plain(text)


def begun(text: str) -> str:
    """As a sentence begins."""
    return text[:1].upper() + text[1:]


def _sentence(text: str) -> Markup:
    """As it begins and ends a paragraph; no line breaks before a percent sign."""
    whole = begun(text if text.endswith((".", "!", "?")) else text + ".")
    return escape(_clean(whole)).replace(" %", Markup("&nbsp;%"))


def commands(text: str) -> Markup:
    """A sentence with its commands, which stand between backticks, set as code."""
    pieces = text.split("`")
    return in_parts([(piece, i % 2 == 1) for i, piece in enumerate(pieces)])


def in_parts(parts: Iterable[tuple[str, bool]]) -> Markup:
    """A sentence in parts, each with whether it is a command."""
    code = Markup("<code>%s</code>")
    return Markup().join(code % _clean(part) if is_code else _clean(part) for part, is_code in parts)


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
