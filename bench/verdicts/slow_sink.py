"""A stranger's store of time series: reads what it is sent, says nothing, keeps nothing, and takes its time.

`python -m bench.verdicts.slow_sink sleeps|burns MICROSECONDS`: so long for each 64 KiB, asleep or
with the interpreter's lock held.
"""

from __future__ import annotations

import json
import socket
import sys
import threading

from support.flight_peer import take

ROOM = 1 << 16


def serve(connection: socket.socket, how: str, microseconds: str) -> None:
    with connection:
        while data := connection.recv(ROOM, socket.MSG_WAITALL):
            if len(data) == ROOM:
                take([how, microseconds])


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"address": f"127.0.0.1:{listener.getsockname()[1]}"}), flush=True)
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection, *sys.argv[1:3]), daemon=True).start()


if __name__ == "__main__":
    main()
