"""Paths made to measure: two network namespaces with a shaped link, a server of TLS before one without. All
of it is removed again, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.flight import ServerProcess, serve_command
from support.needs import require

CLIENT_ADDRESS, SERVER_ADDRESS = "10.77.0.1", "10.77.0.2"
NO_SHAPE = ("Cannot delete qdisc with handle of zero", "RTNETLINK answers: No such file or directory")
"""What `tc` says where there is none: of the kernel's own queue, and of older kernels."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)


class Hosts:
    """Two namespaces joined by a pair of interfaces, as two hosts by a cable."""

    def __init__(self) -> None:
        name = f"vt{uuid.uuid4().hex[:6]}"
        self.client, self.server = f"{name}-c", f"{name}-s"

    def make(self) -> None:
        for namespace in (self.client, self.server):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", self.client, "type", "veth", "peer", "eth0", "netns", self.server)
        for namespace, address in ((self.client, CLIENT_ADDRESS), (self.server, SERVER_ADDRESS)):
            ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            ip("-n", namespace, "link", "set", "eth0", "up")

    def shape(self, rate: str, burst: str = "256kb", sender: str | None = None) -> None:
        """Both ends send at most this fast, or only that one of them, with a queue of 50 ms."""
        for namespace in (sender,) if sender is not None else (self.client, self.server):
            words = ["netns", "exec", namespace, "tc", "qdisc", "replace", "dev", "eth0", "root", "tbf"]
            ip(*words, "rate", rate, "burst", burst, "latency", "50ms")

    def unshape(self) -> None:
        """Both ends send as fast as they can."""
        for namespace in (self.client, self.server):
            words = ["ip", "netns", "exec", namespace, "tc", "qdisc", "del", "dev", "eth0", "root"]
            done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
            # Without a shape there is nothing to take away.
            if done.returncode and not any(said in done.stderr for said in NO_SHAPE):
                raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")

    def inside(self, namespace: str) -> list[str]:
        return ["ip", "netns", "exec", namespace]

    def remove(self) -> None:
        for namespace in (self.client, self.server):
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, timeout=20, check=False)


@contextlib.contextmanager
def hosts(rate: str | None = None) -> Iterator[Hosts]:
    require(os.geteuid() == 0, "root, for network namespaces")
    made = Hosts()
    try:
        try:
            made.make()
            if rate is not None:
                made.shape(rate)
        except (OSError, subprocess.CalledProcessError) as error:
            require(False, f"network namespaces ({error})")
        yield made
    finally:
        made.remove()


def server(*arguments: str, within: Sequence[str] = (), host: str = "127.0.0.1") -> ServerProcess:
    """A reference server, in a namespace where one is given, as long as the block lasts."""
    return ServerProcess([*within, *serve_command("--host", host, *arguments)])


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
