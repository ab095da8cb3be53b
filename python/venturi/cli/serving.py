"""What ends a server: signals, or the end of whoever started it."""

from __future__ import annotations

import os
import signal
import sys
import threading

__all__ = ["end_with_input", "signalled"]


def signalled() -> threading.Event:
    """Set by the signals that end a server."""
    ending = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    return ending


def end_with_input() -> None:
    """From now on the end of standard input ends this process as SIGTERM does."""
    threading.Thread(target=_until_closed, daemon=True).start()


def _until_closed() -> None:
    # Raw reads: a buffered reader would hold its lock when the interpreter ends.
    while True:
        try:
            if not os.read(sys.stdin.fileno(), 4096):
                break
        except OSError:
            break
    os.kill(os.getpid(), signal.SIGTERM)
