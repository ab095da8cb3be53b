"""How servers of a run's own are started: here, or by whoever knows other hosts."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from venturi.common import temporary
from venturi.common.errors import VenturiError
from venturi.servers.reference import ReferenceServer
from venturi.targets.system import SERVERS


class Server(Protocol):
    """What a reference server here, servers on other hosts and a throw-away database have in common."""

    @property
    def hello(self) -> dict[str, Any]:
        """What it said of itself when it had started."""

    @property
    def address(self) -> str: ...

    @property
    def running(self) -> bool: ...

    def complaint(self) -> str: ...

    def stop(self) -> None: ...


class Starter(Protocol):
    """Starts a reference server (`flight`, `charrow`, `timeseries`) with arguments of its own.

    `remote`: on hosts where no loader is, as many as the run wants; else beside the first loader.
    Raises VenturiError where it does not start.
    """

    def __call__(self, kind: str, arguments: Sequence[str], remote: bool = False) -> Server: ...


class SocketServer(ReferenceServer):
    """A reference server on a Unix socket in a temporary directory, which goes with it."""

    def __init__(self, *arguments: str, kind: str = "flight") -> None:
        self._held = temporary.make("socket")
        socket = self._held.path / f"{kind}.sock"
        super().__init__("--unix", str(socket), *arguments, kind=kind, hold=[self._held.descriptor])

    def stop(self, at_once: bool = False) -> None:
        super().stop(at_once)
        self._held.remove()


class StoreProcess:
    """A store of time series in a temporary directory, which goes with it; or, where this process is killed,
    with the next one that is started on this machine."""

    def __init__(self, *arguments: str, within: Sequence[str] = ()) -> None:
        self._held = temporary.make("store")
        self._data = self._held.path / "data"
        # The store holds the directory too: it may live a moment longer than this process.
        hold = [self._held.descriptor]
        self._server = ReferenceServer(
            "--data", str(self._data), *arguments, kind="timeseries", hold=hold, within=within
        )

    def start(self) -> StoreProcess:
        """Raises VenturiError with what it said where it does not start."""
        try:
            self._server.start()
        except BaseException:
            self.stop()
            raise
        return self

    @property
    def hello(self) -> dict[str, Any]:
        return self._server.hello

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def running(self) -> bool:
        return self._server.running

    def complaint(self) -> str:
        return self._server.complaint()

    def sealed_bytes(self) -> int | None:
        """Bytes of its segments when all is in them, for which it ends. None where something is in none."""
        if not self._server.running:
            return None
        with contextlib.suppress(VenturiError):
            self._server.stop()
        files = [file for name in ("points", "series") for file in (self._data / name).glob("*.parquet")]
        logs = list((self._data / "log").glob("*.log"))
        return sum(file.stat().st_size for file in files) if not logs else None

    def stop(self) -> None:
        """Ends it and removes what it stored; nobody will read that, so it need not be written out."""
        with contextlib.suppress(VenturiError):
            self._server.stop(at_once=True)
        self._held.remove()


class Halted(KeyboardInterrupt):
    """A wait has ended because the run is to end: the user's first Ctrl-C, and no further one."""


class Ends(Starter, Protocol):
    """Of a link, at whose other end it starts programs of somebody else's too."""

    def program(
        self,
        command: str,
        ports: Iterable[int],
        note: Callable[[str, str], None],
        halt: Callable[[], bool],
    ) -> Server:
        """Returns when clients can come to these ports, or to some where none is named. Raises VenturiError
        where they cannot, and Halted where `halt` says so meanwhile."""


def here(kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
    """On this machine's loopback."""
    if remote:
        # Without hosts nobody comes this far: such cells are refused before.
        raise VenturiError(f"{kind}://remote needs hosts of a cluster, --on ray://HOST:PORT, or a --link")
    if kind == "timeseries":
        return StoreProcess(*arguments).start()
    return ReferenceServer(*arguments, kind=kind).start()


_DATABASE_STOP_SECONDS = 40.0
"""Until it has written out what it keeps."""
_MAKING_SECONDS = 60.0
"""Until a throw-away database has made its files, before it is waited for."""


class Placed:
    """Starts servers at an address of their own, by commands that begin with `within`; throw-away databases
    too, by the names that `venturi serve` has for them. `beside`: where those are started that are no remote
    ones; None: here, all of them."""

    def __init__(self, host: str, within: Sequence[str], beside: Placed | None = None) -> None:
        self._host, self._within, self._beside = host, tuple(within), beside

    def __call__(self, kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
        if self._beside is not None and not remote:
            return self._beside(kind, arguments)
        words = ("--host", self._host, *arguments)
        if kind == "timeseries":
            return StoreProcess(*words, within=self._within).start()
        if kind not in SERVERS.values():
            return ReferenceServer(*words, kind=kind, within=self._within).start()
        from venturi.servers import throwaway

        patience = throwaway.named(kind).ready_seconds + _MAKING_SECONDS
        return ReferenceServer(
            *words, kind=kind, within=self._within, patience=patience, stopping=_DATABASE_STOP_SECONDS
        ).start()
