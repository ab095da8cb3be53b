"""A TCP relay that holds what it passes on, so that a test acts in the middle of something."""

from __future__ import annotations

import contextlib
import json
import re
import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.wait import wait_until

_BUFFER = 4 << 20
"""Of a client's sends: they arrive as they were written, not cut where a window was full."""
_REST_SECONDS = 1.0
"""How long the rest of a pattern may take that seems to have begun."""


class HoldingRelay:
    """Passes bytes on to a port of this host and counts them.

    `hold_after`: after so many bytes it takes in no more, on no connection; what it has taken in by then
    still passes. `held` says so, and `release` lets all go on.
    `pattern`: where that first comes, `instead` is passed on; `altered` counts it.
    """

    def __init__(
        self, port: int, *, hold_after: int | None = None, pattern: bytes = b"", instead: bytes = b""
    ) -> None:
        self.port = port
        self.hold_after = hold_after
        self.held = threading.Event()
        self.passed = self.altered = 0
        self.connections: list[int] = []
        """Bytes that each connection has passed on, in the order of their beginnings."""
        self._pattern = re.compile(pattern, re.DOTALL) if pattern else None
        self._instead = instead
        self._open = threading.Event()
        self._open.set()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        self.own_port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> HoldingRelay:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self.cut()

    def release(self) -> None:
        """What was held passes, and whatever comes after it."""
        with self._lock:
            self.hold_after = None
            self._open.set()

    def cut(self) -> None:
        """Ends every connection and takes no more, as a server that has died."""
        # Closing alone does not wake the thread that accepts.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(("127.0.0.1", self.port))
                except OSError:
                    client.close()  # as a port where nobody listens any more
                    continue
                number = len(self.connections)
                self.connections.append(0)
                self._sockets += client, server
                for source, sink in ((client, server), (server, client)):
                    source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    words = (number, source, sink)
                    threading.Thread(target=self._pass_on, args=words, daemon=True).start()

    def _pass_on(self, number: int, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            for data in self._changed(source, self._pattern) if self._pattern else _received(source):
                self._open.wait()
                sink.sendall(data)
                with self._lock:
                    self.passed += len(data)
                    self.connections[number] += len(data)
                    if self.hold_after is not None and self.passed >= self.hold_after:
                        self._open.clear()
                        self.held.set()
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _changed(self, source: socket.socket, sought: re.Pattern[bytes]) -> Iterator[bytes]:
        """What comes, with the pattern replaced once. What may be the beginning of it waits for its rest."""
        kept = b""
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while True:
                if kept and not selector.select(_REST_SECONDS):
                    yield kept
                    kept = b""
                if not (data := source.recv(1 << 20)):
                    break
                data = kept + data
                kept = b""
                if not self.altered:
                    data, self.altered = sought.subn(self._instead, data, count=1)
                if not self.altered:
                    length = _begun(sought.pattern, data)
                    data, kept = data[: len(data) - length], data[len(data) - length :]
                if data:
                    yield data
        if kept:
            yield kept


def during(
    spec: dict[str, Any], ready: Callable[[Any], object], act: Callable[[Any], object]
) -> dict[str, Any]:
    """The record of a trial in this process during which `act` happens, once `ready` answers true. Both take
    the trial's control."""
    from venturi import _core

    control = _core.Control()
    with ThreadPoolExecutor(1) as pool:
        trial = pool.submit(_core.run_trial, json.dumps(spec), control)
        wait_until(lambda: ready(control) or trial.done())
        act(control)
        record: dict[str, Any] = json.loads(trial.result())
        return record


def while_held(
    spec: dict[str, Any], act: Callable[[HoldingRelay, Any], object], after: int = 100_000
) -> dict[str, Any]:
    """The record of a trial during which `act` happens while nothing moves, once so many bytes have passed.
    `act` takes the relay before the server, and the trial's control."""
    acted: list[bool] = []
    port = re.findall(r":(\d+)", spec["target"])[-1]
    with HoldingRelay(int(port), hold_after=after) as relay:

        def held(control: Any) -> None:
            if relay.held.is_set():
                acted.append(True)
                try:
                    act(relay, control)
                finally:
                    relay.release()

        there = re.sub(rf":{port}\b", f":{relay.own_port}", spec["target"])
        record = during({**spec, "target": there}, lambda _: relay.held.is_set(), held)
    assert acted, record["error"]
    return record


def _received(source: socket.socket) -> Iterator[bytes]:
    while data := source.recv(1 << 20):
        yield data


def _begun(pattern: bytes, data: bytes) -> int:
    """How many bytes at the end may be the beginning of the pattern: of one of lines, the line that has not
    ended; of one of fixed bytes, those that it begins with."""
    if b"[^" in pattern:
        return len(data) - 1 - data.rfind(b"\n")
    fixed = re.sub(rb"\\(.)", rb"\1", pattern, flags=re.DOTALL)
    return max((n for n in range(1, min(len(fixed), len(data) + 1)) if data.endswith(fixed[:n])), default=0)
