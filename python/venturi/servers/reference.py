"""Servers that a run starts: reference servers and stores, each a child process with its own CPU account; by
this host, or by whoever knows other hosts.

A child says where it listens in one line of JSON, and ends by itself when its standard
input closes: also after a kill -9 of this process nothing stays behind.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any, Protocol

from venturi.common import temporary
from venturi.common.errors import UnreachableError, VenturiError
from venturi.common.processes import is_ending
from venturi.targets.system import SERVERS

_READY_SECONDS = 20.0
_STOP_SECONDS = 5.0


class ReferenceServer:
    """`venturi serve flight` (or another `kind`) on free ports of the loopback interface; use as a context
    manager. `held`: its directory, which goes with it, and stays as long as it lives should this process end
    before. `within`: what its command begins with, to run elsewhere; `patience`: seconds until it listens,
    `stopping`: until it ends."""

    def __init__(
        self,
        *arguments: str,
        kind: str = "flight",
        held: temporary.LockedTempDir | None = None,
        within: Sequence[str] = (),
        patience: float = _READY_SECONDS,
        stopping: float = _STOP_SECONDS,
    ) -> None:
        self._kind = kind
        self._held = held
        self._within = tuple(within)
        self._patience, self._stopping = patience, stopping
        self._arguments = ["--port", "0", "--json", "--exit-with-parent", *arguments]
        self._child: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._serving: int | None = None
        self.hello: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """host:port, or the path of its Unix socket"""
        return str(self.hello["address"])

    @property
    def url(self) -> str:
        """As the target of a run names it."""
        return str(self.hello["url"])

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def start(self) -> ReferenceServer:
        """Starts the child, unless it runs, and waits until it listens. Raises VenturiError with what it said
        otherwise."""
        if self._child is not None:
            return self
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        command = [*self._within, sys.executable, "-m", "venturi", "serve", self._kind, *self._arguments]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Ctrl-C is for the run, which stops its server when it is done with it.
            start_new_session=True,
            pass_fds=() if self._held is None else (self._held.descriptor,),
        )
        try:
            line = self._first_line()
            hello = json.loads(line)
            if not isinstance(hello, dict) or "address" not in hello:
                raise ValueError(line)
            self.hello = hello
            # One that cannot be seen may run in other namespaces, where its number means another.
            pid = hello.get("pid")
            self._serving = pid if isinstance(pid, int) and not is_ending(pid) else None
        except (ValueError, TimeoutError):
            complaint = self.complaint()
            self.stop()
            raise UnreachableError(
                f"the server {self._kind} did not start: {complaint or 'it said nothing'}",
                hint=f"try it by itself: venturi serve {self._kind}",
            ) from None
        except BaseException:
            self.stop()
            raise
        return self

    def _first_line(self) -> bytes:
        assert self._child is not None and self._child.stdout is not None
        deadline = time.monotonic() + self._patience
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                # One read a readiness, unbuffered, so that nothing waits in a buffer unseen.
                piece = self._child.stdout.read1(4096)  # type: ignore[attr-defined]
                if not piece:
                    raise ValueError("ended")
                line += piece
        return line

    @property
    def running(self) -> bool:
        """Whether it serves: neither it nor the process that serves for it, as a database does, is ending."""
        child = self._child
        if child is None or child.poll() is not None:
            return False
        return not any(is_ending(pid) for pid in {child.pid, self._serving or child.pid})

    def complaint(self) -> str:
        """The last lines the child wrote to its standard error."""
        if self._errors is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            if self._child is not None:
                self._child.wait(0.5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        # Its own "error:" says it best; a hint after it speaks to somebody else.
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        return errors[-1] if errors else " ".join(lines[-2:])

    def stop(self, at_once: bool = False) -> None:
        """Ends the child: by its closed input, then by signals; `at_once` by the last of them. Its directory
        goes."""
        self._end(at_once)
        if self._held is not None:
            self._held.remove()

    def _end(self, at_once: bool) -> None:
        child = self._child
        if child is None:
            return
        for stream in (child.stdin, child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        for signal_number in (signal.SIGKILL,) if at_once else (0, signal.SIGTERM, signal.SIGKILL):
            child.send_signal(signal_number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(self._stopping)
                break
        if self._errors is not None:
            self._errors.close()
            self._errors = None
        self._child = None

    def __enter__(self) -> ReferenceServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


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
    """Starts a reference server (`flight`, `charrow`, `timeseries`) with arguments of its own. `remote`: on
    hosts where no loader is, as many as the run wants; else beside the first loader. Raises VenturiError
    where it does not start."""

    def __call__(self, kind: str, arguments: Sequence[str], remote: bool = False) -> Server: ...


class SocketServer(ReferenceServer):
    """A reference server on a Unix socket in a temporary directory, which goes with it."""

    def __init__(self, *arguments: str, kind: str = "flight") -> None:
        held = temporary.make("socket")
        super().__init__("--unix", str(held.path / f"{kind}.sock"), *arguments, kind=kind, held=held)


class StoreProcess(ReferenceServer):
    """A store of time series in a temporary directory, which goes with it; or, where this process is killed,
    with the next one that is started on this machine."""

    def __init__(self, *arguments: str, within: Sequence[str] = ()) -> None:
        held = temporary.make("store")
        self._data = held.path / "data"
        words = ("--data", str(self._data), *arguments)
        super().__init__(*words, kind="timeseries", held=held, within=within)

    def sealed_bytes(self) -> int | None:
        """Bytes of its segments when all is in them, for which it ends. None where something is in none."""
        if not self.running:
            return None
        self._end(at_once=False)
        files = [file for name in ("points", "series") for file in (self._data / name).glob("*.parquet")]
        logs = list((self._data / "log").glob("*.log"))
        return sum(file.stat().st_size for file in files) if not logs else None

    def stop(self, at_once: bool = True) -> None:
        """Nobody will read what it stored, so it need not be written out."""
        super().stop(at_once)


def process_of(kind: str, arguments: Sequence[str], within: Sequence[str] = ()) -> ReferenceServer:
    """The child process for a server of this kind, to be started."""
    if kind == "timeseries":
        return StoreProcess(*arguments, within=within)
    return ReferenceServer(*arguments, kind=kind, within=within)


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


def start_local(kind: str, arguments: Sequence[str], remote: bool = False) -> Server:
    """On this machine's loopback."""
    if remote:
        # Without hosts nobody comes this far: such cells are refused before.
        raise VenturiError(f"{kind}://remote needs hosts of a cluster, --on ray://HOST:PORT, or a --link")
    return process_of(kind, arguments).start()


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
        if kind not in SERVERS.values():
            return process_of(kind, words, self._within).start()
        from venturi.servers import throwaway

        patience = throwaway.named(kind).ready_seconds + _MAKING_SECONDS
        return ReferenceServer(
            *words, kind=kind, within=self._within, patience=patience, stopping=_DATABASE_STOP_SECONDS
        ).start()
