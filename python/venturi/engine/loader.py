"""A loader: runs a trial, or its share of one, in the process or on the host where the streams shall run."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypedDict

from venturi.common import temporary
from venturi.common.environment import describe, link, own_address, read, usable_cores
from venturi.common.runtime import load_core
from venturi.engine import plugin_calls
from venturi.engine.calls import Process, serve_parent
from venturi.engine.spec import FORMAT_VERSION, failed_record
from venturi.targets.urls import each_host


def probe_tcp(core: Any, text: str, control: Any) -> str:
    """As the core's, whose probes have one host each. `first` in the spec: the number of the first stream."""
    spec = json.loads(text)
    first = int(spec.pop("first", 0))
    found = each_host(spec["target"])
    turns = [(first + n) % len(found) for n in range(int(spec["streams"]))]
    parts = [spec | {"target": url, "streams": turns.count(n)} for n, url in enumerate(found) if n in turns]
    if len(parts) == 1:
        return as_text(core.probe_tcp(json.dumps(parts[0]), control))
    with ThreadPoolExecutor(len(parts), "venturi-probe") as pool:
        answers = pool.map(lambda part: as_text(core.probe_tcp(json.dumps(part), control)), parts)
        return json.dumps(joined([json.loads(answer) for answer in answers]))


