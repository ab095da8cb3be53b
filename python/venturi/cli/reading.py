"""A run that a command reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from venturi.analysis import results
from venturi.analysis.proven import unproven
from venturi.analysis.results import Results
from venturi.common.texts import say

__all__ = ["read", "warn"]


def read(run: str | Path) -> Results:
    """Its results; warns where they are unproven. Raises VenturiError where there is no run."""
    found = results.load(run)
    warn(run, found.environment)
    return found


def warn(run: str | Path, environment: Mapping[str, Any]) -> None:
    """Where its figures are unproven."""
    if unproven(environment):
        say("warning", f"{run}: its figures are unproven: the self-test failed before the run")
