"""Trials and probes by loaders, however they are placed: who they are, their clocks, and cells in this
process beside them (`--on here,WHERE`).
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from venturi.cluster.trial import clock, coordinator
from venturi.cluster.trial.loaders import ClusterControl, Handle, divide
from venturi.common.credentials import masked
from venturi.common.environment import boot_id, link, version
from venturi.common.errors import UnreachableError, VenturiError
from venturi.common.runtime import load_core
from venturi.engine.executor import CoreExecutor, Executor, TrialControl
from venturi.engine.loader import joined
from venturi.engine.spec import FORMAT_VERSION, failed_record

_PROBE_SECONDS = 120.0
_CLOCK_SECONDS = 10.0


def identify(loaders: Sequence[Handle], seconds: float) -> None:
    """Asks loaders that are new who they are. Raises VenturiError if one does not answer, or runs another
    version."""
    calls = [(loader, loader.call("identify")) for loader in loaders if not loader.identity]
    wait([call for _, call in calls], seconds)
    for loader, call in calls:
        if not call.done():
            raise UnreachableError(f"{loader.name} did not start within {seconds:g} s")
        if error := call.exception():
            text = masked(" ".join(str(error).split()))[:300] or type(error).__name__
            raise UnreachableError(f"{loader.name} does not start: {text}")
        loader.identity = dict(call.result())
        expected = {"venturi": version("venturi"), "core": load_core().version(), "format": FORMAT_VERSION}
        for name, value in expected.items():
            if (other := loader.identity.get(name)) != value:
                where = loader.address or loader.identity["hostname"]
                raise VenturiError(
                    f"{loader.name} ({where}) has {name} {other}, this host {value}",
                    hint="install the same version on all hosts",
                )


def on_this_host(identity: Mapping[str, Any]) -> bool:
    """Whether a loader has this process's machine, files and loopback."""
    return identity.get("boot_id") == boot_id() and identity.get("network") == link("/proc/self/ns/net")


def clocks(loaders: Sequence[Handle]) -> list[clock.Clock]:
    """The clock of each loader's machine, measured again if that was long ago. Raises what a call does."""
    now = time.time_ns()
    # A loader that does not say which machine it is on has one of its own.
    machines = [loader.identity.get("boot_id") or loader.name for loader in loaders]
    first = dict(zip(reversed(machines), reversed(loaders), strict=True))
    first.pop(boot_id(), None)
    stale = [loader for loader in first.values() if clock.stale(loader.clock, now)]
    before = [loader.clock for loader in stale]
    found = clock.measure([partial(loader.call, "now") for loader in stale], _CLOCK_SECONDS, before)
    for loader, measured in zip(stale, found, strict=True):
        loader.clock = measured
    for machine, loader in zip(machines, loaders, strict=True):
        loader.clock = first[machine].clock if machine in first else clock.ONE_MACHINE
    return [loader.clock.at(time.time_ns()) for loader in loaders]


