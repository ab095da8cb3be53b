"""Programs of somebody else's at the two ends of one link."""

from __future__ import annotations

import contextlib
import selectors
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

from venturi.common.errors import ExitCode, VenturiError
from venturi.lab import guest
from venturi.lab.hosts import ADDRESSES
from venturi.lab.laboratory import Laboratory

__all__ = ["read", "run"]

Note = Callable[[str, str], None]
_READY_SECONDS = 60.0
_GRACE_SECONDS = 3.0
_END_SECONDS = 15.0
"""More than a guest takes to end what it has started."""
_MOST_SAID = 300


def read(flag: str, text: str) -> list[str]:
    """The words of a command, with addresses in place of {client} and {server}. Raises VenturiError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise VenturiError(f"{flag} {text}: {error}", hint="a quote in it has no end") from None
    if not words:
        raise VenturiError(f"{flag}: is empty", hint=f'as in {flag} "iperf3 ..."')
    for end, address in ADDRESSES.items():
        words = [word.replace(f"{{{end}}}", address) for word in words]
    if shutil.which(words[0]) is None:
        raise VenturiError(f"{flag}: no program {words[0]!r} is in PATH, nor a file that can be run")
    return words


def run(lab: Laboratory, server: Sequence[str] | None, client: Sequence[str], note: Note) -> int:
    """Runs the client over the laboratory's link as it is, its output and input being ours, once clients can
    come to the server. All that they have started ends with them. The client's exit status, as a shell has
    it. Raises VenturiError where the server does not listen."""
    with contextlib.ExitStack() as ends:
        said: IO[bytes] | None = None
        if server is not None:
            said = ends.enter_context(tempfile.TemporaryFile())
            nothing = {"stdin": subprocess.DEVNULL, "stdout": said, "stderr": said}
            running, told = ends.enter_context(_running("server", lab, server, **nothing))
            _wait(running, told, said, server, note)
        running, _ = ends.enter_context(_running("client", lab, client))
        status = _ended(running)
        words = _last_words(said) if said is not None else ""
        if status and words:
            note("info", f"the server's program said last: {words}")
        return status


@contextlib.contextmanager
def _running(
    end: str, lab: Laboratory, words: Sequence[str], **streams: Any
) -> Iterator[tuple[subprocess.Popen[bytes], socket.socket]]:
    """A program at that end, and the socket on which its guest tells of it."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            number = theirs.fileno()
            command = [*lab.within(end), sys.executable, "-m", "venturi.lab.guest", str(number), end, *words]
            running = subprocess.Popen(command, pass_fds=[number], **streams)
        try:
            yield running, ours
        finally:
            ours.shutdown(socket.SHUT_RDWR)
            try:
                running.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()


def _wait(
    running: subprocess.Popen[bytes], told: socket.socket, said: IO[bytes], words: Sequence[str], note: Note
) -> None:
    """Until clients can come."""
    name, place = words[0], ADDRESSES["server"]
    deadline, text = time.monotonic() + _READY_SECONDS, ""
    with selectors.DefaultSelector() as selector:
        selector.register(told, selectors.EVENT_READ)
        while f"{guest.LISTENS}\n" not in text:
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise VenturiError(
                    f"--server {name}: nobody can connect to it after {_READY_SECONDS:.0f} s",
                    ExitCode.UNREACHABLE,
                    hint=f"it has to listen at {{server}}, which is {place}, or at all addresses",
                )
            piece = told.recv(256).decode()
            if not piece:
                running.wait()
                raise VenturiError(
                    f"--server {name}: ended before anybody could connect to it: "
                    f"{_last_words(said) or f'status {running.returncode}'}",
                    ExitCode.UNREACHABLE,
                )
            if guest.LOOPBACK in piece and guest.LOOPBACK not in text:
                note("warning", f"{name} listens at 127.0.0.1, where nobody comes to over the link")
            text += piece


def _ended(running: subprocess.Popen[bytes]) -> int:
    try:
        return running.wait()
    except KeyboardInterrupt:
        # It has heard the terminal's Ctrl-C too, as a rule, and may have something to say.
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(_GRACE_SECONDS)
        raise


def _last_words(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read()[-4096:].decode(errors="replace").strip().splitlines()
    return lines[-1][:_MOST_SAID] if lines else ""
