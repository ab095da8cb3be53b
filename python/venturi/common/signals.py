"""The signals that ask a process to end."""

from __future__ import annotations

import signal

__all__ = ["ending"]


def ending() -> list[int]:
    """Ctrl-C, SIGTERM, and the SIGHUP of a terminal that was closed: unless nohup had it ignored."""
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hung_up]
