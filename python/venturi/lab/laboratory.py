"""Namespaces with links between them: made, changed, looked at, taken down."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.common.links import Link, Rates
from venturi.lab import verified
from venturi.lab.hosts import SERVER, Hosts, address
from venturi.lab.shape import Order, Shape

__all__ = ["Laboratory", "WrongLink"]

_START_SECONDS = 20.0
_ORDER_SECONDS = 60.0
_STOP_SECONDS = 5.0
_WATCH_SECONDS = 0.2
_LOOKS = 4
"""How often a path is looked at before it is called wrong: others may keep this host busy for a moment."""
_HOLDS_SECONDS = 20.0
"""How long a look at a path holds, where nothing was changed: as long as some trials."""
_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "unshare": "util-linux", "nsenter": "util-linux"}
"""Programs that are called, and Debian's packages with them."""
_PATH = ":".join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])
"""Administrators' programs are not in everybody's."""


class WrongLink(Exception):
    """The path is not the link that was asked for; `found`: what was measured of it."""

    def __init__(self, text: str, found: Mapping[str, Any]) -> None:
        super().__init__(text)
        self.found = dict(found)


class Laboratory:
    """Stays until `close`, or until this process ends, whatever ends that.

    Raises VenturiError where it cannot be made on this host, with the reason.
    """

    def __init__(self, loaders: int = 1) -> None:
        """`loaders`: clients, each with a link of its own."""
        _check_host()
        self._hosts = Hosts(loaders)
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._read = b""
        self._root = os.geteuid() == 0
        self._now: Shape | None = None
        self._found: dict[str, Any] = {}
        self._looked = 0.0
        self._control: str | None = None
        # Who is not root has power over networks in a user namespace, and over its networks alone.
        user = [] if self._root else ["--user", "--map-current-user", "--keep-caps"]
        self._child = subprocess.Popen(
            ["unshare", *user, "--net", "--", sys.executable, "-m", "venturi.lab.keeper", *self._hosts.ends],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PATH": _PATH},
            start_new_session=True,
            bufsize=0,
        )
        try:
            self._pids: dict[str, int] = self._answer(_START_SECONDS)
            self._ip(self._hosts.made(self._pids))
            for end in self._hosts.ends:
                self._ip(self._hosts.placed(end), end)
            self._run(Shape(Link(), self._hosts).pings(os.getegid()))
        except BaseException as error:
            said = self._complaint()
            self.close()
            if not isinstance(error, OSError | ValueError):
                raise
            raise VenturiError(
                f"--link: no network namespaces can be made here: {said or error}",
                ExitCode.UNREACHABLE,
                hint="be root, or allow unprivileged user namespaces "
                "(kernel.unprivileged_userns_clone=1, user.max_user_namespaces above 0)",
            ) from None

    def within(self, end: str) -> list[str]:
        """What a command begins with that is to run at this end: `client` or `server`."""
        there = f"/proc/{self._pids[end]}/ns"
        user = [] if self._root else [f"--user={there}/user", "--preserve-credentials"]
        # For the core, which looks for the server's process (crates/base/src/meter/readers/beside.rs).
        beside = f"VENTURI_BESIDE={address(SERVER)}=/proc/{self._pids[SERVER]}/net"
        return ["nsenter", *user, f"--net={there}/net", "--", "env", beside]

    @property
    def hosts(self) -> Hosts:
        return self._hosts

    def ready(self, link: Link, cross: float | None = None, backplane: Rates | None = None) -> dict[str, Any]:
        """Makes each client's path to the server this link, and says what was measured of it: anew where it
        was another one before, or that was long ago. `cross`: percent of its rate that others take from then
        on; `backplane`: what all clients share.

        Raises WrongLink where it is not as asked, OSError where it cannot be made.
        """
        asked = Shape(link, self._hosts, backplane, cross)
        if asked != self._now:
            self._now = None
            self._make(asked)
        elif time.monotonic() - self._looked < _HOLDS_SECONDS:
            return dict(self._found)
        self._now = None
        self._order("fill", [])
        self._found = self._looked_at(asked)
        self._order("fill", asked.fill())
        self._now, self._looked = asked, time.monotonic()
        return dict(self._found)

    def _make(self, shape: Shape) -> None:
        self._order("relay", None)
        self._run(shape.orders())
        if shape.link.control != self._control:
            self._run(shape.control())
            self._control = shape.link.control
        if shape.needs_relay:
            self._order("relay", shape.relay())

    def look(self, link: Link) -> dict[str, Any]:
        """What is measured of the path, which `ready` has made this link. Raises as that does."""
        return self._looked_at(Shape(link, self._hosts))

    def _looked_at(self, shape: Shape) -> dict[str, Any]:
        """Of the first client's path; all have to be as asked."""
        first, *_ = [self._looked_from(client, shape) for client in self._hosts.clients]
        return first

    def _looked_from(self, client: str, shape: Shape) -> dict[str, Any]:
        wrong: list[str] = []
        for _ in range(_LOOKS):
            found = self._order("look", shape.look(client))
            wrong = list(verified.faults(shape.path, found))
            recorded = verified.recorded(shape.path, found) | {"control": self._control or _own_control()}
            if not wrong:
                return recorded
        where = f" from {client}" if self._hosts.loaders > 1 else ""
        raise WrongLink(f"the path{where} is not {shape.path.text}: {'; '.join(wrong)}", recorded)

    def overrun(self) -> int:
        """Frames that the relay has dropped, since the link was made, because it could not keep up."""
        passed = self._order("passed", None)
        return sum(way["overrun"] for way in passed) if passed is not None else 0

    def close(self) -> None:
        for stream in (self._child.stdin, self._child.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._errors.close()

    def _run(self, orders: Iterable[Order]) -> None:
        for order in orders:
            self._order("run", order)

    def _ip(self, text: str, where: str | None = None) -> None:
        self._order("run", {"words": ["ip", "-batch", "-"], "text": text, "where": where})

    def _order(self, name: str, given: object) -> Any:
        """Raises OSError with what went wrong."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps({name: given}).encode() + b"\n")
        except OSError:
            raise OSError(self._ended()) from None
        return self._answer(_ORDER_SECONDS)

    def _answer(self, seconds: float) -> Any:
        assert self._child.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._child.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise OSError(f"the laboratory does not answer in {seconds:.0f} s")
                piece = os.read(self._child.stdout.fileno(), 1 << 16)
                if not piece:
                    raise OSError(self._ended())
                self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        answer: Mapping[str, Any] = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        return answer["answer"]

    @contextlib.contextmanager
    def watched(self, told: Callable[[], None]) -> Iterator[None]:
        """Calls `told` should the laboratory end within the block: nothing arrives any more then."""
        left = threading.Event()

        def watch() -> None:
            while not left.wait(_WATCH_SECONDS):
                if self._child.poll() is not None:
                    told()
                    return

        thread = threading.Thread(target=watch, name="venturi-link", daemon=True)
        thread.start()
        try:
            yield
        finally:
            left.set()
            thread.join()

    def _ended(self) -> str:
        said = self._complaint()
        if not said:
            status = self._child.poll()
            said = "it was killed" if status is not None and status < 0 else f"status {status}"
        return f"the laboratory has ended: {said}"

    def _complaint(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(0.5)
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _check_host() -> None:
    if sys.platform != "linux":
        raise VenturiError("--link needs Linux, for its network namespaces", ExitCode.UNREACHABLE)
    for program, package in _PROGRAMS.items():
        if shutil.which(program, path=_PATH) is None:
            raise VenturiError(
                f"--link needs the program {program}, which is not here",
                ExitCode.UNREACHABLE,
                hint=f"Debian's package {package} has it",
            )


def _own_control() -> str:
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        return file.read().strip()
