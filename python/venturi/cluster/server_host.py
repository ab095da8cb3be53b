"""A reference server on a host of the cluster: the process there, and what stands for it at the driver."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from venturi.errors import ExitCode, VenturiError
from venturi.servers import ReferenceServer

__all__ = ["RemoteServer", "ServerHost", "address_in"]

_SIOCGIFADDR = 0x8915
_ANSWER_SECONDS = 5.0
_START_SECONDS = 60.0


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

    @property
    def address(self) -> str:
        return str(self.hello["address"])

    @property
    def running(self) -> bool:
        return bool(self._state().get("running"))

    def complaint(self) -> str:
        return str(self._state().get("said") or "")

    def _state(self) -> dict[str, Any]:
        try:
            return dict(self._call("state").result(_ANSWER_SECONDS))
        except Exception:  # whatever carries calls: a server that cannot be asked is none
            return {"running": False, "said": "its host does not answer"}

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            self._call("stop").result(_ANSWER_SECONDS)
        self._end()
