"""A reference server, run by another command if need be; a server of TLS before one without."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.flight import ServerProcess, serve_command


def server(*arguments: str, within: Sequence[str] | None = None) -> ServerProcess:
    """A reference server, run by the command `within` if there is one, as long as the block lasts."""
    return ServerProcess([*(within or ()), *serve_command(*arguments)])


@contextlib.contextmanager
def tls_front(port: int, certificate: Path, key: Path) -> Iterator[int]:
    """The port of a server of TLS on this host that hands on to `port` what it decrypts, and back."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(one_way(reader, there[1]), one_way(there[0], writer))

    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        starting = asyncio.start_server(both_ways, "127.0.0.1", 0, ssl=context)
        front = asyncio.run_coroutine_threadsafe(starting, loop).result(10)
        yield front.sockets[0].getsockname()[1]
        loop.call_soon_threadsafe(front.close)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
