"""A remedy in words, with its command where it has one."""

from __future__ import annotations

from dataclasses import replace

from venturi.analysis.verdict.causes import RemedyKind
from venturi.analysis.verdict.types import Remedy
from venturi.analysis.words.wording import Nouns

__all__ = ["told"]


def told(remedy: Remedy, nouns: Nouns, begin: str = "") -> Remedy:
    """The same with its words; `begin` stands before them."""
    words = remedy.why.words.format(stream=nouns.stream, **remedy.changes, **remedy.numbers)
    commands: list[tuple[str, bool]] = [(remedy.before, True), (" there", False)] if remedy.before else []
    if remedy.command:
        commands += [*([(", then ", False)] if commands else []), (remedy.command, True)]
    joint = ", then: " if remedy.why is RemedyKind.MEND else ": "
    head = begin + words + (joint if words and commands else "")
    return replace(remedy, parts=tuple(part for part in ((head, False), *commands) if part[0]))
