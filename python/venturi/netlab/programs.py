"""Programs of somebody else's at the two ends of one link."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

from venturi.common.credentials import command_tells_secret, masked, named, not_set, split_command
from venturi.common.errors import UnreachableError, VenturiError
from venturi.common.processes import children, is_ending
from venturi.common.texts import Note, listed
from venturi.netlab import program_supervisor
from venturi.netlab.laboratory import Laboratory
from venturi.netlab.network import CLIENT, SERVER, address, filled
from venturi.servers.reference import Halted

Halt = Callable[[], bool]
_READY_SECONDS = 60.0
_HALT_SECONDS = 0.1
_GRACE_SECONDS = 3.0
_END_SECONDS = 15.0
"""More than a guest takes to end what it has started."""
_MOST_CHARACTERS = 300


def read(flag: str, text: str) -> list[str]:
    """The words of a command, with addresses in place of {client} and {server}. Raises VenturiError."""
    try:
        found = [filled(word) for word in split_command(text)]
    except ValueError as error:
        raise VenturiError(f"{flag}: {error}", hint=f'as in {flag} "iperf3 ..."') from None
    if command_tells_secret(found):
        raise VenturiError(
            f"{flag}: Venturi would print or store the secret in it",
            hint="write {env:NAME}; or let the program read the variable itself, which also hides it "
            "from `ps`",
        )
    for name in named(text):
        if not os.environ.get(name):
            raise VenturiError(f"{flag}: {not_set(name)}")
    if shutil.which(found[0]) is None:
        raise VenturiError(f"{flag}: no program {found[0]!r} is in PATH, nor a file that can be run")
    return found


class _Program:
    """One at an end, until `stop`: then all that it has started ends with it."""

    def __init__(self, lab: Laboratory, end: str, command: Sequence[str], **streams: Any) -> None:
        self._channel, other_end = socket.socketpair()
        with other_end:
            number = other_end.fileno()
            guests = [sys.executable, "-m", "venturi.netlab.program_supervisor", str(number), end]
            self._guest = subprocess.Popen(
                [*lab.within(end), *guests, *command], pass_fds=[number], **streams
            )

    @property
    def running(self) -> bool:
        return self._guest.poll() is None

    def ended(self) -> int:
        """Waits for it."""
        try:
            return self._guest.wait()
        except KeyboardInterrupt:
            # It has heard the terminal's Ctrl-C too, as a rule, and may have something to say.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guest.wait(_GRACE_SECONDS)
            raise

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            self._guest.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._guest.kill()
            self._guest.wait()
        self._channel.close()


class Serving(_Program):
    """A server's program, once clients can come to it. Raises VenturiError if they cannot."""

    def __init__(
        self,
        lab: Laboratory,
        text: str,
        note: Note,
        ports: Iterable[int] = (),
        halt: Halt = lambda: False,
    ) -> None:
        """`ports`: where clients will come; without any, where it listens first. Raises Halted if `halt`
        says so meanwhile."""
        command = read("--server", text)
        self._name = command[0]
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        streams = {"stdin": subprocess.DEVNULL, "stdout": self._output, "stderr": self._output}
        super().__init__(lab, SERVER, command, **streams)
        try:
            self._wait(note, set(ports), halt)
        except BaseException:
            self.stop()
            raise

    @property
    def running(self) -> bool:
        """Whether anything of it is left. Where all of it is ending, the guest is about to say so."""
        if super().running and all(map(is_ending, children(self._guest.pid))):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._guest.wait(_END_SECONDS)
        return super().running

    @property
    def hello(self) -> dict[str, Any]:
        """It has not told anything of itself."""
        return {}

    @property
    def address(self) -> str:
        return address(SERVER)

    def complaint(self) -> str:
        """The last line that it has written."""
        self._output.seek(0)
        lines = masked(self._output.read().decode(errors="replace")).strip().splitlines()
        return lines[-1][:_MOST_CHARACTERS] if lines else ""

    def stop(self) -> None:
        super().stop()
        self._output.close()

    def _wait(self, note: Note, ports: set[int], halt: Halt) -> None:
        """Until clients can come."""
        deadline, text = time.monotonic() + _READY_SECONDS, ""
        listens: set[int] = set()
        with selectors.DefaultSelector() as selector:
            selector.register(self._channel, selectors.EVENT_READ)
            while not (ports <= listens if ports else listens):
                if halt():
                    raise Halted
                if time.monotonic() > deadline:
                    lacking = _named(ports - listens) or "it"
                    elsewhere = f"; it listens at {_named(listens)}" if listens else ""
                    raise UnreachableError(
                        f"--server {self._name}: nobody can connect to {lacking} after {_READY_SECONDS:.0f} s"
                        f"{elsewhere}",
                        hint=f"it has to listen at {{server}}, which is {self.address}, or at all addresses",
                    )
                if not selector.select(_HALT_SECONDS):
                    continue
                piece = self._channel.recv(4096).decode()
                if not piece:
                    status = self._guest.wait()
                    raise UnreachableError(
                        f"--server {self._name}: ended before anybody could connect to it: "
                        f"{self.complaint() or f'status {status}'}"
                    )
                if program_supervisor.LOOPBACK in piece and program_supervisor.LOOPBACK not in text:
                    note("warning", f"{self._name} listens at 127.0.0.1, where nobody comes to over the link")
                text += piece
                listens = set(
                    map(int, re.findall(rf"^{program_supervisor.LISTENS} (\d+)$", text, re.MULTILINE))
                )


def _named(ports: set[int]) -> str:
    return listed([f"port {port}" for port in sorted(ports)])


def run(lab: Laboratory, server: str | None, client: Sequence[str], note: Note) -> int:
    """Runs the client over the laboratory's link as it is, its output and input being ours, once clients can
    come to the server. All that they have started ends with them. The client's exit status, as a shell has
    it. Raises VenturiError if the server does not listen."""
    with contextlib.ExitStack() as ends:
        serving = Serving(lab, server, note) if server is not None else None
        if serving is not None:
            ends.callback(serving.stop)
        running = _Program(lab, CLIENT, client)
        ends.callback(running.stop)
        status = running.ended()
        words = serving.complaint() if serving is not None else ""
        if status and words:
            note("info", f"the server's program said last: {words}")
        return status
