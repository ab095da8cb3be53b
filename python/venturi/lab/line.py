"""The line to the laboratory's keeper: orders go there, answers come back."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

__all__ = ["Line", "Stopped"]

_SECONDS = 30.0
_STOP_SECONDS = 5.0
_WATCH_SECONDS = 0.2


class Stopped(Exception):
    """Somebody wants no answer any more."""


class Line:
    """A keeper's process, until `close`. Its first word is an answer too, to an order that nobody gave."""

    def __init__(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._read = b""
        self._numbers = itertools.count(1)
        self._child = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,  # a Ctrl-C is the run's to hear
            bufsize=0,
        )

    def order(
        self, name: str, given: object, seconds: float = _SECONDS, halt: Callable[[], bool] = lambda: False
    ) -> Any:
        """What the keeper answers. Raises OSError with what went wrong there, or where that takes longer, and
        Stopped where `halt` says so meanwhile."""
        assert self._child.stdin is not None
        number = next(self._numbers)
        try:
            self._child.stdin.write(json.dumps([number, name, given]).encode() + b"\n")
        except OSError:
            raise OSError(self._ended()) from None
        return self.answer(number, seconds, halt)

    def answer(self, number: int, seconds: float, halt: Callable[[], bool] = lambda: False) -> Any:
        """That to this order: answers to others are of orders that nobody waits for."""
        deadline = time.monotonic() + seconds
        while True:
            while b"\n" not in self._read:
                self._read += self._piece(deadline, seconds, halt)
            line, _, self._read = self._read.partition(b"\n")
            to, found, error = json.loads(line)
            if to == number:
                if error is not None:
                    raise OSError(error)
                return found

    def _piece(self, deadline: float, seconds: float, halt: Callable[[], bool]) -> bytes:
        assert self._child.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not selector.select(_WATCH_SECONDS):
                if halt():
                    raise Stopped
                if time.monotonic() > deadline:
                    raise OSError(f"the laboratory does not answer in {seconds:.0f} s")
        piece = os.read(self._child.stdout.fileno(), 1 << 16)
        if not piece:
            raise OSError(self._ended())
        return piece

    @property
    def pid(self) -> int:
        """The keeper's."""
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether the keeper lives."""
        return self._child.poll() is None

    @contextlib.contextmanager
    def watched(self, told: Callable[[], None]) -> Iterator[None]:
        """Calls `told` should the keeper end within the block."""
        left = threading.Event()

        def watch() -> None:
            while not left.wait(_WATCH_SECONDS):
                if not self.running:
                    told()
                    return

        thread = threading.Thread(target=watch, name="venturi-link", daemon=True)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()

    def _ended(self) -> str:
        said = self.complaint()
        if not said:
            status = self._child.poll()
            said = "it was killed" if status is not None and status < 0 else f"status {status}"
        return f"the laboratory has ended: {said}"

    def complaint(self) -> str:
        """The last line that it wrote to its standard error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(0.5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._errors.close()
