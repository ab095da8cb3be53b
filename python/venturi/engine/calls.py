"""Calls to a process that runs trials, and its answers: lines of JSON over its standard streams or a socket.

A call is `[number, method, arguments]`, its answer `[number, answer, error]`. Answers come in any order.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import IO, Any

from venturi.common.errors import VenturiError

_STOP_SECONDS = 5.0
_PLAIN = (OSError, RuntimeError, ValueError, VenturiError)
"""Errors whose text says enough without their type."""


class Gone(ConnectionError):
    """The process that is called, or its host, has ended."""

    def __str__(self) -> str:
        return ": ".join(["is gone", *map(str, self.args)])


class Caller:
    """Calls methods at the other end of two streams. `when_gone` is called when that end is gone."""

    def __init__(self, name: str, reader: IO[bytes], writer: IO[bytes]) -> None:
        self.name = name
        self.gone = False
        self.when_gone: Callable[[], None] = lambda: None
        self._reader, self._writer = reader, writer
        self._numbers = itertools.count()
        self._calls: dict[int, Future[Any]] = {}
        self._why: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._sending = threading.Lock()  # a write waits as long as the other end does not read
        threading.Thread(target=self._listen, name=f"venturi-{name}", daemon=True).start()

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """Calls a method there. The future fails with RuntimeError as the method does, and with Gone."""
        future: Future[Any] = Future()
        number = next(self._numbers)
        line = json.dumps([number, method, arguments]).encode() + b"\n"
        with self._lock:
            if self.gone:
                future.set_exception(Gone(*self._why))
                return future
            self._calls[number] = future
        try:
            with self._sending:
                self._writer.write(line)
                self._writer.flush()
        except (OSError, ValueError):
            with self._lock:
                unanswered = self._calls.pop(number, None)
            if unanswered is not None:
                future.set_exception(Gone())
        return future

    def _listen(self) -> None:
        try:
            for line in self._reader:
                number, answer, error = json.loads(line)
                with self._lock:
                    call = self._calls.pop(number, None)
                if call is not None and error is None:
                    call.set_result(answer)
                elif call is not None:
                    call.set_exception(RuntimeError(error))
        except OSError:
            pass
        except (ValueError, TypeError) as problem:
            self._why = (f"its answer cannot be read ({problem})",)
        with self._lock:
            self.gone = True
            left, self._calls = list(self._calls.values()), {}
        for call in left:
            call.set_exception(Gone(*self._why))
        self.when_gone()
        for stream, turn in ((self._reader, contextlib.nullcontext()), (self._writer, self._sending)):
            with turn, contextlib.suppress(OSError, ValueError):
                stream.close()


class Process(Caller):
    """A Python module that runs in a process here and answers calls; close it. `within`: what its command
    begins with."""

    def __init__(
        self,
        name: str,
        module: str,
        *words: str,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._child = subprocess.Popen(
                [*within, sys.executable, "-m", module, *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # only the caller reacts to Ctrl-C
            )
        except BaseException:
            self._errors.close()
            raise
        assert self._child.stdin is not None and self._child.stdout is not None
        super().__init__(name, self._child.stdout, self._child.stdin)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def running(self) -> bool:
        return not self.gone and self._child.poll() is None

    def status(self, seconds: float = _STOP_SECONDS) -> int:
        """Its exit status; it is killed if it does not end in that time."""
        try:
            return self._child.wait(seconds)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()

    def errors(self) -> str:
        """What it has written to standard error."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def kill(self) -> None:
        self._child.kill()

    def close(self, seconds: float = _STOP_SECONDS) -> None:
        """Closes its input, which ends it; kills it if that takes longer."""
        if unheld := self._sending.acquire(timeout=seconds):
            with contextlib.suppress(OSError, ValueError):
                self._writer.close()
            self._sending.release()
        self.status(seconds if unheld else 0.0)
        self._errors.close()


def serve(reader: IO[bytes], writer: IO[bytes], methods: object, one_at_a_time: bool = False) -> None:
    """Answers calls to the public methods of an object, each in a thread, until no more come."""
    sending = threading.Lock()
    turn = threading.Lock() if one_at_a_time else contextlib.nullcontext()

    def answer(number: int, method: str, arguments: Sequence[Any]) -> None:
        try:
            if method.startswith("_"):
                raise RuntimeError(f"no such call: {method}")
            with turn:
                line = json.dumps([number, getattr(methods, method)(*arguments), None])
        except BaseException as problem:  # the caller gets it, who waits for an answer
            kind = "" if isinstance(problem, _PLAIN) and str(problem) else f"{type(problem).__name__}: "
            line = json.dumps([number, None, f"{kind}{problem}"])
        with sending, contextlib.suppress(OSError, ValueError):
            writer.write(line.encode() + b"\n")
            writer.flush()

    with contextlib.suppress(OSError, ValueError, TypeError):
        for line in reader:
            call = json.loads(line)
            if call[1] == "now":
                answer(*call)  # half of the time that this takes is the clock's uncertainty
            else:
                threading.Thread(target=answer, args=call, daemon=True).start()


def serve_parent(methods: object, one_at_a_time: bool = False) -> None:
    """Answers the process that started this one. Other output goes to standard error."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers, methods, one_at_a_time)
