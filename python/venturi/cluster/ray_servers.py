"""Servers of a run on the hosts of a Ray cluster: the process there, and what stands for it at the driver.

They are on places of their own, or beside the first loader.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as LateAnswer
from typing import Any
from urllib.parse import urlsplit

from venturi.cluster.ray_session import Actor, Places, Session, node_id
from venturi.common.environment import boot_id, version
from venturi.common.errors import ExitCode, UnreachableError, VenturiError
from venturi.common.texts import Note
from venturi.engine.calls import Gone
from venturi.servers.reference import ReferenceServer, StoreProcess, process_of

_ANSWER_SECONDS = 60.0
"""A host that has not answered for so long counts as gone. Ray usually tells of its end earlier."""
_STOP_SECONDS = 15.0
_SEAL_SECONDS = 60.0
_AT_ONCE = 32
_LOOK_SECONDS = 0.2
_SIOCGIFADDR = 0x8915


class RayServer:
    """On a host of the cluster: starts `venturi serve` as children, which end when this process does."""

    def __init__(self) -> None:
        self._servers: dict[str, ReferenceServer] = {}

    def start(
        self, name: str, kind: str, arguments: Sequence[str], address: str, network: str | None
    ) -> dict[str, Any]:
        """Listens on `address`, or on this host's own in `network`; answers what the server tells. A store of
        time series gets a directory here, which goes with it."""
        self.stop(name)
        words = ("--host", address if network is None else _address_in(network), *arguments)
        server = self._servers[name] = process_of(kind, words)
        try:
            server.start()
        except VenturiError:
            del self._servers[name]
            raise
        return server.hello

    def boot_id(self) -> str | None:
        return boot_id()

    def node_id(self) -> str:
        """Where in the cluster it is."""
        return node_id()

    def state(self, name: str) -> dict[str, Any]:
        """Whether it runs, and what it complained of if not."""
        server = self._servers.get(name)
        if server is None:
            return {"running": False, "said": ""}
        running = server.running
        return {"running": running, "said": "" if running else server.complaint()}

    def ended(self, name: str) -> str:
        """Waits until that server runs no more, or is another one; what it complained of."""
        if name not in self._servers:
            return ""
        server = self._servers[name]
        while self._servers.get(name) is server:
            if not server.running:
                return server.complaint()
            time.sleep(_LOOK_SECONDS)
        return ""

    def sealed_bytes(self, name: str) -> int | None:
        """Ends a store of time series when all is in segments; answers their bytes."""
        server = self._servers.get(name)
        return server.sealed_bytes() if isinstance(server, StoreProcess) else None

    def stop(self, name: str) -> None:
        if (server := self._servers.pop(name, None)) is not None:
            server.stop()


def _address_in(network: str) -> str:
    """This host's own address in a network, by whichever card. Raises VenturiError if it has none."""
    import fcntl

    wanted, found = ipaddress.ip_network(network, strict=False), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found.append(socket.inet_ntoa(answer[20:24]))
    for address in found:
        if ipaddress.ip_address(address) in wanted:
            return address
    raise VenturiError(
        f"{socket.gethostname()} has no address in {network}, only {', '.join(found)}", ExitCode.SCENARIO
    )


