"""Paths and hosts made to measure: two network namespaces with a shaped link, a relay that only delays, a CPU
quota. All of it is removed again, whatever happens.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from support.flight import ServerProcess, serve_command
from support.needs import require
from support.run import helper

CLIENT_ADDRESS, SERVER_ADDRESS = "10.77.0.1", "10.77.0.2"
NO_SHAPE = ("Cannot delete qdisc with handle of zero", "RTNETLINK answers: No such file or directory")
"""What `tc` says where there is none: of the kernel's own queue, and of older kernels."""


def at_once() -> list[str]:
    """What a command begins with whose processes are to be woken on time although others keep the cores busy.

    For trials that wait nearly all the time: there, being woken late looks like a longer path.
    """
    return ["chrt", "--rr", "1"] if os.geteuid() == 0 and shutil.which("chrt") else []


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


@contextlib.contextmanager
def server(
    *arguments: str, within: list[str] | None = None, host: str = "127.0.0.1"
) -> Iterator[ServerProcess]:
    """A reference server, in a namespace where one is given."""
    made = ServerProcess([*(within or []), *serve_command("--host", host, *arguments)])
    try:
        yield made
    finally:
        made.stop()


@contextlib.contextmanager
def relay(port: int, milliseconds: float) -> Iterator[int]:
    """The port of a TCP relay to `port` that delays each byte by so much in each direction."""
    made = ServerProcess(helper("delay_relay", port, milliseconds))
    try:
        yield made.port
    finally:
        made.stop()


class Relay:
    """Passes bytes on to a port of this host, counts them, and may put others in the place of some, once."""

    def __init__(self, port: int, pattern: bytes = b"", instead: bytes = b"") -> None:
        self.port = port
        self.sought = re.compile(pattern, re.DOTALL) if pattern else None
        self.instead = instead
        self.tricks = self.passed = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                for ends in ((client, server), (server, client)):
                    ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    threading.Thread(target=self._pass_on, args=ends, daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                self.passed += len(data)
                if self.sought and not self.tricks:
                    data, self.tricks = self.sought.subn(self.instead, data, count=1)
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


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


class Group:
    """A control group: processes move in and out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The shell is in the group before it becomes the command.
        self.inside = ["sh", "-c", f'echo $$ > {directory}/cgroup.procs && exec "$@"', "sh"]
        """What a command begins with that is to run there."""

    def take(self, pid: int) -> None:
        (self.directory / "cgroup.procs").write_text(str(pid))

    def release(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            (self.directory.parent / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def group_in(hierarchy: Path, limits: dict[str, str]) -> Iterator[Group]:
    made = Group(hierarchy / f"venturi-test-{uuid.uuid4().hex[:8]}")
    try:
        made.directory.mkdir()
    except OSError as error:
        require(False, f"a control group below {hierarchy} ({error})")
    try:
        try:
            for name, value in limits.items():
                (made.directory / name).write_text(value)
        except OSError as error:
            require(False, f"limits of a control group below {hierarchy} ({error})")
        yield made
    finally:
        for _ in range(50):
            try:
                made.directory.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def controller(name: str) -> tuple[int, Path] | None:
    """The version of control groups that has this controller here, and where; None where neither has."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup" and name in options.split(","):
            return 1, Path(place)
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2" and name in (Path(place) / "cgroup.controllers").read_text().split():
            return 2, Path(place)
    return None


def required(name: str) -> tuple[int, Path]:
    found = controller(name)
    require(found, f"a control group's controller {name!r}")
    assert found is not None
    return found


@contextlib.contextmanager
def cpu_group(cores: float) -> Iterator[Group]:
    """Processes that together may have `cores` of CPU time."""
    version, hierarchy = required("cpu")
    limit = str(int(cores * 100_000))
    old, new = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": limit}, {"cpu.max": f"{limit} 100000"}
    with group_in(hierarchy, old if version == 1 else new) as made:
        yield made


@contextlib.contextmanager
def quota(pid: int, cores: float) -> Iterator[None]:
    """The process may have `cores` of CPU time meanwhile."""
    with cpu_group(cores) as group:
        group.take(pid)
        try:
            yield
        finally:
            group.release(pid)
