"""What all throw-away servers have in common: their directory, settings, life and last words."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from venturi.common import credentials, temporary
from venturi.common.errors import UnreachableError, VenturiError
from venturi.common.suffixes import format_bytes
from venturi.servers.throwaway import network
from venturi.servers.throwaway.guarded import Guarded, give, owner_for
from venturi.targets.system import SPACES

Note = Callable[[str, str], None]

_MOST_MEMORY = 2**30
_POLL_SECONDS = 0.05
# A free port may be taken by another program before the server binds it: "Address already in use", of
# Cassandra's second port "is in use by another process".
_ATTEMPTS = 3
_TAKEN = re.compile("already in use|is in use by")


@dataclass(frozen=True)
class Setting:
    """A setting of the server that is not at its default, and the reason."""

    name: str
    value: str
    why: str

    @property
    def used(self) -> str:
        """The value with the variables that it names filled in: what the server is told, and nobody else."""
        return credentials.filled(self.value)


def by_venturi(*settings: str) -> dict[str, str]:
    """Settings that `venturi serve` chooses by itself."""
    return dict.fromkeys(settings, "venturi serve")


class ThrowawayServer(ABC):
    """A database server of one's own, for a while; use as a context manager.

    It listens on `host` (loopback) and `port` (0: a free one), keeps its data in `data`, or in a temporary
    directory that goes when it stops, and takes further `settings` by their names. `memory` are the bytes
    of its main cache or heap. Where `password_env` names a variable, the account demands the password in
    it; otherwise none. `environment` are further variables of the server's process. `note(level, text)`
    takes lines for the user.
    """

    # How `venturi serve` calls it; the URL's scheme; the product; its port; the scenario to try first.
    name: ClassVar[str]
    scheme: ClassVar[str]
    title: ClassVar[str]
    scenario: ClassVar[str]
    # Settings that are ours to choose, with the flag that chooses them.
    taken: ClassVar[Mapping[str, str]]
    # Settings of durability, which everybody asks for: left at these defaults.
    durability: ClassVar[Mapping[str, str]]
    # The system's account to run as where we are root; None stays root.
    account: ClassVar[str | None] = None
    ready_seconds: ClassVar[float] = 60.0
    stop_seconds: ClassVar[float] = 30.0

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        memory: int | None = None,
        settings: Mapping[str, str] | None = None,
        data: Path | None = None,
        password_env: str | None = None,
        environment: Mapping[str, str] | None = None,
        note: Note = lambda level, text: None,
    ) -> None:
        self._host = host
        self._wanted_port = port
        self._port = port
        self._memory = memory if memory is not None else _usual_memory()
        self._set = {self.spelt(name): value for name, value in (settings or {}).items()}
        self._kept = data.absolute() if data is not None else None
        self.password_env = password_env
        self._environment = dict(environment or {})
        self._note = note
        self._guarded: Guarded | None = None
        self._held: temporary.LockedTempDir | None = None
        self._kept_lock: int | None = None
        self._last_words = ""
        self._log_begins: int | None = None
        # Whether its data were made by this start.
        self._fresh = True
        self.hello: dict[str, Any] = {}

    # What each server does in its own way.

    @abstractmethod
    def find(self) -> str:
        """Finds the programs, and says which. Raises VenturiError, which names the package to install."""

    @abstractmethod
    def settings(self) -> list[Setting]:
        """All that differs from the server's defaults, but for places and names."""

    @abstractmethod
    def _initialise(self, data: Path) -> None:
        """Makes an empty database in `data`."""

    @abstractmethod
    def _serve(self, data: Path) -> None:
        """Writes the configuration and starts the server by `_run`."""

    @abstractmethod
    def _answers(self) -> str | None:
        """The software's name and version where it takes work by now, else None. Raises OSError too."""

    @abstractmethod
    def _complaint(self, log: Sequence[str]) -> str:
        """What went wrong, from the lines of the server's log."""

    @classmethod
    def spelt(cls, name: str) -> str:
        """A setting's name in the one spelling that we use, where the server takes several."""
        return name

    # What its users ask.

    @property
    def address(self) -> str:
        """host:port"""
        return network.joined(network.reachable(self._host), self._port)

    @property
    def user(self) -> str | None:
        """Who may log in; None where the server asks nobody for a name."""
        return "venturi"

    @property
    def url(self) -> str:
        """The target's URL, as `venturi run --target` takes it."""
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}://{user}{self.address}/{SPACES[self.scheme]}"

    @property
    def socket(self) -> Path | None:
        """Its Unix socket in the directory, which only the owner of that can enter; None: it has none."""
        return None

    @property
    def unix_url(self) -> str | None:
        """The same as `url` over its Unix socket."""
        if self.socket is None:
            return None
        user = f"{self.user}@" if self.user else ""
        return f"{self.scheme}+unix://{user}{quote(str(self.socket))}:/{SPACES[self.scheme]}"

    @property
    def pid(self) -> int | None:
        """The server's own process, for whoever counts its CPU time."""
        return self._guarded.pid if self._guarded is not None else None

    @property
    def running(self) -> bool:
        return self._guarded is not None and self._guarded.running

    @property
    def directory(self) -> Path:
        """The temporary directory: configuration, sockets, and the data unless it is kept elsewhere."""
        assert self._held is not None
        return self._held.path

    @property
    def log(self) -> Path:
        return (self._kept or self.directory) / "server.log"

    @property
    def guarded(self) -> Guarded:
        assert self._guarded is not None
        return self._guarded

    def environment(self) -> dict[str, str]:
        """The variables of the server's process."""
        return {**os.environ, **self._environment}

    def secret(self) -> str | None:
        """The account's password. Raises VenturiError where the variable has none."""
        if self.password_env is None:
            return None
        value = os.environ.get(self.password_env)
        if not value:
            raise VenturiError(f"--password-env: {credentials.not_set(self.password_env)}")
        if not value.isprintable():
            raise VenturiError(f"--password-env {self.password_env}: control characters in the password")
        return value

    def _write(self, name: str, text: str) -> Path:
        """A file of the configuration, for the server's account alone."""
        path = self.directory / name
        path.touch(0o600)
        path.write_text(text)
        if self.guarded.owner is not None:
            os.chown(path, *self.guarded.owner)
        return path

    def _run(
        self, command: Sequence[str], kept: int = signal.SIGTERM, discarded: int = signal.SIGKILL
    ) -> None:
        """Starts the server, which one of these signals will end: data that are kept are written out, those
        that go anyway need no farewell."""
        number = discarded if self._kept is None else kept
        self.guarded.serve(command, self.log, number, self.stop_seconds, self.environment())

    def complaint(self) -> str:
        """The server's last words on what went wrong; empty where it said nothing."""
        if self._held is None:
            return self._last_words
        lines = self._logged()
        return self._complaint(lines) if lines else ""

    def _logged(self) -> list[str]:
        """The lines of the log since this start; a log that is kept holds earlier ones."""
        if self._held is None or self._log_begins is None:
            return []
        try:
            return self.log.read_bytes()[self._log_begins :].decode(errors="replace").splitlines()
        except OSError:
            return []

    def start(self) -> ThrowawayServer:
        """Starts the server and waits until it takes work. Raises VenturiError with its last words."""
        self.secret()
        for name in self._set:
            if name in self.taken:
                raise VenturiError(f"--set {name}: this is chosen by {self.taken[name]}")
        self.find()
        for attempt in range(_ATTEMPTS):
            self._port = self._wanted_port or network.free_port(self._host)
            network.check(self._host, self._port)
            try:
                self._start()
                return self
            except BaseException as error:
                self._last_words = self.complaint()
                taken = any(_TAKEN.search(line) for line in self._logged())
                self.stop()
                if not isinstance(error, OSError) or not taken or attempt == _ATTEMPTS - 1:
                    self._raise(error)
        raise AssertionError("an attempt returns or raises")

    def _raise(self, error: BaseException) -> None:
        if not isinstance(error, OSError):  # TimeoutError is one
            raise error
        # A server that is only slow has no last words; those in its log are about other things.
        slow = isinstance(error, TimeoutError)
        reason = f"no answer in {self.ready_seconds:.0f} s" if slow else self._last_words or str(error)
        raise UnreachableError(
            f"{self.title} did not start: {reason}",
            hint=f"its log says more: venturi serve {self.name} --data DIR keeps it in DIR/server.log",
        ) from None

    def _start(self) -> None:
        self._log_begins, self._last_words = None, ""
        owner = owner_for(self.account)
        self._held = temporary.make(self.name)
        if self._kept is not None:
            self._kept_lock = network.claimed(self._kept, self.name)
        self._log_begins = self.log.stat().st_size if self.log.exists() else 0
        locks = [self._held.descriptor, *([] if self._kept_lock is None else [self._kept_lock])]
        self._guarded = Guarded(self.directory, owner, locks)
        if owner is not None:
            os.chown(self.directory, *owner)
        if network.in_memory(self._kept or self.directory):
            self._note(
                "warning",
                f"{self._kept or self.directory} is in memory (tmpfs), where a durable write costs nothing; "
                "a directory on a disk: --data DIR, or the variable TMPDIR",
            )
        data = self._data_directory()
        self._serve(data)
        software = self._wait()
        self.hello = {
            "address": self.address,
            "url": self.url,
            "unix_url": self.unix_url,
            "user": self.user,
            "password_env": self.password_env,
            "pid": self.pid,
            "software": software,
            "settings": {setting.name: setting.value for setting in self.settings()},
            "directory": str(self.directory),
            "data": str(self._kept) if self._kept is not None else None,
        }

    @property
    def room(self) -> int:
        """Bytes of disk that an empty database takes; 0 where that is next to nothing."""
        return 0

    def _check_room(self, place: Path) -> None:
        """Without room the server dies of an errno that its log words as it likes."""
        free = shutil.disk_usage(place).free
        if free < self.room:
            raise UnreachableError(
                f"{self.title} takes {format_bytes(self.room)} of disk at its start; "
                f"{place} has {format_bytes(free)} free",
                hint="--memory SIZE takes less; --data DIR, or the variable TMPDIR, names another disk",
            )

    def _data_directory(self) -> Path:
        """The directory with the data, made ready at its first use."""
        base = self._kept or self.directory
        data, marker = base / "data", base / network.MARKER
        marked = network.marked(marker)
        self._fresh = marked is None or not marked.get("complete")
        if not self._fresh:
            give(data, self.guarded, self._kept)
            return data
        shutil.rmtree(data, ignore_errors=True)
        self._check_room(base)
        marker.write_text(json.dumps({"server": self.name, "complete": False}))
        data.mkdir(mode=0o700)
        give(data, self.guarded, self._kept)
        self._initialise(data)
        marker.write_text(json.dumps({"server": self.name, "complete": True}))
        return data

    def _wait(self) -> str:
        deadline = time.monotonic() + self.ready_seconds
        while time.monotonic() < deadline:
            if not self.guarded.running:
                raise OSError("it ended at once")
            with contextlib.suppress(OSError):
                software = self._answers()
                if software is not None:
                    return software
            time.sleep(_POLL_SECONDS)
        raise TimeoutError

    def _chosen(self, *defaults: Setting) -> list[Setting]:
        """Our settings, then those that the user gave, which come first where both name one."""
        ours = [setting for setting in defaults if setting.name not in self._set]
        return ours + [Setting(name, value, "--set") for name, value in self._set.items()]

    def durable(self) -> dict[str, str]:
        """Settings of durability at their defaults; without those that the user has changed."""
        return {name: value for name, value in self.durability.items() if name not in self._set}

    def stop(self) -> None:
        """Ends the server, and removes its directory; data that is kept was written out by then."""
        if self._guarded is not None:
            self._guarded.close()
            self._guarded = None
        if self._held is not None:
            self._held.remove()
            self._held = None
        if self._kept_lock is not None:
            os.close(self._kept_lock)
            self._kept_lock = None

    def __enter__(self) -> ThrowawayServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def _usual_memory() -> int:
    from venturi.common.environment import memory

    total = memory()["total"]
    return _MOST_MEMORY if total is None else min(_MOST_MEMORY, total // 4)
