"""What the short proofs before a run told of the instrument, as environment.json has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["proof", "unproven"]


def proof(environment: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """None where there was none: imported, older and modelled runs."""
    found = environment.get("proof")
    return found if isinstance(found, Mapping) else None


def unproven(environment: Mapping[str, Any]) -> bool:
    """Whether one failed and the run was made all the same."""
    found = proof(environment)
    return found is not None and found.get("outcome") == "failed"
