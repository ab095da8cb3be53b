"""Servers of nothing that Venturi knows."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def stranger(words: bytes | None) -> Iterator[int]:
    """The port of one who says these words to everybody, and reads on; None: who never says any."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(client: socket.socket) -> None:
            with client, contextlib.suppress(OSError):
                client.sendall(words or b"")
                while words and client.recv(1 << 16):
                    pass

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        if words is not None:
            threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
