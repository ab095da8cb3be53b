"""A trial in a process of its own, which it may take down: it loads a driver, code of somebody else's. Or a
trial, or a probe, in a network namespace that this process is not in.

The call and its spec go there as a line; lines of JSON come back: counters, and at last the record.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from functools import partial
from typing import IO, Any, Literal
from urllib.parse import unquote

from venturi.common.core import load_core
from venturi.common.credentials import HIDDEN, masked, without_secrets
from venturi.engine.plugin_calls import run_trial
from venturi.engine.spec import failed_record
from venturi.engine.tcp_probe import probe_tcp
from venturi.targets.system import is_driver

__all__ = ["Handle", "run"]

Call = Literal["run_trial", "probe_tcp"]

_PROGRESS_SECONDS = 0.1
_GRACE_SECONDS = 15.0
"""From a cancel until the process is ended: a driver may keep it."""
_MOST_SAID = 300
_LEAST_SECRET = 3
"""Letters: what is shorter stands in any text."""


class Handle:
    """The handle on a trial, in this process or apart."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self._apart: subprocess.Popen[str] | None = None
        self._counters: object = None
        self._cancelled = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        self.core.cancel()
        with self._lock:
            self._cancelled = True
            self._tell()

    def progress(self) -> object:
        return self.core.progress() if self._counters is None else self._counters

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    def begun(self, process: subprocess.Popen[str]) -> None:
        """The trial runs in that process."""
        with self._lock:
            self._apart = process
            if self._cancelled:
                self._tell()

    def counted(self, counters: object) -> None:
        """What it has counted so far."""
        self._counters = counters

    def _tell(self) -> None:
        if self._apart is None or self._apart.stdin is None:
            return
        with contextlib.suppress(OSError, ValueError):
            self._apart.stdin.write("cancel\n")
            self._apart.stdin.flush()
        timer = threading.Timer(_GRACE_SECONDS, self._apart.kill)
        timer.daemon = True
        timer.start()


def run(spec: str, handle: Handle, within: Sequence[str] = (), call: Call = "run_trial") -> str:
    """Runs a trial to its end, however that comes; the record's JSON. `within`: what the process's command
    begins with. Raises ValueError: the spec cannot be read."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*within, sys.executable, "-m", "venturi.engine.apart"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            start_new_session=True,  # a Ctrl-C is this process' to hear
        )
        try:
            answer = _ended(process, {"call": call, "spec": json.loads(spec)}, handle)
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close() if pipe is not None else None
        if answer is None:
            return json.dumps(_lost(spec, process.returncode, said))
    if "refused" in answer:
        raise ValueError(answer["refused"])
    return str(answer["record"])


def _ended(process: subprocess.Popen[str], order: dict[str, Any], handle: Handle) -> dict[str, Any] | None:
    """The last word; None where the process ended without one."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
    handle.begun(process)
    for line in process.stdout:
        told = json.loads(line)
        if "progress" not in told:
            return dict(told)
        handle.counted(told["progress"])
    process.wait()
    return None


def _lost(spec: str, status: int, said: IO[bytes]) -> dict[str, Any]:
    """The record of a trial whose process ended before its end."""
    if status == -signal.SIGKILL:
        ended = "was killed"
    elif status < 0:
        with contextlib.suppress(ValueError):
            status = signal.Signals(-status).name  # type: ignore[assignment]
        ended = f"crashed ({status})"
    else:
        ended = f"ended with status {status}"
    asked = json.loads(spec)
    said.seek(0)
    words = masked(said.read().decode(errors="replace"))
    for variable in ((asked.get("options") or {}).get("driver_option_env") or {}).values():
        if secret := os.environ.get(variable):
            for part in _parts(secret):
                words = words.replace(part, HIDDEN)
    lines = words.strip().splitlines()
    last = f"; its last words: {without_secrets(lines[-1])[:_MOST_SAID]}" if lines else ""
    if not is_driver(asked["target"]):
        return failed_record("internal", f"{asked['target']}: the process of the trial {ended}{last}")
    return failed_record("plugin", f"{asked['target']}: the process that had loaded the driver {ended}{last}")


def _parts(secret: str) -> list[str]:
    """A secret, and the password in it where it is a URL or a line of settings, as the core hides them: the
    longest first, so that none is left of which another is a part."""
    found = [
        secret,
        *re.findall(r"://[^/?@:]*:([^/?]*)@", secret),
        *re.findall(r"(?i)pass\w*=([^\s?&;]+)", secret),
    ]
    every = sorted({*found, *map(unquote, found)}, key=len, reverse=True)
    return [part for part in every if len(part) >= _LEAST_SECRET]


def main() -> None:
    """The other side: what to call, and its spec, stand in the first line of standard input."""
    answers = os.fdopen(os.dup(1), "w")
    # What a driver prints is no answer.
    os.dup2(2, 1)
    core = load_core()
    control = core.Control()
    order = json.loads(sys.stdin.readline())
    calls = {"run_trial": partial(run_trial, core), "probe_tcp": partial(probe_tcp, core)}
    answer: dict[str, Any] = {}
    ended = threading.Event()

    def listen() -> None:
        for _ in sys.stdin:
            control.cancel()
        # Whoever asked has gone.
        control.cancel()
        if not ended.wait(_GRACE_SECONDS):
            os._exit(1)

    def work() -> None:
        try:
            answer["record"] = calls[order["call"]](json.dumps(order["spec"]), control)
        except ValueError as error:
            answer["refused"] = str(error)
        except BaseException as error:  # it would be told as a crash
            answer["record"] = json.dumps(failed_record("internal", f"{type(error).__name__}: {error}"))
        finally:
            ended.set()

    for task in (listen, work):
        threading.Thread(target=task, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):
        while not ended.wait(_PROGRESS_SECONDS):
            print(json.dumps({"progress": control.progress()}), file=answers, flush=True)
        print(json.dumps(answer), file=answers, flush=True)
    # A call of the driver that has not returned keeps nobody.
    os._exit(0)


if __name__ == "__main__":
    main()
