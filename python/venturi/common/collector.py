"""Python's collector of garbage, out of the way where a lot is read that is none."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import TypeVar

__all__ = ["ends", "kept", "without_collector"]

T = TypeVar("T")
_kept: list[object] = []
_ends = False


def ends() -> None:
    """This process ends with the command that follows. Within another program, which goes on, nothing may be
    kept for its sake."""
    global _ends
    _ends = True


def kept(found: T) -> T:
    """The same, for a command that ends with it: it goes with the process. To free its objects one by one
    takes a twentieth of the time of such a command."""
    if _ends:
        _kept.append(found)
    return found


@contextlib.contextmanager
def without_collector(keep: bool = False) -> Iterator[None]:
    """Records are millions of objects without a cycle: walking over them again and again takes longer than
    reading them. `keep`: nor shall it look at them later, for a command that ends with them. A program that
    goes on may have garbage of its own among what would be kept so."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if keep and _ends:
            gc.freeze()
            # What is derived of them is as lasting: a million objects are no reason to look through it.
            gc.set_threshold(1_000_000)
        if was:
            gc.enable()
