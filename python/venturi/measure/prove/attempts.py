"""Trying again where time is in doubt: what is not a matter of time is never tried again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from venturi.measure.prove.bench import Bench
from venturi.measure.prove.outcome import Checks

__all__ = ["attempts"]


def attempts(bench: Bench, make: Callable[..., Checks], *given: Any, most: int = 3, **more: Any) -> Checks:
    """The first that is all right, or shows what no machine's mood can do; else the one with the fewest that
    are wrong."""
    best: Checks | None = None
    for number in range(most):
        if number > 0 and not bench.in_time():
            break
        found = make(bench, *given, **more)
        wrong = [check for check in found if not check.right]
        if not wrong or any(not check.timed for check in wrong):
            return found
        if best is None or len(wrong) < sum(not check.right for check in best):
            best = found
    assert best is not None
    return best
