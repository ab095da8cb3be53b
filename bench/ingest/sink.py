"""A server that takes bytes and keeps none, or writes each connection to a file: sink.py PORT [DIRECTORY].

It says nothing and closes a connection when the other side does, which is all that a loader of RESP needs.
"""

from __future__ import annotations

import socket
import sys
import threading
from pathlib import Path


def take(connection: socket.socket, file: Path | None) -> None:
    room = bytearray(1 << 20)
    view = memoryview(room)
    moved = 0
    with connection:
        out = file.open("wb") if file is not None else None
        while count := connection.recv_into(room):
            moved += count
            if out is not None:
                out.write(view[:count])
        if out is not None and file is not None:
            out.close()
            if not moved:
                # Who only looked whether somebody listens.
                file.unlink()


def main() -> None:
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        print("ready", flush=True)
        for number in range(1_000_000):
            connection, _ = listener.accept()
            file = folder / f"{number:06}" if folder is not None else None
            threading.Thread(target=take, args=(connection, file), daemon=True).start()


if __name__ == "__main__":
    main()
