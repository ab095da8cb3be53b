"""A server that somebody's own command starts, on a port of our choice, for one measurement."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import time
from pathlib import Path
from urllib.parse import urlsplit

from venturi.common import temporary
from venturi.common.credentials import INSTEAD, command_tells_secret, filled
from venturi.common.errors import UnreachableError, VenturiError
from venturi.servers.throwaway import network
from venturi.servers.throwaway.guarded import Guarded

PORT = "{port}"
HOST = "127.0.0.1"
_READY_SECONDS = 60.0
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.05


def address(where: str, url: str, servers: contextlib.ExitStack) -> str:
    """A URL as it is; of a command that takes its port at `{port}` the server is started, and is found at
    `url`."""
    if re.match(r"[\w+.-]+://", where):
        return where
    # Of a run that is resumed the address is whole, and so is its port.
    port = None if PORT in url else urlsplit(url).port
    return url.replace(PORT, str(servers.enter_context(Commanded(where, port))))


class Commanded:
    """Ends with the `with`, and with this process, whatever ends that."""

    def __init__(self, command: str, port: int | None = None) -> None:
        """`port`: None takes a free one. Raises VenturiError where the command cannot be read, or has no
        `{port}`."""
        self._command, self._port = command, port
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise VenturiError(f"{command}: {error}") from None
        if command_tells_secret(self._words):
            raise VenturiError(
                "the secret in this server command could appear in error messages", hint=INSTEAD
            )
        if not any(PORT in word for word in self._words):
            raise VenturiError(
                f"{command}: neither a URL nor a command with {PORT}, where it takes its port",
                hint=f'as in "build/server --port {PORT}"',
            )
        self._ends = contextlib.ExitStack()

    def __enter__(self) -> int:
        """Its port, once somebody listens there. Raises VenturiError with its last words, or where
        somebody listens on the given port before."""
        with contextlib.ExitStack() as ends:
            port = self._port or network.free_port(HOST)
            if self._port is not None and _answers(port):
                raise UnreachableError(
                    f"{self._command}: something else listens on port {port}, which this run had before",
                    hint=f"end it: ss -ltnp 'sport = :{port}'",
                )
            held = temporary.make("server")
            ends.callback(held.remove)
            guarded = Guarded(held.path, hold=[held.descriptor])
            ends.callback(guarded.close)
            log = held.path / "server.log"
            try:
                words = [filled(word.replace(PORT, str(port))) for word in self._words]
                guarded.serve(words, log, signal.SIGTERM, _GRACE_SECONDS, os.environ, Path.cwd())
                self._wait(guarded, port)
            except OSError as error:
                reason = _last_words(log) or str(error)
                raise UnreachableError(f"{self._command}: does not listen on port {port}: {reason}") from None
            except ValueError as error:
                raise VenturiError(f"{self._command}: {error}") from None
            self._ends = ends.pop_all()
        return port

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def _wait(self, guarded: Guarded, port: int) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if not guarded.running:
                raise OSError("it ended at once")
            if _answers(port):
                return
            time.sleep(_POLL_SECONDS)
        raise OSError(f"nobody listens after {_READY_SECONDS:.0f} s")


def _answers(port: int) -> bool:
    try:
        network.connect(HOST, port).close()
    except OSError:
        return False
    return True


def _last_words(log: Path) -> str:
    with contextlib.suppress(OSError):
        return next(filter(None, map(str.strip, reversed(log.read_text(errors="replace").splitlines()))), "")
    return ""
