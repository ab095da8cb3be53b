"""The signals that ask a process to end."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator

__all__ = ["Ending", "ending", "interrupting", "is_program", "owning_process"]

_program = False


def is_program() -> bool:
    """Whether this process is the command line's, which may end it. A library's caller is asked instead, by
    KeyboardInterrupt."""
    return _program


@contextlib.contextmanager
def owning_process() -> Iterator[None]:
    """The block is the command line's."""
    global _program
    before, _program = _program, True
    try:
        yield
    finally:
        _program = before


def ending() -> list[int]:
    """Ctrl-C, SIGTERM, and the SIGHUP of a terminal that was closed: unless nohup had it ignored."""
    hung_up = [signal.SIGHUP] if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN else []
    return [signal.SIGINT, signal.SIGTERM, *hung_up]


_endings: list[Ending] = []
"""All that were made: of one that is freed the socket closes, and a signal would write into whatever file has
its number next."""


class Ending:
    """Set by the first of these signals, from now on and for as long as this process lives. Made in its main
    thread."""

    def __init__(self) -> None:
        self._set = False
        self._heard, self._said = socket.socketpair()
        self._said.setblocking(False)
        # The handler runs when the main thread comes back to Python; a wait ends with the signal itself.
        signal.set_wakeup_fd(self._said.fileno(), warn_on_full_buffer=False)
        for number in ending():
            signal.signal(number, self._hear)
        _endings.append(self)

    def _hear(self, *_: object) -> None:
        self._set = True

    def wait(self, seconds: float) -> bool:
        """Whether it is set, as soon as it is, and after so many seconds at most."""
        if not self._set:
            self._heard.settimeout(seconds)
            with contextlib.suppress(TimeoutError, BlockingIOError):  # the second where `seconds` are none
                self._heard.recv(4096)
        return self._set


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
