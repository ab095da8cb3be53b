"""Waits for states of other processes, which nothing announces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HANG_SECONDS = 600.0
"""Only what hangs takes as long; pytest-timeout is above it."""


def wait_until(condition: Callable[[], T], explain: Callable[[], object] = lambda: "") -> T:
    """What `condition` answers once that is true. `explain` says what of a hang; it may also raise before."""
    deadline = time.monotonic() + HANG_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, explain()
        time.sleep(0.02)
    return found