class RemoteServer:
    """As `ReferenceServer`, of one that runs on another host. `call` asks that host by its name there."""

    def __init__(self, call: Callable[..., Future[Any]], hello: dict[str, Any]) -> None:
        self._call, self.hello, self.stopped = call, hello, False
        self.address = str(hello["address"])
        # Answered when it is over: a host that is no more is not asked, which would take its time.
        self._ended = call("ended")

    @property
    def running(self) -> bool:
        return not self._ended.done() and bool(self._state().get("running"))

    def complaint(self) -> str:
        return self._last_words() if self._ended.done() else str(self._state().get("said") or "")

    def trouble(self) -> str | None:
        """Why it serves no more; None as long as nothing is known against it."""
        if self.stopped or not self._ended.done():
            return None
        complaint = self._last_words()
        return f"the server {self.address} has ended{': ' + complaint if complaint else ''}"

    def serves(self, url: str) -> bool:
        """Whether it is one of the servers of this address."""
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
        return bool({self.address, *(self.hello.get("addresses") or {}).values()} & set(hosts))

    def _last_words(self) -> str:
        return "its host is gone" if self._ended.exception() else str(self._ended.result())

    def _state(self) -> dict[str, Any]:
        """What its host answers, or the news of its end where that comes first."""
        try:
            answer = self._call("state")
            wait([answer, self._ended], _ANSWER_SECONDS, FIRST_COMPLETED)
            if self._ended.done() and not answer.done():
                return {"running": False, "said": self._last_words()}
            return dict(answer.result(0))
        except Exception:  # whatever carries calls: a server that cannot be asked is none
            return {"running": False, "said": "its host does not answer"}

    def sealed_bytes(self) -> int | None:
        """Of a store of time series: its segments when all is in them, for which it ends."""
        with contextlib.suppress(Exception):
            sealed: int | None = self._call("sealed_bytes").result(_SEAL_SECONDS)
            return sealed
        return None

    def stop(self) -> None:
        self.stopped = True
        if self._ended.done() and self._ended.exception():
            return
        with contextlib.suppress(Exception):
            self._call("stop").result(_STOP_SECONDS)


class ServerGroup:
    """Servers on hosts of their own that are one target: streams take them in turn."""

    def __init__(self, servers: Sequence[RemoteServer]) -> None:
        """`hello` is the first one's, with the addresses of all; `each` in it has everybody's own."""
        self._servers = list(servers)
        hellos = [server.hello for server in servers]
        merged = {"address": _list(h["address"] for h in hellos), "each": hellos}
        self.hello: dict[str, Any] = {**hellos[0], **merged}
        if isinstance(served := hellos[0].get("addresses"), dict):
            # Without the name of a protocol that one of them does not serve.
            every = [name for name in served if all(h["addresses"].get(name) for h in hellos)]
            self.hello["addresses"] = {name: _list(h["addresses"][name] for h in hellos) for name in every}

    @property
    def address(self) -> str:
        """HOST:PORT of each, as the URL of a target names several."""
        return str(self.hello["address"])

    @property
    def running(self) -> bool:
        return all(self._all(lambda server: server.running))

    def complaint(self) -> str:
        """What those said that do not run; of several with their addresses."""
        if len(self._servers) == 1:
            return self._servers[0].complaint()
        complaint = self._all(lambda server: None if server.running else (server.address, server.complaint()))
        dead = [f"{found[0]}: {found[1] or 'is gone'}" for found in complaint if found is not None]
        return "; ".join(dead)

    def sealed_bytes(self) -> int | None:
        """Of stores of time series, together; None if one cannot tell."""
        found = self._all(lambda server: server.sealed_bytes())
        return None if None in found else sum(found)

    def stop(self) -> None:
        self._all(lambda server: server.stop())

    def _all(self, ask: Callable[[RemoteServer], Any]) -> list[Any]:
        """Of all at once: each is another host, and may take its time."""
        with ThreadPoolExecutor(min(_AT_ONCE, len(self._servers)), "venturi-servers") as pool:
            return list(pool.map(ask, self._servers))


def _list(addresses: Iterable[object]) -> str:
    return ",".join(map(str, addresses))


_BEGIN_SECONDS = 60.0
_CALLS = 8
_REPLACE_SECONDS = 8.0
"""To replace a dead host, which may only just have been noticed."""
_TRIES = 5