def joined(answers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Several that ran at once, as one; the first that failed, where one did."""
    bad = next((answer for answer in answers if answer.get("outcome") != "ok"), None)
    if bad is not None:
        return bad
    return {
        **answers[0],
        "bytes": sum(answer["bytes"] for answer in answers),
        "interval_ns": max(answer["interval_ns"] for answer in answers),
    }


def as_text(answer: object) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


PHASES = ("set-up", "planned", "ready", "running", "counted", "verifying", "done")
ENDED = "ended"
"""What `wait` answers where the trial has ended without an outcome of ok."""
_HANDING_OVER = 10.0
_GRACE_SECONDS = 15.0
"""From the end of the caller until a trial that was cancelled has to have ended."""


class PhaseReply(TypedDict):
    """What a loader answers at a phase. A dictionary: it crosses hosts as JSON."""

    phase: str
    tallies: str | None
    """What each stream has moved, once all is counted: JSON, see docs/format.md."""
    record: str | None
    """The record's JSON, once the trial has ended."""


def reached(phase: str, wanted: str) -> bool:
    """Whether `phase` is `wanted` or a later one."""
    return phase in PHASES and PHASES.index(phase) >= PHASES.index(wanted)


class Loader:
    """One trial at a time; methods may be called from any thread. What it takes and answers are plain values
    and JSON, so that it can be an actor or stand in a task."""

    def __init__(self, core: Any = None) -> None:
        if core is None:
            core = load_core()
        self._core = core
        self._control: Any = None
        self._thread: threading.Thread | None = None
        self._record: str | None = None
        self._beginning = threading.Lock()
        self._trial: str | None = None
        self._unwanted: str | None = None
        self._held: temporary.LockedTempDir | None = None

    def identify(self) -> dict[str, Any]:
        """Who this is: versions, that must be the driver's; host and process; the environment."""
        environment = describe()
        return {
            "venturi": environment["software"]["venturi"],
            "core": self._core.version() if hasattr(self._core, "version") else None,
            "format": FORMAT_VERSION,
            "python": environment["software"]["python"],
            "hostname": socket.gethostname(),
            "boot_id": environment["boot_id"],
            "pid": os.getpid(),
            "ip": own_address(),
            "cpus": usable_cores(),
            "network": link("/proc/self/ns/net"),
            "cgroup": read("/proc/self/cgroup"),
            "environment": environment,
        }

    def now(self) -> int:
        """This host's clock: unix time in ns."""
        return time.time_ns()

    def begin(self, spec: str, phase: str, seconds: float) -> PhaseReply:
        """Starts a trial, and waits as `wait` does. Raises RuntimeError if one is still running."""
        with self._beginning:
            if self._thread is not None and self._thread.is_alive():
                raise RuntimeError("the trial before has not ended")
            self._control, self._record = self._core.Control(), None
            self._trial = json.loads(spec).get("trial")
            if self._trial == self._unwanted:
                self._control.cancel()
            self._unwanted = None
            self._thread = threading.Thread(
                target=self._run, args=(spec, self._control), name="venturi-loader", daemon=True
            )
            self._thread.start()
        return self.wait(phase, seconds)

    def _run(self, spec: str, control: Any) -> None:
        try:
            answer = plugin_calls.run_trial(self._core, spec, control)
            self._record = as_text(answer)
        except ValueError as error:
            self._record = json.dumps(failed_record("usage", str(error)))
        except BaseException as error:  # the driver is told; a thread that ends silently would not be noticed
            self._record = json.dumps(failed_record("internal", f"{type(error).__name__}: {error}"))

    def wait(self, phase: str, seconds: float) -> PhaseReply:
        """Waits until the trial has come to `phase`; tells where it is. That is an earlier phase where the
        time ran out, a later one, or `ENDED` where the trial has ended otherwise than well."""
        deadline = time.monotonic() + seconds
        while not self._over() and (left := deadline - time.monotonic()) > 0:
            # In slices: a trial that breaks off may never come to a phase.
            if self._control.wait(phase, min(left, 0.25)):
                break
        phase_reached, tallies = self.phase(), self._control.tallies()
        if (record := self._record) is not None and self._thread is not None:
            # Nearly at its end; then another one may begin.
            self._thread.join(_HANDING_OVER)
        return {
            "phase": phase_reached,
            "tallies": None if tallies is None else str(tallies),
            "record": record,
        }

    def phase(self) -> str:
        """Where the trial is now."""
        if self._over():
            return "done" if json.loads(self._record or "{}").get("outcome") == "ok" else ENDED
        if self._control is None:
            return PHASES[0]
        phase = str(self._progress().get("phase", PHASES[0]))
        if phase == PHASES[-1] and self._thread is not None:
            # The record is about to be handed over, and says how it ended.
            self._thread.join(_HANDING_OVER)
            return self.phase() if self._over() else phase
        return phase

    def _over(self) -> bool:
        return self._record is not None

    def idle(self) -> bool:
        """Whether a trial can begin here."""
        return self._thread is None or not self._thread.is_alive()

    def receive(self, name: str, offset: int, chunk: bytes) -> str:
        """A piece of a file that this host lacks; answers where it is. It goes with this process."""
        if self._held is None:
            self._held = temporary.make("loader")
            weakref.finalize(self, self._held.remove)
        path = self._held.path / Path(name).name
        with open(path, "r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(chunk)
        return str(path)

    def start_at(self, unix_ns: int, phase: str, seconds: float) -> PhaseReply:
        """Gives the start instant, by this host's clock, and waits as `wait` does."""
        self._control.start_at(unix_ns)
        return self.wait(phase, seconds)

    def conclude(self, tallies: str) -> None:
        """To the lead: the tallies of all the others, to verify with."""
        self._control.conclude(tallies)

    def cancel(self, trial: str | None = None) -> None:
        """Ends the trial soon; one of that name also where this call has overtaken its `begin`."""
        with self._beginning:
            if trial is not None and trial != self._trial:
                self._unwanted = trial
            elif self._control is not None:
                self._control.cancel()

    def result(self, seconds: float) -> str | None:
        """The record's JSON, None if the trial has not ended in that time."""
        if self._thread is not None:
            self._thread.join(seconds)
        return self._record

    def progress(self, trial: str | None = None) -> dict[str, Any]:
        """Counters of the streams here, and the phase; empty if no trial, or not that one, has begun."""
        if self._control is None or trial not in (None, self._trial):
            return {}
        return {**self._progress(), "phase": self.phase()}

    def _progress(self) -> dict[str, Any]:
        found = self._control.progress()
        return dict(json.loads(found) if isinstance(found, str) else found)

    def probe_tcp(self, spec: str) -> str:
        """Raw TCP from here."""
        self._control = self._core.Control()
        return probe_tcp(self._core, spec, self._control)

    def probe(self, spec: str) -> str:
        """A limit of this host."""
        self._control = self._core.Control()
        return as_text(self._core.probe(spec, self._control))


class LoaderProcess(Process):
    """A loader in a process on this machine: a `venturi.cluster.trial.loaders.Handle`; close it."""

    def __init__(self, name: str, address: str | None = None, within: Sequence[str] = ()) -> None:
        """`address`: where it runs; `within`: what its command begins with."""
        self.address = address
        self.identity: Mapping[str, Any] = {}
        super().__init__(name, __name__, within=within)


def main() -> None:
    """The process of a `LoaderProcess`."""
    loader = Loader()
    serve_parent(loader)
    # The caller has gone.
    loader.cancel()
    loader.result(_GRACE_SECONDS)
    # A call into a driver may never return.
    os._exit(0)


if __name__ == "__main__":
    main()
