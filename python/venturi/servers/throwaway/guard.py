"""The process between Venturi and a throw-away server: it outlives neither, and cleans up after both.

Run as a script of its own, with nothing but the standard library, by `venturi.servers.throwaway.guarded`.
Lines of JSON come in on standard input and are answered on standard output:

    {"run": [...], "input": TEXT, "log": PATH, ...}   a command is run to its end: {"status": 0}
    {"serve": [...], "signal": N, "grace": S, ...}    the server is started: {"pid": 123}, later {"ended": -9}

It ends when its input closes, which a kill -9 of its parent brings about too: the server is stopped,
the directory named as the first argument is removed. Should this process itself be killed, the kernel
signals the server (PR_SET_PDEATHSIG, Linux), and the parent removes the directory.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

_PR_SET_PDEATHSIG = 1
_KILLED_SECONDS = 5.0
_POLL_SECONDS = 0.02


class Closed(Exception):
    """Standard input has ended: nobody wants the server any more."""


class Guard:
    """Reads orders, keeps one child."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._child: subprocess.Popen[bytes] | None = None
        self._signal = int(signal.SIGTERM)
        self._grace = 10.0
        self._pending = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(0, selectors.EVENT_READ)

    def follow(self) -> None:
        """Carries out orders. Raises Closed at the end of input."""
        while True:
            order = self._order()
            try:
                if "run" in order:
                    self._answer(status=self._run(order))
                else:
                    self._signal, self._grace = int(order["signal"]), float(order["grace"])
                    self._child = self._start(order["serve"], order, self._signal)
                    self._answer(pid=self._child.pid)
            except (OSError, subprocess.SubprocessError) as error:
                self._answer(error=str(error))

    def _order(self) -> dict[str, Any]:
        while b"\n" not in self._pending:
            self._watch()
        line, _, self._pending = self._pending.partition(b"\n")
        order: dict[str, Any] = json.loads(line)
        return order

    def _watch(self) -> None:
        """Waits a moment for input; tells when the server has ended. Raises Closed at the end of input."""
        child = self._child
        self._read(0.1 if child is not None else None)
        if child is not None and child.poll() is not None:
            self._child = None
            self._answer(ended=child.returncode)

    def _read(self, seconds: float | None) -> None:
        if self._selector.select(seconds):
            piece = os.read(0, 65536)
            if not piece:
                raise Closed
            self._pending += piece

    def _run(self, order: dict[str, Any]) -> int:
        child = self._start(order["run"], order, signal.SIGKILL)
        try:
            if child.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.write(order["input"].encode())
                    child.stdin.close()
            while child.poll() is None:
                self._read(_POLL_SECONDS)
        except BaseException:
            _end(child, signal.SIGKILL, 0.0)
            raise
        return child.returncode

    def _start(self, command: list[str], order: dict[str, Any], last: int) -> subprocess.Popen[bytes]:
        """Starts a child that gets the signal `last` should this process be killed."""
        owner = order.get("owner")
        log = open(order["log"], "ab")  # noqa: SIM115 - the child's, closed below
        as_owner = {"user": owner[0], "group": owner[1], "extra_groups": []} if owner else {}
        with log:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE if order.get("input") is not None else subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=order.get("cwd") or self._directory,
                env=order["environment"],
                start_new_session=True,
                preexec_fn=die_with(os.getpid(), last),
                **as_owner,
            )

    def _answer(self, **fields: Any) -> None:
        # A parent that was killed reads no more; the closed input says so next.
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(fields).encode() + b"\n")

    def end(self) -> None:
        """Stops the server, removes the directory."""
        if self._child is not None:
            _end(self._child, self._signal, self._grace)
        shutil.rmtree(self._directory, ignore_errors=True)


def die_with(parent: int, number: int) -> Callable[[], None]:
    """For the child between fork and exec, after it has changed its user, which would clear the wish."""
    try:
        prctl = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda: None  # no Linux: the parent of this process sees to it

    def wish() -> None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)

    return wish


def _end(child: subprocess.Popen[bytes], number: int, grace: float) -> None:
    """Ends a child by a signal, and after `grace` seconds its whole process group by force."""
    with contextlib.suppress(ProcessLookupError):
        child.send_signal(number)
    deadline = time.monotonic() + grace
    while child.poll() is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    # The group too where the child is gone: helpers of its own must not hold the directory.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(_KILLED_SECONDS)


def main() -> None:
    # Ctrl-C and a closed terminal are for the parent, which closes our input when it is done. Handlers, for
    # a signal that is ignored stays ignored in the programs started from here.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, _closed)
    os.umask(0o077)
    guard = Guard(sys.argv[1])
    with contextlib.suppress(Closed):
        try:
            guard.follow()
        finally:
            guard.end()


def _closed(*_: object) -> None:
    raise Closed


if __name__ == "__main__":
    main()
