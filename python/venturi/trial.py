"""One trial: from a cell to the spec that Rust executes, and back to the record that is stored.

Both documents are described in docs/format.md. An `Executor` turns a spec into a
record: `CoreExecutor` by measuring, `venturi.model.ModelExecutor` by a formula.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from venturi.errors import ExitCode, VenturiError
from venturi.tcp_probe import probe_tcp

__all__ = [
    "FORMAT_VERSION",
    "Cell",
    "CoreExecutor",
    "Executor",
    "Progress",
    "TrialControl",
    "build_spec",
    "completed",
    "failed_record",
    "run_with_progress",
    "shorten_errors",
    "trial_id",
    "trial_line",
]

FORMAT_VERSION = 1
# Of the text of an error. What peers say, as a rule one line, is bounded by them alone.
_MOST_TEXT = 4000
# The progress line's poll; nothing else of Python runs while a clock does.
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Cell:
    """One point of the matrix. `parameters` are flat and go into every trial's line."""

    parameters: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Readable, and the same in every run of the same cell: get-2x4096-1a2b3c4d."""
        # What is null is left out, so that a parameter added by a later version changes no id.
        identity = {
            name: value
            for name, value in self.parameters.items()
            if value is not None and name != "row_bytes"
        }
        text = json.dumps([identity, dict(self.options)], sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:8]
        p = self.parameters
        return f"{p['operation']}-{p['streams']}x{p['rows_per_batch']}-{digest}"

    @property
    def payload_bytes(self) -> int | None:
        """Bytes that one trial moves; None where that is not known before (fixed time, remote data)."""
        p = self.parameters
        if p.get("rows_per_stream") is None or p.get("row_bytes") is None:
            return None
        return int(p["rows_per_stream"] * p["row_bytes"] * p["streams"])

    @property
    def message_bytes(self) -> int | None:
        """Payload bytes of one batch, the message size of the TCP ceiling."""
        p = self.parameters
        return None if p.get("row_bytes") is None else max(1, int(p["rows_per_batch"] * p["row_bytes"]))


def trial_id(run: str, cell: str, repeat: int, warmup: bool, order: int) -> str:
    """An id that is unique in a run (and, by the run's name, among runs)."""
    text = f"{run}\0{cell}\0{repeat}\0{warmup}\0{order}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def build_spec(
    cell: Cell,
    trial: str,
    target: str,
    data: Mapping[str, Any],
    timeout_ns: int = 30_000_000_000,
    sample_interval_ns: int = 100_000_000,
    options: Mapping[str, Any] | None = None,
    ingest: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The trial spec of docs/format.md. `target` is the address to use, with the real host and port;
    `options`, where given, are those of the cell with what depends on this machine; `ingest` says which
    columns of a file make points."""
    p = cell.parameters
    upserts = {name: p[name] for name in ("in_flight", "generate", "max_errors", "retries") if p.get(name)}
    if p["operation"] == "ingest":
        upserts["generate"] = p["generate"] or "inline"
        if ingest is not None:
            upserts["ingest"] = dict(ingest)
    if p.get("key"):
        upserts["upsert"] = {"key": p["key"], "add": p.get("add") or []}
    return {
        "trial": trial,
        "target": target,
        "options": dict(cell.options if options is None else options),
        "operation": p["operation"],
        "data": dict(data),
        "rows_per_batch": p["rows_per_batch"],
        "rows_per_stream": p.get("rows_per_stream"),
        "duration_ns": p.get("duration_ns"),
        "streams": p["streams"],
        "threads": p["threads"],
        "rate": p.get("rate"),
        **upserts,
        # For whoever places them; the engine of each hears of its share only.
        **({"loaders": p["loaders"]} if p.get("loaders") else {}),
        "verify": p["verify"],
        "include_setup": p["include_setup"],
        "pin": p.get("pin"),
        "timeout_ns": timeout_ns,
        "sample_interval_ns": sample_interval_ns,
    }


def trial_line(
    record: Mapping[str, Any], *, run: str, trial: str, cell: Cell, repeat: int, warmup: bool, order: int
) -> dict[str, Any]:
    """A line of trials.jsonl: the record with what Python adds, in a fixed order."""
    line = {
        "format": FORMAT_VERSION,
        "kind": "trial",
        "run": run,
        "trial": trial,
        "cell": cell.id,
        "repeat": repeat,
        "warmup": warmup,
        "order": order,
        "parameters": dict(cell.parameters),
        **record,
    }
    shorten_errors(line)
    return line


def shorten_errors(line: dict[str, Any]) -> None:
    """Cuts the texts of a line's errors to what somebody may want to read."""
    failure, kinds = line.get("error"), line.get("errors")
    found = [failure, *((kinds.get("kinds") or ()) if isinstance(kinds, dict) else ())]
    for one in found:
        text = one.get("message") if isinstance(one, dict) else None
        if isinstance(text, str) and len(text) > _MOST_TEXT:
            one["message"] = f"{text[:_MOST_TEXT]}... ({len(text):,} characters)"


def failed_record(
    kind: str, message: str, outcome: str = "failed", started_unix_ns: int = 0
) -> dict[str, Any]:
    """The record of a trial that did not even begin: everything zero, with its reason."""
    return {
        "outcome": outcome,
        "error": {"kind": kind, "message": message, "stream": None},
        "target": None,
        "counts": {"rows": 0, "batches": 0, "payload_bytes": 0, "wire_bytes": 0, "stored_bytes": None},
        "times": {
            "started_unix_ns": started_unix_ns,
            "setup_ns": 0,
            "interval_ns": 0,
            "verify_ns": 0,
            "start_skew_ns": 0,
            "steady_ns": 0,
            "steady_rows": 0,
            "steady_payload_bytes": 0,
        },
        "verification": None,
        "errors": None,
        "cpu": None,
        "stages": None,
        "workers": None,
        "resources": None,
        "streams": [],
        "latency": None,
        "schedule": None,
        "pin": None,
        "instrument": None,
        "samples": None,
    }


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

    def run_trial(self, spec: str, control: TrialControl) -> str:
        """Runs to the end, however the trial ends: a failure is a record too."""

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        """Measures the raw TCP ceiling."""

    def probe(self, spec: str, control: TrialControl) -> str:
        """Measures a limit of this host: memory, disk, codec."""


class CoreExecutor:
    """Measures, by the Rust engine."""

    needs_server = True
    measures = True

    def __init__(self) -> None:
        self._core = load_core()

    def control(self) -> TrialControl:
        control: TrialControl = self._core.Control()
        return control

    def run_trial(self, spec: str, control: TrialControl) -> str:
        return _text(self._core.run_trial(spec, control))

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        return probe_tcp(self._core, spec, control)

    def probe(self, spec: str, control: TrialControl) -> str:
        return _text(self._core.probe(spec, control))


def load_core() -> Any:
    """The compiled half. Raises VenturiError where this installation has none."""
    try:
        import importlib

        return importlib.import_module("venturi._core")
    except ImportError as error:
        raise VenturiError(
            f"the compiled part of Venturi (venturi._core) cannot be loaded: {error}",
            ExitCode.INTERNAL,
            hint="install the wheel (pip install venturi), or build it here with: maturin develop --release",
        ) from None


def _text(answer: object) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


def run_with_progress(
    call: Callable[[str, TrialControl], str],
    spec: Mapping[str, Any],
    control: TrialControl,
    on_progress: Callable[[Progress], None] | None = None,
    poll_seconds: float = POLL_SECONDS,
) -> dict[str, Any]:
    """Runs a trial or a probe in a thread of its own while this one polls its counters.

    The main thread stays free for signals: a Ctrl-C handler can call `control.cancel()`.
    Errors of the call are raised here.
    """
    answer: list[str] = []
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
    record: dict[str, Any] = json.loads(answer[0])
    return record


def completed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with every field there: one that broke off early may have little but its error."""
    error = record.get("error") or {}
    empty = failed_record(error.get("kind", "internal"), error.get("message", ""))
    return {**empty, **record}
