"""A trial in a process of its own, which a driver may crash; or a trial, or a probe, in another network
namespace.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from typing import Any, Literal
from urllib.parse import unquote

from venturi.common.credentials import HIDDEN, masked, without_secrets
from venturi.engine.calls import Gone
from venturi.engine.loader import LoaderProcess
from venturi.engine.spec import failed_record
from venturi.targets.system import is_driver

__all__ = ["Handle", "run"]

_PROGRESS_SECONDS = 0.1
_GRACE_SECONDS = 15.0
"""From a cancel until the process is ended: a driver may keep it."""
_FOR_EVER = 1e9
_MOST_SAID = 300
_LEAST_SECRET = 3
"""Letters: what is shorter stands in any text."""


class Handle:
    """The handle on a trial, in this process or in another."""

    def __init__(self, core: Any) -> None:
        self.core = core
        self.cancelled = False
        self._counters: object = None

    def cancel(self) -> None:
        self.cancelled = True
        self.core.cancel()

    def progress(self) -> object:
        return self.core.progress() if self._counters is None else self._counters

    def counted(self, counters: object) -> None:
        """Notes what the other process has counted so far."""
        self._counters = counters


def run(
    spec: str,
    handle: Handle,
    within: Sequence[str] = (),
    call: Literal["run_trial", "probe_tcp"] = "run_trial",
) -> str:
    """Runs a trial or a probe to its end, however that comes; the record's JSON. `within`: what the process's
    command begins with. Raises ValueError if a probe's spec cannot be read."""
    process = LoaderProcess("trial", within=within)
    try:
        if call == "probe_tcp":
            return str(_answer(process, process.call("probe_tcp", spec), handle))
        process.call("begin", spec, "set-up", 0.0).result()
        return str(_answer(process, process.call("result", _FOR_EVER), handle))
    except Gone:
        return json.dumps(_lost(spec, process.status(), process.errors()))
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    finally:
        process.close(0.0)


def _answer(process: LoaderProcess, call: Future[Any], handle: Handle) -> Any:
    """The answer of a call. While it lasts, counters go to the handle, and a cancel from there."""
    asked, until = process.call("progress"), float("inf")
    while wait([call], _PROGRESS_SECONDS).not_done:
        if handle.cancelled:
            process.call("cancel")
            until = min(until, time.monotonic() + _GRACE_SECONDS)
            if time.monotonic() > until:
                process.kill()
        if asked.done():
            if asked.exception() is None:
                handle.counted(asked.result())
            asked = process.call("progress")
    return call.result()


def _lost(spec: str, status: int, said: str) -> dict[str, Any]:
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
    words = masked(said)
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
