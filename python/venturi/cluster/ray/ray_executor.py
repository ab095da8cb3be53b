"""Trials on the hosts of a Ray cluster: a loader a host for the whole run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.cluster.ray.ray_servers import RayServers
from venturi.cluster.ray.ray_session import Places, Session, kill, later, node_id
from venturi.cluster.trial import lineup, probing
from venturi.cluster.trial.alike import is_here, unlike
from venturi.cluster.trial.clock import ONE_MACHINE, Clock, measure, stale
from venturi.cluster.trial.handle import ClusterControl
from venturi.common.credentials import masked
from venturi.common.errors import ExitCode, ScenarioError, VenturiError
from venturi.engine.executor import TrialControl
from venturi.engine.loader import Loader
from venturi.servers.starters import Server, here
from venturi.targets.system import REMOTE, in_process, is_local, is_unix, scheme_of

if TYPE_CHECKING:
    from venturi.plan.cell import Cell
    from venturi.plan.settings import Hosts

__all__ = ["RayExecutor"]

_CALLS = 8
_BEGIN_SECONDS = 60.0
_BEGIN_A_LOADER_SECONDS = 2.0
"""More for each loader that starts on the same machine."""
_REPLACE_SECONDS = 15.0
"""For a place on another host, where a loader's own host is dead."""
_PING_SECONDS = 5.0
_HEARD_SECONDS = 2.0
"""A loader that ended a trial well so recently is not asked again whether it is alive."""
_CHUNK = 32 * 1024 * 1024
Note = Callable[[str, str], None]


class RayLoader(Loader):
    """A loader that knows where in the cluster it is."""

    def identify(self) -> dict[str, Any]:
        return {**super().identify(), "node_id": node_id()}


@dataclass
class RayHandle:
    """A loader at a place of the cluster."""

    name: str
    at: int
    actor: Any
    identity: dict[str, Any] = field(default_factory=dict)
    clock: Clock = ONE_MACHINE
    # Remote paths of files sent there, by what tells the file here.
    files: dict[tuple[str, int, int], str] = field(default_factory=dict)
    # Monotonic time at which it last ended a trial well.
    heard: float = float("-inf")

    @property
    def address(self) -> str | None:
        return self.identity.get("ip")

    def now(self) -> Future[int]:
        """Its clock."""
        return self.call("now")

    def call(self, method: str, *arguments: object) -> Future[Any]:
        return later(getattr(self.actor, method).remote(*arguments))


