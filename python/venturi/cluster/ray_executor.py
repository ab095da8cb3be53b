"""Trials on the hosts of a Ray cluster: one loader per host for the whole run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.cluster.ray_servers import RayServers
from venturi.cluster.ray_session import Actor, Places, Session, node_id
from venturi.cluster.trial.clock import ONE_MACHINE, Clock
from venturi.cluster.trial.loaders_executor import LoadersExecutor, clocks, identify, on_this_host
from venturi.common.errors import ScenarioError, VenturiError
from venturi.common.texts import Note
from venturi.engine.executor import TrialControl
from venturi.engine.loader import Loader
from venturi.servers.reference import Server, start_local
from venturi.targets.system import REMOTE, in_process, is_local, is_unix, scheme_of

if TYPE_CHECKING:
    from venturi.plan.cell import Cell
    from venturi.plan.settings import Hosts

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


class RayLoader(Loader):
    """A loader that knows where in the cluster it is."""

    def identify(self) -> dict[str, Any]:
        return {**super().identify(), "node_id": node_id()}


@dataclass
class RayHandle:
    """A loader at a place of the cluster."""

    name: str
    at: int
    actor: Actor
    identity: Mapping[str, Any] = field(default_factory=dict)
    clock: Clock = ONE_MACHINE
    # Remote paths of files sent there, by what tells the file here.
    files: dict[tuple[str, int, int], str] = field(default_factory=dict)
    # Monotonic time at which it last ended a trial well.
    heard: float = float("-inf")

    @property
    def address(self) -> str | None:
        return self.identity.get("ip")

    def call(self, method: str, *arguments: object) -> Future[Any]:
        return self.actor.call(method, *arguments)


class RayExecutor(LoadersExecutor):
    """Measures by loaders on other hosts. To be closed: their processes are this one's."""

    elsewhere = True

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
            clocks(self._loaders)
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
                found = session.hosts(hosts.loader_resource)
                spare = servers if hosts.server_resource in (None, hosts.loader_resource) else 0
                loaders = 1 if session.alone else max(1, len(found) - spare)
            return cls(session, hosts, loaders, note, beside)
        except BaseException:
            session.close()
            raise

    # How it begins.

    def _started(self, at: int) -> RayHandle:
        return RayHandle(f"loader-{at + 1}", at, self._places.actor(RayLoader, at, _CALLS))

    def _identified(self, handles: Sequence[RayHandle], seconds: float) -> None:
        identify(handles, seconds)
        for handle in handles:
            handle.identity = {**handle.identity, "ip": self._session.address(handle.identity["node_id"])}

    # What a run asks.

    def environments(self) -> dict[str, dict[str, Any]]:
        """What each loader's host and software are, by its name."""
        return {handle.name: dict(handle.identity["environment"]) for handle in self._loaders}

    def check(self, cells: Sequence[Cell]) -> None:
        """Whether the loaders can reach what these cells ask for. Raises ScenarioError."""
        elsewhere = next((h for h in self._loaders if not on_this_host(h.identity)), None)
        if elsewhere is None:
            return
        for cell in cells:
            url, hint = str(cell.parameters["target"]), "name a server that all hosts reach"
            if in_process(url):
                what = "is a file of one machine"
            elif is_unix(url):
                what, hint = "is a Unix socket of this machine", f"{hint}: --target {scheme_of(url)}://HOST"
            elif is_local(url) and scheme_of(url) not in REMOTE:
                what = "listens on this machine's loopback"
                hint += f": --target {scheme_of(url)}://HOST; venturi serve starts one there"
            else:
                continue
            raise ScenarioError(f"{url} {what}, and {elsewhere.name} is on {elsewhere.address}", hint=hint)

    def starter(self, kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
        """Reference servers on hosts of their own; else one beside the first loader."""
        if remote:
            return self._servers.remote(kind, arguments)
        if all(on_this_host(handle.identity) for handle in self._loaders):
            return start_local(kind, arguments)
        alone = len(self._loaders) == 1 and not self._beside
        return self._servers.beside(kind, arguments, loopback=alone)

    # What a sweep asks.

    def run_trial(self, text: str, control: TrialControl) -> dict[str, Any]:
        record = super().run_trial(text, control)
        well = {host["host"] for host in record.get("hosts") or () if host["outcome"] == "ok"}
        for handle in self._loaders:
            handle.heard = time.monotonic() if handle.name in well else float("-inf")
        return record

    def trouble(self, spec: Mapping[str, Any]) -> str | None:
        return self._servers.trouble(spec["target"])

    def ready(self, count: int, spec: Mapping[str, Any] | None = None) -> list[RayHandle]:
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
        lost.actor.kill()
        self._places.check(_REPLACE_SECONDS)
        fresh = self._started(lost.at)
        try:
            self._identified([fresh], _BEGIN_SECONDS)
        except VenturiError:
            fresh.actor.kill()
            raise
        return fresh

    def localised(self, handle: RayHandle, spec: Mapping[str, Any]) -> dict[str, Any]:
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
                    place = str(sent.result(_BEGIN_SECONDS))
            handle.files[key] = place
        return {**spec, "data": {**spec["data"], "ipc": handle.files[key]}}

    def chosen(self, name: str) -> list[RayHandle]:
        """The loader of that name; if it is gone, any other."""
        return [it for it in self.ready(self.loaders) if it.name == name] or self.ready(1)

    def close(self) -> None:
        """Ends every process that was started, everywhere."""
        self._end()
        self._session.close()

    def _end(self) -> None:
        self._servers.close()
        for handle in self._loaders:
            handle.actor.kill()
        self._places.close()
