"""Servers of a run on the hosts of a Ray cluster: on places of their own, or beside the first loader."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateAnswer
from typing import Any

from venturi.cluster.ray.ray_session import Places, Session, kill, later, node_id
from venturi.cluster.ray.server_host import RemoteServer, ServerGroup, ServerHost
from venturi.common.errors import ExitCode, VenturiError
from venturi.engine.calls import Gone

__all__ = ["RayServer", "RayServers"]

_BEGIN_SECONDS = 60.0
_CALLS = 8
_REPLACE_SECONDS = 8.0
"""To replace a dead host, which may only just have been noticed."""
_TRIES = 5
Note = Callable[[str, str], None]


class RayServer(ServerHost):
    """A server's host that knows where in the cluster it is."""

    def node_id(self) -> str:
        return node_id()


class RayServers:
    """A process a place, which starts servers as they are wanted; all end with `close`."""

    def __init__(
        self, session: Session, places: Places, own: Sequence[int], network: str | None, note: Note
    ) -> None:
        """`own`: the places where no loader is; `network`: in which servers listen on their hosts."""
        self._session, self._places, self._own, self._network = session, places, own, network
        self._note = note
        self._actors: dict[int, Any] = {}
        self._serving: list[RemoteServer] = []
        self._told: set[tuple[str, ...]] = set()

    def remote(self, kind: str, arguments: Sequence[str]) -> ServerGroup:
        """One on each host that is there for servers. Raises VenturiError where one does not start."""
        servers = self._stores(arguments) if kind == "timeseries" else self._each(kind, arguments, self._own)
        group = ServerGroup(servers)
        self._tell(kind, group)
        return group

    def beside(self, kind: str, arguments: Sequence[str], loopback: bool) -> ServerGroup:
        """One on the host of the first loader; on its loopback where nobody else needs it."""
        address = "127.0.0.1" if loopback else None
        group = ServerGroup([self._started(kind, arguments, 0, address)])
        self._tell(kind, group)
        return group

    def _stores(self, arguments: Sequence[str]) -> list[RemoteServer]:
        """Stores that tell what they hold on one port, whichever host it is: a trial knows only one."""
        first, *others = self._own
        for left in reversed(range(_TRIES)):
            servers = [self._started("timeseries", arguments, first)]
            port = str(servers[0].hello["addresses"]["http"]).rpartition(":")[2]
            alike = [port if before == "--http" else word for before, word in _pairs(arguments)]
            try:
                return servers + self._each("timeseries", alike, others)
            except VenturiError:
                servers[0].stop()
                if not left:
                    raise
        raise AssertionError("unreachable")

    def _each(self, kind: str, arguments: Sequence[str], at: Sequence[int]) -> list[RemoteServer]:
        """Started at the same time; none is left where one does not start."""
        calls = [(place, self._start(kind, arguments, place, None)) for place in at]
        servers, failure = [], None
        for place, call in calls:
            try:
                servers.append(self._listening(kind, place, call))
            except VenturiError as error:
                failure = error
        if failure is not None:
            for server in servers:
                server.stop()
            raise failure
        return servers

    def _started(
        self, kind: str, arguments: Sequence[str], place: int, address: str | None = None
    ) -> RemoteServer:
        return self._listening(kind, place, self._start(kind, arguments, place, address))

    def _start(
        self, kind: str, arguments: Sequence[str], place: int, address: str | None
    ) -> Future[Any] | VenturiError:
        """Begins to start one; a process that is gone is replaced first."""
        try:
            actor = self._actor(place)
            if "--ready" in arguments and _asked(actor, "boot_id") != self._session.boot_id:
                return VenturiError("a server on another host has no files as tables", ExitCode.SCENARIO)
            found = address or self._address(actor, place)
        except VenturiError as error:
            return error
        network = self._network if address is None and not self._session.alone else None
        name = f"{kind}-{place}"
        return later(actor.start.remote(name, kind, list(arguments), found, network))

    def _address(self, actor: Any, place: int) -> str:
        if self._session.alone:
            # One machine acts as several hosts, each with its own loopback address.
            return f"127.0.0.{1 + self._own.index(place)}" if place in self._own else "127.0.0.1"
        return self._session.address(_asked(actor, "node_id")) or "127.0.0.1"

    def _listening(self, kind: str, place: int, call: Future[Any] | VenturiError) -> RemoteServer:
        if isinstance(call, VenturiError):
            raise call
        try:
            hello = dict(call.result(_BEGIN_SECONDS))
        except VenturiError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise VenturiError(f"the server does not start: {text}", ExitCode.UNREACHABLE) from None
        actor, name = self._actors[place], f"{kind}-{place}"

        def ask(method: str) -> Future[Any]:
            return later(getattr(actor, method).remote(name))

        server = RemoteServer(ask, hello)
        self._check_alike(server)
        self._serving = [one for one in self._serving if not one.stopped] + [server]
        return server

    def trouble(self, target: str) -> str | None:
        """Why a server of this address no longer serves; None while all are believed to."""
        found = (server.trouble() for server in self._serving if server.serves(target))
        return next((text for text in found if text is not None), None)

    def _check_alike(self, server: RemoteServer) -> None:
        """Raises VenturiError where that host has another Venturi."""
        from venturi.common.environment import version

        environment = server.hello.get("environment")
        software = (environment or {}).get("software") if isinstance(environment, dict) else None
        there = (software or {}).get("venturi") if isinstance(software, dict) else None
        if there is not None and there != version("venturi"):
            server.stop()
            raise VenturiError(
                f"the server's host ({server.address}) has venturi {there}, this host {version('venturi')}",
                hint="install the same version on all hosts",
            )

    def _actor(self, place: int) -> Any:
        """The process at that place. Raises VenturiError where none can be there."""
        deadline = time.monotonic() + _BEGIN_SECONDS
        while True:
            actor = self._actors.get(place)
            if actor is None:
                self._places.check(_REPLACE_SECONDS)
                # The place's CPU may be held by a loader: this process itself does almost nothing.
                actor = self._actors[place] = self._places.actor(RayServer, place, _CALLS, reserved=False)
            try:
                _asked(actor, "boot_id")
                return actor
            except Gone:
                del self._actors[place]
                if time.monotonic() > deadline:
                    raise VenturiError(
                        "no host is left for a server: its process ends as soon as it is started",
                        ExitCode.UNREACHABLE,
                    ) from None
                time.sleep(0.2)

    def _tell(self, kind: str, group: ServerGroup) -> None:
        """Reports where they are if that is new: each trial gets a new store."""
        hosts = [address.rpartition(":")[0] for address in group.address.split(",")]
        if (told := (kind, *hosts)) not in self._told:
            self._told.add(told)
            self._note(
                "info", f"{'servers' if len(hosts) > 1 else 'a server'} of {kind} on {', '.join(hosts)}"
            )

    def close(self) -> None:
        """Ends every process, and the servers with them."""
        kill(self._session.ray, list(self._actors.values()))
        self._actors.clear()


def _asked(actor: Any, method: str) -> Any:
    """Raises Gone where the process is no more, VenturiError where it does not answer."""
    try:
        return later(getattr(actor, method).remote()).result(_BEGIN_SECONDS)
    except LateAnswer:
        raise VenturiError(
            f"no host for a server within {_BEGIN_SECONDS:g} s", ExitCode.UNREACHABLE
        ) from None


def _pairs(words: Sequence[str]) -> list[tuple[str, str]]:
    """Each word with the one before it."""
    return list(zip(["", *words], words, strict=False))
