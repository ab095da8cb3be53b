"""This process's end of the guard: commands and a server that end with it, whatever ends it."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.common.errors import UnreachableError, VenturiError
from venturi.common.processes import is_ending

# The user and group that a server runs as, where it is not ours.
Owner = tuple[int, int]

_LINUX = sys.platform == "linux"
_STOP_MARGIN_SECONDS = 10.0
_START_SECONDS = 20.0


class Guarded:
    """Runs commands, then one server, below a guard process; `directory` goes when the guard ends."""

    def __init__(self, directory: Path, owner: Owner | None = None, hold: Sequence[int] = ()) -> None:
        """Starts the guard, which keeps the descriptors `hold` open as long as it lives."""
        self.directory = directory
        self.owner = owner
        self._grace = 0.0
        self.pid: int | None = None
        """The server's process."""
        self._ended: int | None = None
        self._read = b""
        self._guard = subprocess.Popen(
            # Isolated and without site-packages: up in some 20 ms, and nothing can lead it astray.
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("guard.py")), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C is for us, who stop the server when we are done with it.
            start_new_session=True,
            pass_fds=tuple(hold),
            bufsize=0,
        )

    @property
    def running(self) -> bool:
        """Whether the server lives, though the guard may not have heard of its end yet."""
        if self.pid is not None and self._ended is None:
            with contextlib.suppress(TimeoutError):
                self._answer(0.0)
        return self.pid is not None and self._ended is None and not is_ending(self.pid)

    def run(
        self,
        command: Sequence[str],
        log: Path,
        seconds: float,
        *,
        text: str | None = None,
        environment: Mapping[str, str] | None = None,
        as_owner: bool = True,
    ) -> int:
        """A command's exit status; its output is appended to `log`, `text` is its input. Raises TimeoutError
        after `seconds`, OSError where it cannot be run."""
        self._order(
            {
                "run": list(command),
                "input": text,
                "log": str(log),
                "environment": dict(os.environ if environment is None else environment),
                "owner": self.owner if as_owner else None,
            }
        )
        return int(self._answer(seconds)["status"])

    def serve(
        self,
        command: Sequence[str],
        log: Path,
        number: int,
        grace: float,
        environment: Mapping[str, str],
        place: Path | None = None,
    ) -> int:
        """Starts the server in `place`, or in the directory, and says its pid. It will be stopped by signal
        `number`, and by force after `grace` seconds. Raises OSError where it cannot be run."""
        self._grace = grace
        order = {"serve": list(command), "signal": number, "grace": grace, "log": str(log)}
        if place is not None:
            order["cwd"] = str(place)
        self._order({**order, "environment": dict(environment), "owner": self.owner})
        self.pid = int(self._answer(_START_SECONDS)["pid"])
        return self.pid

    def _order(self, order: Mapping[str, Any]) -> None:
        assert self._guard.stdin is not None
        try:
            self._guard.stdin.write(json.dumps(order).encode() + b"\n")
        except OSError:
            raise self._lost() from None

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next answer, with what it says of the server noted. Raises TimeoutError, OSError."""
        assert self._guard.stdout is not None
        deadline = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._guard.stdout, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise TimeoutError
                piece = os.read(self._guard.stdout.fileno(), 4096)
                if not piece:
                    if self.pid is None:
                        raise self._lost()
                    # The kernel has killed the server with it.
                    self._ended = -signal.SIGKILL
                    return {}
                self._read += piece
        line, _, self._read = self._read.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise OSError(answer["error"])
        if "ended" in answer:
            self._ended = int(answer["ended"])
        return answer

    def _lost(self) -> VenturiError:
        return UnreachableError("the guard of the throw-away server has died")

    def close(self) -> None:
        """Stops the server and removes the directory."""
        for stream in (self._guard.stdin, self._guard.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            self._guard.wait(self._grace + _STOP_MARGIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        if self._guard.returncode != 0 and self.pid is not None and self._ended is None and not _LINUX:
            # Killed before it could, and no kernel has killed the server with it.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        shutil.rmtree(self.directory, ignore_errors=True)


_CHECK_SECONDS = 10.0


def owner_for(account: str | None) -> Owner | None:
    """User and group to run as: `account`, or nobody where there is no such account; None: as we are."""
    if account is None or os.geteuid() != 0:
        return None
    for name in (account, "nobody"):
        try:
            found = pwd.getpwnam(name)
            return found.pw_uid, found.pw_gid
        except KeyError:
            continue
    raise VenturiError(
        f"run by root, a server needs an account of its own, and there is neither {account} nor nobody"
    )


def give(directory: Path, guarded: Guarded, named: Path | None) -> None:
    """Makes the directory the server's. Raises VenturiError where its account cannot come there."""
    if guarded.owner is None:
        return
    if named is not None:
        os.chown(named, *guarded.owner)
    for path, _, files in os.walk(directory):
        os.chown(path, *guarded.owner)
        for name in files:
            os.chown(os.path.join(path, name), *guarded.owner, follow_symlinks=False)
    command = ["/bin/sh", "-c", 'test -w "$1"', "sh", str(directory)]
    if guarded.run(command, Path(os.devnull), _CHECK_SECONDS) != 0:
        name = pwd.getpwuid(guarded.owner[0]).pw_name
        raise VenturiError(
            f"--data {named}: the account {name}, which the server runs as for root, cannot enter it"
            if named is not None
            else f"{directory}: the account {name}, which the server runs as for root, cannot enter it",
            hint="every directory above it must let others pass (chmod o+x); /var/tmp does",
        )
