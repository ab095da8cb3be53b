"""The mark of figures after a failed self-test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.proven import unproven

__all__ = ["marked"]


def marked(environment: Mapping[str, Any]) -> str:
    """` (unproven)` for a run whose self-test failed; empty for all others."""
    return " (unproven)" if unproven(environment) else ""
