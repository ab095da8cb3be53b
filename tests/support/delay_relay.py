"""A TCP relay that delays and does nothing else: `delay_relay.py [HOST:]PORT MILLISECONDS [LISTEN]`.

Every byte leaves that long after it came, each way, in order; as many may be under way as come, so the rate
is not limited by the relay. Listens on a free port of LISTEN (127.0.0.1), or on the Unix socket of that path,
says so in one line of JSON, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections import deque

LARGEST = 1 << 20


async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    clock = asyncio.get_running_loop()
    under_way: deque[tuple[float, bytes]] = deque()
    arrived = asyncio.Event()

    async def receive() -> None:
        while data := await reader.read(LARGEST):
            under_way.append((clock.time() + delay, data))
            arrived.set()
        under_way.append((clock.time() + delay, b""))
        arrived.set()

    async def send() -> None:
        while True:
            while not under_way:
                arrived.clear()
                await arrived.wait()
            due, data = under_way.popleft()
            await asyncio.sleep(max(0.0, due - clock.time()))
            if not data:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()

    try:
        await asyncio.gather(receive(), send())
    except OSError:
        writer.close()


async def main(target: str, delay: float, listen: str) -> None:
    host, _, port = target.rpartition(":")

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host or "127.0.0.1", int(port), limit=LARGEST)
        await asyncio.gather(one_way(reader, back, delay), one_way(there, writer, delay))
        for side in (writer, back):
            side.close()

    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    if listen.startswith("/"):
        server: asyncio.Server = await asyncio.start_unix_server(relay, listen, limit=LARGEST)
        address = listen
    else:
        server = await asyncio.start_server(relay, listen, 0, limit=LARGEST)
        address = f"{listen}:{server.sockets[0].getsockname()[1]}"
    print(json.dumps({"address": address}), flush=True)
    await ending.wait()
    server.close()


with contextlib.suppress(OSError):
    # Woken on time even where others keep all cores busy: lateness would be a delay that nobody asked for.
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
listen = sys.argv[3] if len(sys.argv) > 3 else "127.0.0.1"
asyncio.run(main(sys.argv[1], float(sys.argv[2]) / 1000, listen))
