"""A run that a command reads."""

from __future__ import annotations

from pathlib import Path

from venturi.analysis import results
from venturi.analysis.proven import unproven
from venturi.analysis.results import Results
from venturi.common.say import say

__all__ = ["read"]


def read(run: str | Path) -> Results:
    """Its results; warns where they are unproven. Raises VenturiError where there is no run."""
    found = results.load(run)
    if unproven(found.environment):
        say("warning", f"{run}: its figures are unproven: a proof of the instrument failed before it began")
    return found
