"""The process between Venturi and a program of somebody else's at an end of a link, in that end's namespace.

    python -m venturi.netlab.program_supervisor DESCRIPTOR client|server WORD...

The descriptor is of a socket. Where it ends, which a kill -9 of whoever holds the other side brings about
too, the program is ended with all that it has started, whatever of that has left its group or its parent. A
client ends with its program; a server when nothing of it is left. Of a server the socket tells, a line each:
`loopback` when it listens where only its own host comes to, `listens PORT` when clients can come there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from venturi.common.credentials import filled
from venturi.common.processes import children
from venturi.servers.throwaway.guard import die_with

LISTENS, LOOPBACK = "listens", "loopback"
_PR_SET_CHILD_SUBREAPER = 36
_POLL_SECONDS = 0.02
_GRACE_SECONDS = 3.0
_KILLED_SECONDS = 5.0
_NO_COMMAND = 127
"""What a shell ends with where it finds no such program."""
_TABLES = ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")
_LISTEN, _UNCONNECTED = "0A", "07"
"""States of /proc/net/tcp, and of udp and raw, whose sockets take what comes."""
_LOOPBACKS = ("0100007F", "00000000000000000000000001000000")


class _Guest:
    def __init__(self, channel: socket.socket, serves: bool, words: list[str]) -> None:
        """Raises OSError if there is no such program."""
        self._channel, self._serves = channel, serves
        self._reported: set[str] = set()
        # Of others in this namespace.
        self._before = set(_listening())
        self._status: int | None = None
        self._left = True
        # What its parent has left comes to this process, not to another namespace's first.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._program = subprocess.Popen(
            words,
            # A client is in the foreground, with the terminal's keys.
            start_new_session=serves,
            preexec_fn=die_with(os.getpid(), signal.SIGKILL),
        )

    def follow(self) -> int:
        """The program's exit status, as a shell has it."""
        while True:
            self._reap()
            if not self._left or (self._status is not None and not self._serves):
                break
            if self._serves:
                self._tell()
            if select.select([self._channel], [], [], _POLL_SECONDS)[0] and not self._channel.recv(64):
                break
        status = self._status if self._status is not None else 0
        return status if status >= 0 else 128 - status

    def _tell(self) -> None:
        found = {one.word for one in set(_listening()) - self._before}
        for word in found - self._reported:
            with contextlib.suppress(OSError):
                self._channel.send(f"{word}\n".encode())
        self._reported |= found

    def _reap(self) -> None:
        """Takes notice of what has ended: of orphans that have come to this process too."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self._program.pid:
                    self._status = os.waitstatus_to_exitcode(status)
        self._left = False

    def end(self) -> None:
        """Ends all that is left."""
        self._wait(signal.SIGTERM, _GRACE_SECONDS)
        self._wait(signal.SIGKILL, _KILLED_SECONDS)

    def _wait(self, number: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        channel: set[int] = set()
        self._reap()
        while self._left and time.monotonic() < deadline:
            # The children of those that end come here next.
            for pid in set(children(os.getpid())) - channel:
                channel.add(pid)
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            time.sleep(_POLL_SECONDS)
            self._reap()


class _Socket(NamedTuple):
    """One that waits for others: `loopback`, or `listens PORT`."""

    word: str
    inode: str


def _listening() -> Iterator[_Socket]:
    """Of this namespace."""
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                address, _, port = fields[1].rpartition(":")
                if fields[3] == (_LISTEN if table.startswith("tcp") else _UNCONNECTED):
                    word = LOOPBACK if address in _LOOPBACKS else f"{LISTENS} {int(port, 16)}"
                    yield _Socket(word, fields[9])


def main() -> int:
    # Ctrl-C is for the program, and for whoever holds the socket. Handlers, for what is ignored stays so in
    # the program.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        channel.set_inheritable(False)
        words = [*map(filled, sys.argv[3:])]
        try:
            guest = _Guest(channel, sys.argv[2] == "server", words)
        except OSError as error:
            print(f"{words[0]}: {error.strerror}", file=sys.stderr)
            return _NO_COMMAND
        try:
            return guest.follow()
        finally:
            guest.end()


if __name__ == "__main__":
    sys.exit(main())
