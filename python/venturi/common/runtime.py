"""This process: its compiled half, the garbage collector, a thread beside, the signals that end it."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from venturi.common.errors import ExitCode, VenturiError


def load_core() -> Any:
    """The compiled half. Raises VenturiError if this installation has none."""
    try:
        import importlib

        return importlib.import_module("venturi._core")
    except ImportError as error:
        raise VenturiError(
            f"the compiled part of Venturi (venturi._core) cannot be loaded: {error}",
            ExitCode.INTERNAL,
            hint="install the wheel (pip install venturi), or build it here with: maturin develop --release",
        ) from None


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
        self._heard, self._wake = socket.socketpair()
        self._wake.setblocking(False)
        # The handler runs when the main thread comes back to Python; a wait ends with the signal itself.
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
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
