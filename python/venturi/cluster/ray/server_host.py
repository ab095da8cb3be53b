"""Servers of our own on hosts of a cluster: the process there, and what stands for them at the driver."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any
from urllib.parse import urlsplit

from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.reference import ReferenceServer
from venturi.servers.starters import StoreProcess

__all__ = ["RemoteServer", "ServerGroup", "ServerHost", "address_in"]

_SIOCGIFADDR = 0x8915
_ANSWER_SECONDS = 60.0
"""A host that has not answered for so long counts as gone. Ray usually tells of its end earlier."""
_STOP_SECONDS = 15.0
_SEAL_SECONDS = 60.0
_AT_ONCE = 32
_LOOK_SECONDS = 0.2


class ServerHost:
    """Starts `venturi serve` as children, which end when this process does."""

    def __init__(self) -> None:
        self._servers: dict[str, ReferenceServer | StoreProcess] = {}

    def start(
        self, name: str, kind: str, arguments: Sequence[str], address: str, network: str | None
    ) -> dict[str, Any]:
        """Listens on `address`, or on this host's own in `network`; answers what the server tells.

        A store of time series gets a directory here, which goes with it.
        """
        self.stop(name)
        host = address if network is None else address_in(network)
        words = ("--host", host, *arguments)
        server: ReferenceServer | StoreProcess = (
            StoreProcess(*words) if kind == "timeseries" else ReferenceServer(*words, kind=kind)
        )
        self._servers[name] = server
        try:
            server.start()
        except VenturiError:
            del self._servers[name]
            raise
        return server.hello

    def boot_id(self) -> str | None:
        from venturi.common.environment import read

        return read("/proc/sys/kernel/random/boot_id")

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


def address_in(network: str) -> str:
    """This host's own address in a network. Raises VenturiError where it has none."""
    import fcntl

    wanted = ipaddress.ip_network(network, strict=False)
    found = []
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
        # Answered when it is over: a host that is no more is not asked, which would take its time.
        self._ended = call("ended")

    @property
    def address(self) -> str:
        return str(self.hello["address"])

    @property
    def running(self) -> bool:
        return not self._ended.done() and bool(self._state().get("running"))

    def complaint(self) -> str:
        return self._last_words() if self._ended.done() else str(self._state().get("said") or "")

    def trouble(self) -> str | None:
        """Why it serves no more; None as long as nothing is known against it."""
        if self.stopped or not self._ended.done():
            return None
        said = self._last_words()
        return f"the server {self.address} has ended{': ' + said if said else ''}"

    def serves(self, url: str) -> bool:
        """Whether it is one of the servers of this address."""
        hosts = urlsplit(url).netloc.rpartition("@")[2].split(",")
        return bool({self.address, *(self.hello.get("addresses") or {}).values()} & set(hosts))

    def _last_words(self) -> str:
        return "its host is gone" if self._ended.exception() else str(self._ended.result())

    def _state(self) -> dict[str, Any]:
        """What its host answers, or the news of its end where that comes first."""
        try:
            asked = self._call("state")
            wait([asked, self._ended], _ANSWER_SECONDS, FIRST_COMPLETED)
            if self._ended.done() and not asked.done():
                return {"running": False, "said": self._last_words()}
            return dict(asked.result(0))
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
        whole = {"address": _list(h["address"] for h in hellos), "each": hellos}
        self.hello: dict[str, Any] = {**hellos[0], **whole}
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
        said = self._all(lambda server: None if server.running else (server.address, server.complaint()))
        dead = [f"{found[0]}: {found[1] or 'is gone'}" for found in said if found is not None]
        return "; ".join(dead)

    def sealed_bytes(self) -> int | None:
        """Of stores of time series, together; None where one cannot tell."""
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
