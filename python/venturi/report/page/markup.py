"""Text as HTML, so that nothing a run says is obeyed by the page."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from venturi.analysis.words import labels
from venturi.common.units import percent, plural
from venturi.report import cell, reason
from venturi.report.figures import palette
from venturi.report.names import name_of


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
    return "\n".join(map(labels.plain, text.splitlines())) if "\n" in text else labels.plain(text)


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
