"""Text as HTML and data as JSON, so that nothing a run says is obeyed by the page."""

from __future__ import annotations

import html
import json
import re
from typing import Any

from venturi.analysis.words import labels


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


_COMMAND = re.compile(
    r"`([^`]+)`|(?:^|(?<=: )|(?<=then )|(?<=or ))"
    r"(venturi [a-z].*?)(?= there\b| on the other host|, then |; |$)"
)


def parted(text: str) -> list[tuple[str, bool]]:
    """A sentence in pieces, each with whether it is a command: `there: venturi serve flight there, then
    venturi run quick` holds two. What stands between backticks is one as well."""
    out: list[tuple[str, bool]] = []
    done = 0
    for found in _COMMAND.finditer(text):
        if found.start() > done:
            out.append((text[done : found.start()], False))
        out.append((found.group(1) or found.group(2), True))
        done = found.end()
    if done < len(text):
        out.append((text[done:], False))
    return out


def commands(text: str) -> str:
    """A sentence with its commands set as code."""
    return "".join(f"<code>{e(part)}</code>" if code else e(part) for part, code in parted(text))
