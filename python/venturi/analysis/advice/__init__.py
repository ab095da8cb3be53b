"""Warnings about a run: each says what was found, why it matters, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """One warning. `kind` is stable and meant for scripts; the three sentences are for people;
    `next` has its commands between backticks."""

    kind: str
    finding: str
    cause: str
    next: str

    def __str__(self) -> str:
        return f"{self.finding}; {self.cause}. {self.next}"
