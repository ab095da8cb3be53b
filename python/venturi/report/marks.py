"""What stands behind figures that are not proved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from venturi.analysis.proven import unproven

__all__ = ["marked"]


def marked(environment: Mapping[str, Any]) -> str:
    """` (unproven)` for a run of which a proof failed; empty for all others."""
    return " (unproven)" if unproven(environment) else ""
