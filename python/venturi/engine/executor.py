"""What runs a trial, and how its progress is reported."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from venturi.common.credentials import named
from venturi.common.environment import open_files
from venturi.common.errors import ExitCode, VenturiError
from venturi.common.runtime import load_core
from venturi.engine import plugin_calls, subprocess_executor
from venturi.engine.tcp_probe import probe_tcp
from venturi.targets.system import is_driver

__all__ = ["CoreExecutor", "Executor", "Progress", "TrialControl", "run_with_progress"]

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
    """Turns specs into records."""

    # Whether trials and probes need a server process at the other end.
    needs_server: bool
    # Whether what it answers was measured: only that may be kept for later runs.
    measures: bool

    def control(self) -> TrialControl:
        """A fresh handle, good for one trial."""

    def run_trial(self, spec: str, control: TrialControl) -> str | dict[str, Any]:
        """Runs to the end, however the trial ends: a failure is a record too. Whoever has the record in this
        process gives itself: that of a hundred loaders is megabytes as JSON."""

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        """Measures the raw TCP ceiling."""

    def probe(self, spec: str, control: TrialControl) -> str:
        """Measures a limit of this host: memory, disk, codec, pipe."""


class CoreExecutor:
    """Measures, by the Rust engine."""

    needs_server = True
    measures = True

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
        return subprocess_executor.Handle(self._core.Control())

    def run_trial(self, spec: str, control: TrialControl) -> str:
        named(spec)  # a loader has read no scenario
        if is_driver(json.loads(spec)["target"]):
            assert isinstance(control, subprocess_executor.Handle)
            return subprocess_executor.run(spec, control)
        return _text(plugin_calls.run_trial(self._core, spec, _of(control)))

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        return probe_tcp(self._core, spec, _of(control))

    def probe(self, spec: str, control: TrialControl) -> str:
        return _text(self._core.probe(spec, _of(control)))


def _of(control: TrialControl) -> Any:
    """The core's own handle."""
    return control.core if isinstance(control, subprocess_executor.Handle) else control


def _text(answer: object) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


def run_with_progress(
    call: Callable[[str, TrialControl], str | dict[str, Any]],
    spec: Mapping[str, Any],
    control: TrialControl,
    on_progress: Callable[[Progress], None] | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> dict[str, Any]:
    """Runs a trial or a probe in a thread of its own while this one polls its counters.

    The main thread stays free for signals: a Ctrl-C handler can call `control.cancel()`.
    Errors of the call are raised here.
    """
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
