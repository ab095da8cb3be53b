"""Servers of nothing that Venturi knows."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def answering(serve: Callable[[socket.socket], object] | None) -> Iterator[int]:
    """The port of a server that does this for every client, in a thread of its own; None: it takes none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def each(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                assert serve is not None
                serve(client)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=each, args=(listener.accept()[0],), daemon=True).start()

        if serve is not None:
            threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def stranger(words: bytes | None) -> contextlib.AbstractContextManager[int]:
    """The port of one who says these words to everybody, and reads on; None: who never says any."""

    def serve(client: socket.socket) -> None:
        client.sendall(words or b"")
        while words and client.recv(1 << 16):
            pass

    return answering(serve if words is not None else None)
