"""A reference server on a host of the cluster: the process there, and what stands for it at the driver."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from venturi.errors import ExitCode, VenturiError
from venturi.servers import ReferenceServer

__all__ = ["RemoteServer", "ServerHost", "address_in"]

_SIOCGIFADDR = 0x8915
_ANSWER_SECONDS = 5.0
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.2


class ServerHost:
    """Starts `venturi serve` as a child, which ends when this process does."""

    def __init__(self) -> None:
        self._server: ReferenceServer | None = None

    def start(self, kind: str, arguments: Sequence[str], address: str, network: str | None) -> dict[str, Any]:
        """Listens on `address`, or on this host's own in `network`; answers what the server tells."""
        host = address if network is None else address_in(network)
        self._server = ReferenceServer("--host", host, *arguments, kind=kind).start()
        return self._server.hello

    def boot_id(self) -> str | None:
        from venturi.environment import read

        return read("/proc/sys/kernel/random/boot_id")

    def state(self) -> dict[str, Any]:
        """Whether it runs, and what it complained of if not."""
        if self._server is None:
            return {"running": False, "said": ""}
        running = self._server.running
        return {"running": running, "said": "" if running else self._server.complaint()}

    def ended(self) -> str:
        """Waits until the server runs no more; what it complained of."""
        while (server := self._server) is not None and server.running:
            time.sleep(_LOOK_SECONDS)
        return server.complaint() if server is not None else ""

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


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
    """As `ReferenceServer`, of one that runs on another host."""

    def __init__(
        self, call: Callable[..., Future[Any]], end: Callable[[], None], hello: dict[str, Any]
    ) -> None:
        self._call, self._end, self.hello = call, end, hello
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
        if not self._ended.done():
            return None
        said = self._last_words()
        return f"the server {self.address} has ended{': ' + said if said else ''}"

    def _last_words(self) -> str:
        return "its host is gone" if self._ended.exception() else str(self._ended.result())

    def _state(self) -> dict[str, Any]:
        try:
            return dict(self._call("state").result(_ANSWER_SECONDS))
        except Exception:  # whatever carries calls: a server that cannot be asked is none
            return {"running": False, "said": "its host does not answer"}

    def stop(self) -> None:
        if not self._ended.done():
            with contextlib.suppress(Exception):
                self._call("stop").result(_ANSWER_SECONDS)
        self._end()
