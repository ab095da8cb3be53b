"""What runs a trial, here or in another process, and how its progress is reported."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, Literal, Protocol
from urllib.parse import unquote

from venturi.common.credentials import HIDDEN, masked, named, without_secrets
from venturi.common.environment import open_files
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.runtime import load_core
from venturi.engine import plugin_calls
from venturi.engine.calls import Gone
from venturi.engine.loader import LoaderProcess, as_text, probe_tcp
from venturi.engine.spec import failed_record
from venturi.targets.system import is_driver

_PROGRESS_SECONDS = 0.1
_GRACE_SECONDS = 15.0
"""From a cancel until the process is ended: a driver may keep it."""
_FOR_EVER = 1e9
_MOST_LETTERS = 300
_LEAST_SECRET = 3
"""Letters: what is shorter stands in any text."""


class TrialHandle:
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


def run_in_process(
    spec: str,
    handle: TrialHandle,
    within: Sequence[str] = (),
    call: Literal["run_trial", "probe_tcp"] = "run_trial",
) -> str:
    """Runs a trial or a probe to its end, however that comes; the record's JSON. `within`: what the process's
    command begins with. Raises ValueError if a probe's spec cannot be read."""
    process = LoaderProcess("trial", within=within)
    try:
        if call == "probe_tcp":
            return str(_answer(process, process.call("probe_tcp", spec), handle))
        _answer(process, process.call("begin", spec, "set-up", 0.0), handle)
        return str(_answer(process, process.call("result", _FOR_EVER), handle))
    except Gone:
        return json.dumps(_lost(spec, process.status(), process.errors()))
    except RuntimeError as error:
        raise ValueError(str(error)) from None
    finally:
        process.close(0.0)


def _answer(process: LoaderProcess, call: Future[Any], handle: TrialHandle) -> Any:
    """The answer of a call. While it lasts, counters go to the handle, and a cancel from there."""
    pending, until = process.call("progress"), float("inf")
    while wait([call], _PROGRESS_SECONDS).not_done:
        if handle.cancelled:
            process.call("cancel")
            until = min(until, time.monotonic() + _GRACE_SECONDS)
            if time.monotonic() > until:
                process.kill()
        if pending.done():
            if pending.exception() is None:
                handle.counted(pending.result())
            pending = process.call("progress")
    return call.result()


def _lost(spec: str, status: int, output: str) -> dict[str, Any]:
    """The record of a trial whose process ended before its end."""
    if status == -signal.SIGKILL:
        ended = "was killed"
    elif status < 0:
        with contextlib.suppress(ValueError):
            status = signal.Signals(-status).name  # type: ignore[assignment]
        ended = f"crashed ({status})"
    else:
        ended = f"ended with status {status}"
    fields = json.loads(spec)
    words = masked(output)
    for variable in ((fields.get("options") or {}).get("driver_option_env") or {}).values():
        if secret := os.environ.get(variable):
            for part in _parts(secret):
                words = words.replace(part, HIDDEN)
    lines = words.strip().splitlines()
    last = f"; its last words: {without_secrets(lines[-1])[:_MOST_LETTERS]}" if lines else ""
    if not is_driver(fields["target"]):
        return failed_record("internal", f"{fields['target']}: the process of the trial {ended}{last}")
    return failed_record(
        "plugin", f"{fields['target']}: the process that had loaded the driver {ended}{last}"
    )


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


LEAST_FILES = 64
"""Descriptors that a trial of one stream has room in, with the proofs before it."""

# The progress line's poll; nothing else of Python runs while a clock does.
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Progress:
    """Where the running trial is."""

    rows: int = 0
    payload_bytes: int = 0
    elapsed_ns: int = 0

    @classmethod
    def of(cls, counters: object) -> Progress:
        """From what `Control.progress()` answers: an object, or its JSON."""
        if isinstance(counters, str):
            counters = json.loads(counters)
        if not isinstance(counters, Mapping):
            return cls()
        return cls(
            rows=int(counters.get("rows") or 0),
            payload_bytes=int(counters.get("bytes") or counters.get("payload_bytes") or 0),
            elapsed_ns=int(counters.get("elapsed_ns") or 0),
        )


