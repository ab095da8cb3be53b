"""Python's collector of garbage, out of the way where a lot is read that is none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["without_collector"]


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """Records are millions of objects without a cycle: walking over them again and again takes longer than
    reading them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
