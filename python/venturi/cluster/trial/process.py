"""A loader in a process of its own on this machine: both ends of the line that it is spoken to by.

Calls go there as lines of JSON, and are answered in whatever order they end; the process ends with its input.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from venturi.cluster.trial.handle import Gone

__all__ = ["LoaderProcess"]

_STOP_SECONDS = 5.0


class LoaderProcess:
    """A `Handle`; close it. `within`: what its command begins with; `address`: where it runs."""

    def __init__(self, name: str, address: str, within: Sequence[str] = ()) -> None:
        self.name, self.address = name, address
        self.identity: dict[str, Any] = {}
        self._numbers = itertools.count()
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._child = subprocess.Popen(
            [*within, sys.executable, "-m", "venturi.cluster.trial.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # a Ctrl-C is the driver's to hear
        )
        threading.Thread(target=self._listen, name=f"venturi-{name}", daemon=True).start()

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """A method of its `Loader`; the future fails where that does, or where the process is no more."""
        made: Future[Any] = Future()
        with self._lock:
            if self._gone:
                made.set_exception(Gone())
                return made
            number = next(self._numbers)
            self._calls[number] = made
            assert self._child.stdin is not None
            with contextlib.suppress(OSError, ValueError):
                # Where this fails the listener hears of the end.
                self._child.stdin.write(json.dumps([number, method, arguments]) + "\n")
                self._child.stdin.flush()
        return made

    def _listen(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self._child.stdout:
                number, answer, error = json.loads(line)
                with self._lock:
                    waiting = self._calls.pop(number)
                if error is None:
                    waiting.set_result(answer)
                else:
                    waiting.set_exception(RuntimeError(error))
        with self._lock:
            self._gone = True
            left, self._calls = list(self._calls.values()), {}
        for waiting in left:
            waiting.set_exception(Gone())

    @property
    def running(self) -> bool:
        return not self._gone and self._child.poll() is None

    def close(self) -> None:
        assert self._child.stdin is not None
        with self._lock, contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def main() -> None:
    """The other end."""
    from venturi.cluster.trial.loader import Loader

    answers = os.fdopen(os.dup(1), "w")
    # What else is printed is no answer.
    os.dup2(2, 1)
    loader, lock = Loader(), threading.Lock()

    def answer(number: int, method: str, arguments: Sequence[Any]) -> None:
        try:
            told = json.dumps([number, getattr(loader, method)(*arguments), None])
        except BaseException as problem:  # it is the caller's, who waits for an answer
            told = json.dumps([number, None, f"{type(problem).__name__}: {problem}"])
        with lock, contextlib.suppress(OSError):
            print(told, file=answers, flush=True)

    for line in sys.stdin:
        # A call may wait for seconds, and others come meanwhile.
        threading.Thread(target=answer, args=json.loads(line), daemon=True).start()
    # A trial that runs has nobody to tell.
    os._exit(0)


if __name__ == "__main__":
    main()
