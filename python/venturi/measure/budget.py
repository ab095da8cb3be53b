"""What a search may cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["DEFAULT_TRIALS", "Budget"]

DEFAULT_TRIALS = 24


@dataclass(frozen=True)
class Budget:
    """What a search may cost: trials (those on disk included), seconds, or both."""

    trials: int | None
    seconds: float | None = None

    def left(self, done: int, began: float, before: int = 0) -> int | None:
        """Trials left; estimated from those since `began` if the time is bounded. None: not known yet.
        `before`: of those done, what was on disk when it began."""
        bounds = [] if self.trials is None else [self.trials - done]
        if self.seconds is not None:
            spent = time.monotonic() - began
            if spent >= self.seconds:
                return 0
            if done > before:
                bounds.append(max(1, int((self.seconds - spent) / (spent / (done - before)))))
        return min(bounds) if bounds else None
