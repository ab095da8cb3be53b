"""Work that a thread does while its caller waits for something else."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

__all__ = ["beside"]


@contextlib.contextmanager
def beside(*work: Callable[[], None]) -> Iterator[None]:
    """Does the work, one after the other, in a thread that has ended when the block is left. What fails is
    tried again by whoever needs it, and fails there."""

    def done() -> None:
        for one in work:
            with contextlib.suppress(Exception):
                one()

    thread = threading.Thread(target=done, name="venturi-beside", daemon=True)
    thread.start()
    try:
        yield
    finally:
        thread.join()
