"""Connections of loaders in Spark tasks to the driver: Spark hands a running task nothing but a barrier.

A task connects, says who it is in a line, `{"token", "index"}`, and answers calls (`venturi.engine.calls`).
"""

from __future__ import annotations

import contextlib
import hmac
import json
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from venturi.cluster.trial.clock import ONE_MACHINE
from venturi.common.errors import VenturiError
from venturi.engine.calls import Caller, serve

__all__ = ["Switchboard", "TaskLoader", "answer_calls"]

_MOST_HELLO = 1024
_PATIENCE = 10.0  # seconds, to connect, to say who one is, and for a peer to take what it is sent


def _patient(connection: socket.socket) -> None:
    """Reads wait while the peer is alive, writes for a limited time."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer whose host is gone never hangs up.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_PATIENCE), 0))


def answer_calls(host: str, port: int, token: str, index: int, loader: Any) -> str | None:
    """Answers the driver's calls to a task's loader until the driver hangs up, then ends the trial. Returns
    what kept it from the driver, or None."""
    try:
        connection = socket.create_connection((host, port), _PATIENCE)
    except OSError as error:
        return f"the driver cannot be reached at {host}:{port}: {error}"
    _patient(connection)
    with (
        contextlib.suppress(OSError),
        connection,
        connection.makefile("rb") as reader,
        connection.makefile("wb") as writer,
    ):
        with contextlib.suppress(OSError):
            writer.write(json.dumps({"token": token, "index": index}).encode() + b"\n")
            writer.flush()
            serve(reader, writer, loader)
        loader.cancel()
        # Its streams end before the task does.
        loader.result(_PATIENCE)
    return None


class TaskLoader(Caller):
    """A loader in a task: a `venturi.cluster.trial.handle.Handle`."""

    def __init__(self, connection: socket.socket, index: int) -> None:
        self.index = index
        self.address: str | None = str(connection.getpeername()[0])
        self.identity: Mapping[str, Any] = {}
        self.clock = ONE_MACHINE
        self._connection = connection
        super().__init__(f"loader-{index + 1}", connection.makefile("rb"), connection.makefile("wb"))

    def close(self) -> None:
        """Hangs up: the task cancels what still runs, and ends."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Switchboard:
    """Where the driver waits for its tasks. It hangs up on peers without the token."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_hex(16)
        try:
            family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((host, 0), family=family)
        except OSError as error:
            raise VenturiError(f"the driver cannot listen on {host}: {error}") from None
        self.port = int(self._listener.getsockname()[1])
        self._loaders: queue.SimpleQueue[TaskLoader] = queue.SimpleQueue()
        threading.Thread(target=self._accept, name="venturi-switchboard", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_PATIENCE)
            # Unbuffered: what comes after the line is an answer to a call.
            with connection.makefile("rb", buffering=0) as reader:
                hello = json.loads(reader.readline(_MOST_HELLO))
            if not hmac.compare_digest(str(hello["token"]), self.token):
                raise OSError("not a task of this run")
            _patient(connection)
            self._loaders.put(TaskLoader(connection, int(hello["index"])))
        except (OSError, KeyError, TypeError, ValueError):
            connection.close()

    def loaders(self, count: int, seconds: float, broken: threading.Event) -> list[TaskLoader]:
        """As many tasks as were started, in their order; fewer if time ran out or `broken` was set."""
        found: dict[int, TaskLoader] = {}
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline and not broken.is_set():
            with contextlib.suppress(queue.Empty):
                loader = self._loaders.get(timeout=0.05)
                found[loader.index] = loader
        return [found[index] for index in sorted(found)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # A blocked accept does not notice a close.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