class RayExecutor:
    """Measures by loaders on other hosts. To be closed: their processes are this one's."""

    needs_server = True
    measures = True
    elsewhere = True
    """What it measures are limits of other hosts than this one."""

    def __init__(
        self, session: Session, hosts: Hosts, loaders: int, note: Note, beside: bool = False
    ) -> None:
        """Starts the loaders, and sees whether they are alike. Raises VenturiError."""
        self.loaders = loaders
        self._session, self._note, self._beside = session, note, beside
        self._boot_id = session.boot_id
        self._loaders: list[RayHandle] = []
        servers = hosts.servers or 0
        wanted = [hosts.loader_resource] * loaders + [hosts.server_resource] * servers
        self._places: Places = session.places(wanted)
        own = range(loaders, loaders + servers)
        self._servers = RayServers(session, self._places, own, hosts.interface, note)
        try:
            self._loaders = [self._started(at) for at in range(loaders)]
            crowd = loaders if session.alone else 1
            self._identified(self._loaders, _BEGIN_SECONDS + crowd * _BEGIN_A_LOADER_SECONDS)
            self._check_alike()
            self._clocks(self._loaders)
        except BaseException:
            self._end()
            raise

    @classmethod
    def connect(
        cls, on: str, hosts: Hosts, loaders: int | None, note: Note, beside: bool = False
    ) -> RayExecutor:
        """`loaders`: the most that a cell needs; None takes one a host. `hosts.servers`: so many hosts are
        kept for servers. `beside`: this process runs trials too. Raises VenturiError."""
        servers = hosts.servers or 0
        session = Session(on, (loaders or 1) + servers)
        try:
            if loaders is None:
                there = session.hosts(hosts.loader_resource)
                spare = servers if hosts.server_resource in (None, hosts.loader_resource) else 0
                loaders = 1 if session.alone else max(1, len(there) - spare)
            return cls(session, hosts, loaders, note, beside)
        except BaseException:
            session.close()
            raise

    # How it begins.

    def _started(self, at: int) -> RayHandle:
        return RayHandle(f"loader-{at + 1}", at, self._places.actor(RayLoader, at, _CALLS))

    def _identified(self, handles: Sequence[RayHandle], seconds: float) -> None:
        calls = {handle.name: handle.call("identify") for handle in handles}
        wait(calls.values(), seconds)
        for handle in handles:
            call = calls[handle.name]
            if not call.done():
                raise VenturiError(f"{handle.name} did not start within {seconds:g} s", ExitCode.UNREACHABLE)
            if error := call.exception():
                raise VenturiError(f"{handle.name} does not start: {_text(error)}", ExitCode.UNREACHABLE)
            found = dict(call.result())
            handle.identity = found | {"ip": self._session.address(found["node_id"])}

    def _check_alike(self) -> None:
        for handle in self._loaders:
            if other := unlike(handle.identity):
                raise VenturiError(
                    f"{handle.name} ({handle.address}) has {other}",
                    hint="install the same version on all hosts",
                )

    def _clocks(self, handles: Sequence[RayHandle]) -> list[Clock]:
        """Where each one's clock is now; asked again when it was long ago. A machine has one, however many
        loaders."""
        now = time.time_ns()
        # By machine; one that does not say which it is, is one of its own.
        machines = [handle.identity.get("boot_id") or handle.name for handle in handles]
        first = dict(zip(reversed(machines), reversed(handles), strict=True))
        first.pop(self._boot_id, None)
        asked = {machine: handle for machine, handle in first.items() if stale(handle.clock, now)}
        before = [handle.clock for handle in asked.values()]
        found = measure([handle.now for handle in asked.values()], _PING_SECONDS, before)
        for handle, clock in zip(asked.values(), found, strict=True):
            handle.clock = clock
        for machine, handle in zip(machines, handles, strict=True):
            handle.clock = first[machine].clock if machine in first else ONE_MACHINE
        return [handle.clock.at(time.time_ns()) for handle in handles]

    # What a run asks.

    def environments(self) -> dict[str, dict[str, Any]]:
        """What each loader's host and software are, by its name."""
        return {handle.name: dict(handle.identity["environment"]) for handle in self._loaders}

    def check(self, cells: Sequence[Cell]) -> None:
        """Whether the loaders can reach what these cells ask for. Raises ScenarioError."""
        elsewhere = next((h for h in self._loaders if not is_here(h.identity)), None)
        if elsewhere is None:
            return
        for cell in cells:
            url = str(cell.parameters["target"])
            if in_process(url):
                raise ScenarioError(
                    f"{url} is a file of one machine, and {elsewhere.name} is on {elsewhere.address}",
                    hint="name a server that all hosts reach",
                )
            if is_unix(url):
                raise ScenarioError(
                    f"{url} is a Unix socket of this machine, and {elsewhere.name} is on {elsewhere.address}",
                    hint=f"name a server that all hosts reach: --target {scheme_of(url)}://HOST",
                )
            if is_local(url) and scheme_of(url) not in REMOTE:
                raise ScenarioError(
                    f"{url} listens on this machine's loopback, and {elsewhere.name} is on "
                    f"{elsewhere.address}",
                    hint="name a server that all hosts reach: --target "
                    f"{scheme_of(url)}://HOST; venturi serve starts one there",
                )

    def starter(self, kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
        """Reference servers on hosts of their own; else one beside the first loader."""
        if remote:
            return self._servers.remote(kind, arguments)
        if all(is_here(handle.identity) for handle in self._loaders):
            return here(kind, arguments)
        alone = len(self._loaders) == 1 and not self._beside
        return self._servers.beside(kind, arguments, loopback=alone)

    # What a sweep asks.

    def control(self) -> TrialControl:
        return ClusterControl()

    def run_trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        record = lineup.placed(
            *(text, control, lambda count, _: self._ready(count), self._clocks),
            localised=self._localised,
            trouble=lambda spec: self._servers.trouble(spec["target"]),
        )
        well = {host["host"] for host in record.get("hosts") or () if host["outcome"] == "ok"}
        for handle in self._loaders:
            handle.heard = time.monotonic() if handle.name in well else float("-inf")
        return record

    def _ready(self, count: int) -> list[RayHandle]:
        """So many loaders that answer and have nothing to do. Raises VenturiError."""
        lately = time.monotonic() - _HEARD_SECONDS
        good: list[RayHandle] = []
        bad: list[RayHandle] = []
        lost: list[str] = []
        # A call costs the driver most of a millisecond: the others are asked where one of the first is bad.
        for some in (self._loaders[:count], self._loaders[count:]):
            if len(good) >= count:
                break
            calls = {handle.name: handle.call("idle") for handle in some if handle.heard <= lately}
            wait(calls.values(), _PING_SECONDS)
            for handle in some:
                call = calls.get(handle.name)
                idle = call is None or (call.done() and call.exception() is None and call.result())
                (good if idle else bad).append(handle)
        for handle in bad if len(good) < count else ():
            try:
                fresh = self._another(handle)
            except VenturiError as error:
                lost.append(f"{handle.name} ({handle.address}), and no other in its place: {error}")
                continue
            self._loaders[self._loaders.index(handle)] = fresh
            good.append(fresh)
            self._note("warning", f"{handle.name} was lost; another runs on {fresh.address}")
        if len(good) < count:
            raise VenturiError(f"{count} loaders are wanted and {len(good)} answer; lost: {'; '.join(lost)}")
        return sorted(good, key=lambda handle: handle.at)[:count]

    def _another(self, lost: RayHandle) -> RayHandle:
        """One in its place. Raises VenturiError."""
        kill(self._session.ray, [lost.actor])
        self._places.check(_REPLACE_SECONDS)
        fresh = self._started(lost.at)
        try:
            self._identified([fresh], _BEGIN_SECONDS)
        except VenturiError:
            kill(self._session.ray, [fresh.actor])
            raise
        return fresh

    def _localised(self, handle: RayHandle, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The spec with files where that host has them: they are sent once."""
        path = (spec.get("data") or {}).get("ipc")
        if path is None or handle.identity.get("boot_id") == self._boot_id:
            return dict(spec)
        stat = os.stat(path)
        key = (str(path), stat.st_size, stat.st_mtime_ns)
        if key not in handle.files:
            with open(path, "rb") as file:
                for offset in range(0, max(1, stat.st_size), _CHUNK):
                    name = f"{len(handle.files)}-{Path(path).name}"
                    sent = handle.call("receive", name, offset, file.read(_CHUNK))
                    there = str(sent.result(_BEGIN_SECONDS))
            handle.files[key] = there
        return {**spec, "data": {**spec["data"], "ipc": handle.files[key]}}

    def probe_tcp(self, text: str, control: TrialControl) -> str:
        """Raw TCP by several loaders at once, or by one alone."""
        return probing.probe_tcp(text, self._probing, control)

    def _probing(self, wanted: int | str) -> list[RayHandle]:
        """So many loaders, or the one of that name; where it is gone any other."""
        if isinstance(wanted, int):
            return self._ready(wanted)
        return [it for it in self._ready(self.loaders) if it.name == wanted] or self._ready(1)

    def probe(self, text: str, control: TrialControl) -> str:
        """A limit of the first loader's host."""
        (handle,) = self._ready(1)
        spec = self._localised(handle, json.loads(text))
        calls = {handle.name: handle.call("probe", json.dumps(spec))}
        (answer,) = probing.answers([handle], calls, control)
        return json.dumps(answer)

    def close(self) -> None:
        """Ends every process that was started, everywhere."""
        self._end()
        self._session.close()

    def _end(self) -> None:
        self._servers.close()
        kill(self._session.ray, [handle.actor for handle in self._loaders])
        self._places.close()


def _text(error: BaseException) -> str:
    return masked(" ".join(str(error).split()))[:300] or type(error).__name__
