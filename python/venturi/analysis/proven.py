"""The self-test before a run, as environment.json records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["proof", "unproven"]


def proof(environment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None for imported, older and modelled runs."""
    found = environment.get("proof")
    return found if isinstance(found, Mapping) else None


def unproven(environment: Mapping[str, Any]) -> bool:
    """Whether it failed, and the run went on."""
    found = proof(environment)
    return found is not None and found.get("outcome") == "failed"
