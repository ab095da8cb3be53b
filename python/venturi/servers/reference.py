"""Reference servers of our own, each a child process with its own CPU account.

A child says where it listens in one line of JSON, and ends by itself when its standard
input closes: also after a kill -9 of this process nothing stays behind.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.common.processes import is_ending

_READY_SECONDS = 20.0
_STOP_SECONDS = 5.0


class ReferenceServer:
    """`venturi serve flight` (or another `kind`) on free ports of the loopback interface; use as a context
    manager. It keeps the descriptors `hold` open as long as it lives. `within`: what its command begins with,
    where it is to run elsewhere; `patience`: seconds until it listens,
    `stopping`: until it ends when it is told to."""

    def __init__(
        self,
        *arguments: str,
        kind: str = "flight",
        hold: Sequence[int] = (),
        within: Sequence[str] = (),
        patience: float = _READY_SECONDS,
        stopping: float = _STOP_SECONDS,
    ) -> None:
        self._kind = kind
        self._hold = tuple(hold)
        self._within = tuple(within)
        self._patience, self._stopping = patience, stopping
        self._arguments = ["--port", "0", "--json", "--exit-with-parent", *arguments]
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._serving: int | None = None
        self.hello: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """host:port, or the path of its Unix socket"""
        return str(self.hello["address"])

    @property
    def url(self) -> str:
        """As the target of a run names it."""
        return str(self.hello["url"])

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> ReferenceServer:
        """Starts the child, unless it runs, and waits until it listens. Raises VenturiError with what it said
        otherwise."""
        if self._child is not None:
            return self
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        command = [*self._within, sys.executable, "-m", "venturi", "serve", self._kind, *self._arguments]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Ctrl-C is for the run, which stops its server when it is done with it.
            start_new_session=True,
            pass_fds=self._hold,
        )
        try:
            line = self._first_line()
            hello = json.loads(line)
            if not isinstance(hello, dict) or "address" not in hello:
                raise ValueError(line)
            self.hello = hello
            # One that cannot be seen may run in other namespaces, where its number means another.
            pid = hello.get("pid")
            self._serving = pid if isinstance(pid, int) and not is_ending(pid) else None
        except (ValueError, TimeoutError):
            said = self.complaint()
            self.stop()
            raise VenturiError(
                f"the server {self._kind} did not start: {said or 'it said nothing'}",
                ExitCode.UNREACHABLE,
                hint=f"try it by itself: venturi serve {self._kind}",
            ) from None
        except BaseException:
            self.stop()
            raise
        return self

    def _first_line(self) -> bytes:
        assert self._child is not None and self._child.stdout is not None
        deadline = time.monotonic() + self._patience
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                # One read a readiness, unbuffered, so that nothing waits in a buffer unseen.
                piece = self._child.stdout.read1(4096)  # type: ignore[attr-defined]
                if not piece:
                    raise ValueError("ended")
                line += piece
        return line

    @property
    def running(self) -> bool:
        """Whether it serves: neither it nor the process that serves for it, as a database does, is ending."""
        child = self._child
        if child is None or child.poll() is not None:
            return False
        return not any(is_ending(pid) for pid in {child.pid, self._serving or child.pid})

    def complaint(self) -> str:
        """The last lines the child wrote to its standard error."""
        if self._errors is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._child is not None:
                self._child.wait(0.5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        # Its own "error:" says it best; a hint after it speaks to somebody else.
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return errors[-1] if errors else " ".join(lines[-2:])

    def stop(self, at_once: bool = False) -> None:
        """Ends the child: by its closed input, then by signals; `at_once` by the last of them."""
        child = self._child
        if child is None:
            return
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for signal_number in (signal.SIGKILL,) if at_once else (0, signal.SIGTERM, signal.SIGKILL):
            child.send_signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(self._stopping)
                break
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        self._child = None

    def __enter__(self) -> ReferenceServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
