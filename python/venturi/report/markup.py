"""Text as HTML and data as JSON, so that nothing a run says is obeyed by the page."""

from __future__ import annotations

import html
import json
from typing import Any

from venturi.report import labels


def e(text: Any) -> str:
    """A text escaped for elements and attributes; control characters are replaced, lines are kept."""
    found = str(text)
    return html.escape(_lines(found) if "\n" in found else labels.plain(found), quote=True)


def _lines(text: str) -> str:
    return "\n".join(labels.plain(line) for line in text.splitlines())


def script_json(document: Any) -> str:
    """JSON fit for a script element: no `<`, and no line separators that JavaScript once tripped over."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def commands(text: str) -> str:
    """A sentence whose command, if it ends with one (`do this: venturi run ...`), is set as code."""
    before, found, command = text.partition(": venturi ")
    if found:
        return f"{e(before)}: <code>{e('venturi ' + command)}</code>"
    if text.startswith("venturi "):
        return f"<code>{e(text)}</code>"
    return e(text)