class RayServers:
    """A process a place, which starts servers as they are wanted; all end with `close`."""

    def __init__(
        self, session: Session, places: Places, own: Sequence[int], network: str | None, note: Note
    ) -> None:
        """`own`: the places where no loader is; `network`: in which servers listen on their hosts."""
        self._session, self._places, self._own, self._network = session, places, own, network
        self._note = note
        self._actors: dict[int, Actor] = {}
        self._serving: list[RemoteServer] = []
        self._reported: set[tuple[str, ...]] = set()

    def remote(self, kind: str, arguments: Sequence[str]) -> ServerGroup:
        """One on each host that is there for servers. Raises VenturiError if one does not start."""
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
        first, *rest = self._own
        for left in reversed(range(_TRIES)):
            servers = [self._started("timeseries", arguments, first)]
            port = str(servers[0].hello["addresses"]["http"]).rpartition(":")[2]
            pairs = zip(["", *arguments], arguments, strict=False)
            alike = [port if before == "--http" else word for before, word in pairs]
            try:
                return servers + self._each("timeseries", alike, rest)
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
            if "--ready" in arguments and _answer_of(actor, "boot_id") != self._session.boot_id:
                return VenturiError("a server on another host has no files as tables", ExitCode.SCENARIO)
            found = address or self._address(actor, place)
        except VenturiError as error:
            return error
        network = self._network if address is None and not self._session.alone else None
        name = f"{kind}-{place}"
        return actor.call("start", name, kind, list(arguments), found, network)

    def _address(self, actor: Actor, place: int) -> str:
        if self._session.alone:
            # One machine acts as several hosts, each with its own loopback address.
            return f"127.0.0.{1 + self._own.index(place)}" if place in self._own else "127.0.0.1"
        return self._session.address(_answer_of(actor, "node_id")) or "127.0.0.1"

    def _listening(self, kind: str, place: int, call: Future[Any] | VenturiError) -> RemoteServer:
        if isinstance(call, VenturiError):
            raise call
        try:
            hello = dict(call.result(_BEGIN_SECONDS))
        except VenturiError:
            raise
        except Exception as error:
            text = " ".join(str(error).split())[:300] or type(error).__name__
            raise UnreachableError(f"the server does not start: {text}") from None
        actor, name = self._actors[place], f"{kind}-{place}"
        server = RemoteServer(lambda method: actor.call(method, name), hello)
        self._check_alike(server)
        self._serving = [one for one in self._serving if not one.stopped] + [server]
        return server

    def trouble(self, target: str) -> str | None:
        """Why a server of this address no longer serves; None while all are believed to."""
        found = (server.trouble() for server in self._serving if server.serves(target))
        return next((text for text in found if text is not None), None)

    def _check_alike(self, server: RemoteServer) -> None:
        """Raises VenturiError if that host has another Venturi."""
        environment = server.hello.get("environment")
        software = (environment or {}).get("software") if isinstance(environment, dict) else None
        remote_version = (software or {}).get("venturi") if isinstance(software, dict) else None
        if remote_version is not None and remote_version != version("venturi"):
            server.stop()
            raise VenturiError(
                f"the server's host ({server.address}) has venturi {remote_version}, "
                f"this host {version('venturi')}",
                hint="install the same version on all hosts",
            )

    def _actor(self, place: int) -> Actor:
        """The process at that place. Raises VenturiError if none can be there."""
        deadline = time.monotonic() + _BEGIN_SECONDS
        while True:
            actor = self._actors.get(place)
            if actor is None:
                self._places.check(_REPLACE_SECONDS)
                # The place's CPU may be held by a loader: this process itself does almost nothing.
                actor = self._actors[place] = self._places.actor(RayServer, place, _CALLS, reserved=False)
            try:
                _answer_of(actor, "boot_id")
                return actor
            except Gone:
                del self._actors[place]
                if time.monotonic() > deadline:
                    raise UnreachableError(
                        "no host is left for a server: its process ends as soon as it is started"
                    ) from None
                time.sleep(0.2)

    def _tell(self, kind: str, group: ServerGroup) -> None:
        """Reports where they are if that is new: each trial gets a new store."""
        hosts = [address.rpartition(":")[0] for address in group.address.split(",")]
        if (report := (kind, *hosts)) not in self._reported:
            self._reported.add(report)
            self._note(
                "info", f"{'servers' if len(hosts) > 1 else 'a server'} of {kind} on {', '.join(hosts)}"
            )

    def close(self) -> None:
        """Ends every process, and the servers with them."""
        for actor in self._actors.values():
            actor.kill()
        self._actors.clear()


def _answer_of(actor: Actor, method: str) -> Any:
    """Raises Gone if the process is no more, VenturiError where it does not answer."""
    try:
        return actor.call(method).result(_BEGIN_SECONDS)
    except LateAnswer:
        raise UnreachableError(f"no host for a server within {_BEGIN_SECONDS:g} s") from None
