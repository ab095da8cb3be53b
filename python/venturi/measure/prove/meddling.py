"""Lies told to a database in this process, which nothing of its traffic passes a socket of: another process
changes its file while a trial runs."""

from __future__ import annotations

from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks

__all__ = ["caught"]


def caught(bench: Bench) -> Checks:
    return Checks()
