"""How many draws the test of a statistical law makes. A few dozen show a change; with `VENTURI_DRAWS=all`, as
the nightly run has it, they are as many as the law is worth. Seeds are fixed: it is the same everywhere."""

from __future__ import annotations

import math
import os

__all__ = ["draws", "slack"]

ALL = os.environ.get("VENTURI_DRAWS") == "all"


def draws(number: int, part: int = 10) -> int:
    """This many, or the part of them that a change needs."""
    return number if ALL else max(1, number // part)


def slack(of: int, share: float = 0.05) -> float:
    """How far a share may lie from its law, because fewer draws were made: three standard errors."""
    return 0.0 if ALL else 3 * math.sqrt(share * (1 - share) / of)