class LoadersExecutor(Executor):
    """Runs trials and probes by loaders."""

    @abstractmethod
    def ready(self, count: int, spec: Mapping[str, Any]) -> Sequence[Handle]:
        """So many loaders that answer and have nothing to do. Raises VenturiError, and ValueError if they do
        not reach what the spec names."""

    def localised(self, loader: Any, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The spec with files where the loader's host has them."""
        return dict(spec)

    def trouble(self, spec: Mapping[str, Any]) -> str | None:
        """What a trial needs and is gone, besides its loaders; None while all is there."""
        return None

    def chosen(self, name: str) -> Sequence[Handle]:
        """The loader of that name, to probe from."""
        return self.ready(1, {})

    def control(self) -> TrialControl:
        return ClusterControl()

    def run_trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        """The record of a spec, over as many loaders as it has `loaders`; without, of one that runs it
        whole."""
        assert isinstance(control, ClusterControl)
        spec = json.loads(text)
        wanted = spec.pop("loaders", None)
        try:
            loaders = self.ready(wanted or 1, spec)
        except VenturiError as error:
            record = failed_record("lost", error.message, started_unix_ns=time.time_ns())
        else:
            if wanted is None:
                # A limit of one host's engine.
                record = coordinator.alone(self.localised(loaders[0], spec), loaders[0], control)
            else:
                record = coordinator.run(
                    *(spec, loaders, clocks(loaders), control),
                    localised=self.localised,
                    trouble=partial(self.trouble, spec),
                )
        if control.cancelled and record["outcome"] == "failed" and record["error"]["kind"] == "lost":
            # Slurm, for one, ends the run and its hosts at the same moment.
            record["outcome"] = "interrupted"
        return record

    def probe_tcp(self, text: str, control: TrialControl) -> str:
        """Raw TCP by several loaders at once, with a share of the connections each, or by one alone. `from`
        in the spec says which: `loaders=4`, or `loader-2`; `first` is the number of the first stream, which
        says the server. Raises VenturiError if one does not answer."""
        spec = json.loads(text)
        name, streams, first = str(spec.pop("from", "")), int(spec["streams"]), int(spec.pop("first", 0))
        _, several, count = name.partition("=")
        at_once = bool(several) or not name
        loaders = self.ready(min(int(count or 1), streams), {}) if at_once else self.chosen(name)
        shares = [
            spec | {"streams": share.count, "first": first + share.first}
            for share in divide(streams, len(loaders))
        ]
        calls = [
            loader.call("probe_tcp", json.dumps(own)) for loader, own in zip(loaders, shares, strict=True)
        ]
        return json.dumps(joined(_answers(loaders, calls, control)))

    def probe(self, text: str, control: TrialControl) -> str:
        """A limit of the first loader's host."""
        (loader,) = self.ready(1, {})
        spec = self.localised(loader, json.loads(text))
        (answer,) = _answers([loader], [loader.call("probe", json.dumps(spec))], control)
        return json.dumps(answer)


def _answers(
    loaders: Sequence[Handle], calls: Sequence[Future[Any]], control: TrialControl
) -> list[dict[str, Any]]:
    """The answers of probes; a cancel ends them."""
    assert isinstance(control, ClusterControl)
    pending, cancelled, until = set(calls), False, time.monotonic() + _PROBE_SECONDS
    while pending and time.monotonic() < until:
        pending = wait(pending, 0.1).not_done
        if control.cancelled and not cancelled:
            cancelled = True
            for loader in loaders:
                loader.call("cancel")
    if pending:
        raise UnreachableError(f"no answer of a probe within {_PROBE_SECONDS:g} s")
    return [json.loads(call.result()) for call in calls]


class _Control(ClusterControl):
    """The handle on a trial, wherever it runs."""

    def __init__(self, local: TrialControl) -> None:
        super().__init__()
        self.local = local
        self.on_this_host = False

    def cancel(self) -> None:
        super().cancel()
        self.local.cancel()

    def progress(self) -> Any:
        return self.local.progress() if self.on_this_host else super().progress()


class Beside:
    """Trials that have loaders, and probes of their ways, run where `placed` runs them; all else does in this
    process."""

    needs_server = True
    measures = True

    def __init__(self, placed: Any) -> None:
        self._placed = placed
        self._local = CoreExecutor()

    def __getattr__(self, name: str) -> Any:
        # What only some placements have: loaders, check, environments, starter.
        return getattr(self._placed, name)

    def control(self) -> TrialControl:
        return _Control(self._local.control())

    def _run_locally(self, method: str, spec: str, control: TrialControl) -> str:
        assert isinstance(control, _Control)
        control.on_this_host = True
        return str(getattr(self._local, method)(spec, control.local))

    def run_trial(self, spec: str, control: TrialControl) -> str | dict[str, Any]:
        if json.loads(spec).get("loaders"):
            placed: dict[str, Any] = self._placed.run_trial(spec, control)
            return placed
        return self._run_locally("run_trial", spec, control)

    def probe_tcp(self, spec: str, control: TrialControl) -> str:
        if json.loads(spec).get("from"):
            return str(self._placed.probe_tcp(spec, control))
        return self._run_locally("probe_tcp", spec, control)

    def probe(self, spec: str, control: TrialControl) -> str:
        return self._run_locally("probe", spec, control)

    def close(self) -> None:
        self._placed.close()
