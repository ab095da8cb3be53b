"""For whoever writes a target of their own in Python: docs/extend.md."""

from typing import Any

from venturi.targets.plugin import INTERFACE, Parameter, Planned, Target, Trial, Writer

__all__ = ["INTERFACE", "Parameter", "Planned", "Target", "Trial", "Writer", "digest"]


def digest(batch: Any) -> int:
    """The digest of the values of a batch, an object with `__arrow_c_array__`. A stream's is the sum of its
    batches'. Raises TypeError, ValueError where it is no batch of Arrow."""
    if not hasattr(batch, "__arrow_c_array__"):
        raise TypeError(f"{type(batch).__name__} has no __arrow_c_array__: it is no batch of Arrow")
    from venturi.common.runtime import load_core

    found: int = load_core().digest(batch)
    return found
