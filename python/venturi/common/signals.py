"""The signals that ask a process to end."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

__all__ = ["ending", "interrupting"]


def ending() -> list[int]:
    """Ctrl-C, SIGTERM, and the SIGHUP of a terminal that was closed: unless nohup had it ignored."""
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """In the block, which is the main thread's, each of them is a KeyboardInterrupt, as Ctrl-C is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
