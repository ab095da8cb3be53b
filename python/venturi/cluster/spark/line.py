"""A driver's calls to its loaders in Spark tasks, each over a connection that its task made to the driver.

Spark itself hands a running task nothing but a barrier. Messages are JSON behind their length (4 bytes, big
endian): `{"token", "index"}` from the task once, then `{"call", "method", "arguments"}` from the driver and
`{"call", "answer"}` or `{"call", "error"}` from the task, in any order.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import json
import queue
import secrets
import socket
import struct
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from venturi.cluster.trial.handle import Gone
from venturi.common.errors import VenturiError

__all__ = ["Line", "Switchboard", "answer_calls"]

_LENGTH = struct.Struct(">I")
# A record with its samples may have some MB; the first word of whoever connects has no more than a line.
_MOST_BYTES = 512 << 20
_MOST_HELLO = 1024
_PATIENCE = 10.0  # seconds, to connect, to say who one is, and for a peer to take what it is sent
_METHODS = {
    *("identify", "now", "begin", "wait", "phase", "start_at", "conclude"),
    *("cancel", "result", "progress", "idle", "probe_tcp", "probe"),
}


def _send(connection: socket.socket, message: Any) -> None:
    body = json.dumps(message).encode()
    connection.sendall(_LENGTH.pack(len(body)) + body)


def _receive(connection: socket.socket, most: int = _MOST_BYTES) -> Any:
    """The next message. Raises EOFError where the peer has gone, OSError where it is no peer of ours."""
    (size,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if size > most:
        raise OSError(f"a message of {size} bytes")
    try:
        return json.loads(_exactly(connection, size))
    except ValueError:
        raise OSError("a message that is no JSON") from None


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        piece = connection.recv(min(count - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def _patient(connection: socket.socket) -> None:
    """Reads wait while the peer is alive, writes for a limited time."""
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer whose host is gone never hangs up.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(_PATIENCE), 0))


def answer_calls(host: str, port: int, token: str, index: int, loader: Any) -> str | None:
    """In a task: does what the driver asks of the loader, until it hangs up; then nothing may go on here.
    What kept it from the driver, or None."""
    try:
        connection = socket.create_connection((host, port), _PATIENCE)
    except OSError as error:
        return f"the driver cannot be reached at {host}:{port}: {error}"
    with connection:
        _patient(connection)
        sending = threading.Lock()

        def answer(call: dict[str, Any]) -> None:
            name = str(call["method"])
            try:
                if name not in _METHODS:
                    raise RuntimeError(f"no such call: {name}")
                reply = {"answer": getattr(loader, name)(*call["arguments"])}
            except Exception as error:  # the driver is told
                reply = {"error": str(error) or type(error).__name__}
            with sending, contextlib.suppress(OSError):
                _send(connection, {"call": call["call"], **reply})

        try:
            _send(connection, {"token": token, "index": index})
            while True:
                call = _receive(connection)
                if call["method"] == "now":
                    answer(call)  # at once: half of what it takes is the clock's uncertainty
                else:
                    threading.Thread(target=answer, args=(call,), daemon=True).start()
        except (EOFError, OSError):
            loader.cancel()
            # Its streams end before the task does.
            loader.result(_PATIENCE)
    return None


class Line:
    """A loader in a task, as the driver has it: a `venturi.cluster.trial.handle.Handle`."""

    def __init__(self, connection: socket.socket, index: int) -> None:
        self.index = index
        self.name = f"loader-{index + 1}"
        self.address: str | None = str(connection.getpeername()[0])
        self.identity: Mapping[str, Any] = {}
        self._connection = connection
        self._numbers = itertools.count(1)
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self.gone = False
        threading.Thread(target=self._read, name=f"venturi-{self.name}", daemon=True).start()

    def _read(self) -> None:
        with contextlib.suppress(EOFError, OSError, KeyError, TypeError):
            while True:
                reply = _receive(self._connection)
                with self._lock:
                    call = self._calls.pop(reply["call"], None)
                if call is None:
                    continue
                if "error" in reply:
                    call.set_exception(RuntimeError(str(reply["error"])))
                else:
                    call.set_result(reply.get("answer"))
        with self._lock:
            self.gone = True
            left, self._calls = list(self._calls.values()), {}
        for call in left:
            call.set_exception(Gone())

    def call(self, method: str, *arguments: object) -> Future[Any]:
        """A method of the loader. The future fails as the loader does, and where its task is gone."""
        future: Future[Any] = Future()
        with self._lock:
            if not self.gone:
                number = next(self._numbers)
                self._calls[number] = future
                try:
                    _send(self._connection, {"call": number, "method": method, "arguments": list(arguments)})
                    return future
                except OSError:
                    del self._calls[number]
        future.set_exception(Gone())
        return future

    def close(self) -> None:
        """Hangs up: the task cancels what still runs, and ends."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Switchboard:
    """Where the driver waits for its tasks. Whoever does not know the token is hung up on."""

    def __init__(self, host: str) -> None:
        self.token = secrets.token_hex(16)
        try:
            family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
            self._listener = socket.create_server((host, 0), family=family)
        except OSError as error:
            raise VenturiError(f"the driver cannot listen on {host}: {error}") from None
        self.port = int(self._listener.getsockname()[1])
        self._lines: queue.SimpleQueue[Line] = queue.SimpleQueue()
        threading.Thread(target=self._accept, name="venturi-switchboard", daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._greet, args=(connection,), daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_PATIENCE)
            hello = _receive(connection, _MOST_HELLO)
            if not hmac.compare_digest(str(hello["token"]), self.token):
                raise OSError("no task of ours")
            _patient(connection)
            self._lines.put(Line(connection, int(hello["index"])))
        except (OSError, EOFError, KeyError, TypeError, ValueError):
            connection.close()

    def lines(self, count: int, seconds: float, broken: threading.Event) -> list[Line]:
        """As many tasks as were started, in their order; fewer where time ran out or `broken` was set."""
        found: dict[int, Line] = {}
        deadline = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < deadline and not broken.is_set():
            with contextlib.suppress(queue.Empty):
                line = self._lines.get(timeout=0.05)
                found[line.index] = line
        return [found[index] for index in sorted(found)]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            # A blocked accept does not notice a close.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