class TrialControl(Protocol):
    """The handle on a running trial; both methods may be called from any thread."""

    def cancel(self) -> None:
        """Ends the trial soon; its record is kept as interrupted."""

    def progress(self) -> object:
        """The counters right now."""


class Executor(Protocol):
    """Turns specs into records. Implementations inherit from it."""

    needs_server: bool = True
    """Whether trials and probes need a server process at the other end."""
    measures: bool = True
    """Whether what it answers was measured: only that may be kept for later runs."""
    elsewhere: bool = False
    """Whether what it measures are limits of other hosts than this one."""
    starter: Any = None
    """Starts servers elsewhere than here (`venturi.servers.reference.Starter`)."""

    def check(self, cells: Sequence[Any]) -> None:
        """Raises ScenarioError if it cannot reach what these cells name."""
        return

    def environments(self) -> dict[str, dict[str, Any]]:
        """The host and software of each loader, by its name."""
        return {}

    def control(self) -> TrialControl:
        """A fresh handle, good for one trial."""

    def run_trial(self, spec: str, control: TrialControl) -> str | dict[str, Any]:
        """Runs to the end, however the trial ends: a failure is a record too. Whoever has the record in this
        process gives itself: that of a hundred loaders is megabytes as JSON."""

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        """Measures the raw TCP ceiling."""

    def probe(self, spec: str, control: TrialControl) -> str:
        """Measures a limit of this host: memory, disk, codec, pipe."""


class CoreExecutor(Executor):
    """Measures, by the Rust engine."""

    def __init__(self) -> None:
        """Raises VenturiError if the system lets this process do too little for any trial."""
        if (files := open_files()) is not None and 0 <= files < LEAST_FILES:
            raise VenturiError(
                f"only {files} files may be open, and a trial needs {LEAST_FILES}",
                ExitCode.SCENARIO,
                hint="ulimit -n 65536",
            )
        self._core = load_core()

    def control(self) -> TrialControl:
        return TrialHandle(self._core.Control())

    def run_trial(self, spec: str, control: TrialControl) -> str:
        named(spec)  # a loader has read no scenario
        if is_driver(json.loads(spec)["target"]):
            assert isinstance(control, TrialHandle)
            return run_in_process(spec, control)
        return as_text(plugin_calls.run_trial(self._core, spec, _of(control)))

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        return probe_tcp(self._core, spec, _of(control))

    def probe(self, spec: str, control: TrialControl) -> str:
        return as_text(self._core.probe(spec, _of(control)))


def _of(control: TrialControl) -> Any:
    """The core's own handle."""
    return control.core if isinstance(control, TrialHandle) else control


def run_with_progress(
    call: Callable[[str, TrialControl], str | dict[str, Any]],
    spec: Mapping[str, Any],
    control: TrialControl,
    on_progress: Callable[[Progress], None] | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> dict[str, Any]:
    """Runs a trial or a probe in a thread of its own while this one polls its counters. The main thread stays
    free for signals: a Ctrl-C handler can call `control.cancel()`. Errors of the call are raised here."""
    answer: list[str | dict[str, Any]] = []
    trouble: list[BaseException] = []
    ended = threading.Event()
    text = json.dumps(spec)

    def work() -> None:
        try:
            answer.append(call(text, control))
        except BaseException as error:  # handed to the caller's thread, which raises it
            trouble.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=work, name="venturi-trial", daemon=True)
    thread.start()
    while not ended.wait(poll_seconds):
        if on_progress is not None:
            on_progress(Progress.of(control.progress()))
    thread.join()
    if trouble:
        raise trouble[0]
    found = answer[0]
    record: dict[str, Any] = json.loads(found) if isinstance(found, str) else found
    return record
