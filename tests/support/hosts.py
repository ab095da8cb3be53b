"""Hosts for tests: network namespaces on one bridge, each with its own address, and a Ray node where wanted.

They are removed again whatever happens: at the end of the `with`, at the end of the process, and those of a
process that was killed when the next ones are made. Root is needed.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from support.flight import ServerProcess, serve_command
from support.needs import require
from support.processes import command_line
from support.run import ROOT, command, environment
from support.wait import wait_until

NETWORK = "10.77.0.0/24"
_NAME = re.compile(r"vt(\d+)x\d+-(?:switch|h\d+)")
_made = itertools.count()
# A tenth of a second is far from enough for Ray's processes under a full load of tests.
_END_SECONDS = 10.0


def ip(*words: str) -> str:
    done = subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=20)
    return done.stdout


def _processes(namespace: str) -> list[int]:
    done = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False)
    return [int(pid) for pid in done.stdout.split()]


class Host:
    """A namespace with one interface, eth0, and no way out of the bridge."""

    def __init__(self, name: str, number: int, switch: str) -> None:
        self.name, self.number, self._switch = name, number, switch
        self.address = f"10.77.0.{number}"
        self._port = f"h{number}"

    def make(self) -> None:
        ip("netns", "add", self.name)
        pair = f"link add eth0 netns {self.name} type veth peer {self._port} netns {self._switch}"
        ip(*pair.split())
        ip("-n", self._switch, "link", "set", self._port, "master", "br0", "up")
        ip("-n", self.name, "link", "set", "lo", "up")
        ip("-n", self.name, "address", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.name, "link", "set", "eth0", "up")

    def inside(self) -> list[str]:
        """What a command begins with that is to run on this host."""
        return ["ip", "netns", "exec", self.name]

    def run(self, *words: object, **more: Any) -> subprocess.CompletedProcess[str]:
        options: dict[str, Any] = {
            "capture_output": True,
            "text": True,
            "timeout": 60,
            "check": False,
            **more,
        }
        return subprocess.run([*self.inside(), *map(str, words)], stdin=subprocess.DEVNULL, **options)

    def start(self, *words: object, **more: Any) -> subprocess.Popen[str]:
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        return subprocess.Popen([*self.inside(), *map(str, words)], stdin=subprocess.DEVNULL, **options)

    def venturi(self, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run(*command(*words), env=environment(**variables), cwd=ROOT, timeout=None)

    def server(self, *arguments: str, command: Callable[..., list[str]] = serve_command) -> ServerProcess:
        """A reference server on this host's address, as long as the block lasts."""
        return ServerProcess([*self.inside(), *command("--host", self.address, *arguments)])

    def shape(self, rate: str, burst: str = "256kb", sent_only: bool = False) -> None:
        """What this host sends and what it is sent, each at most this fast, with a queue of 50 ms."""
        for namespace, device in ((self.name, "eth0"), (self._switch, self._port))[: 1 if sent_only else 2]:
            words = ["netns", "exec", namespace, "tc", "qdisc", "replace", "dev", device, "root", "tbf"]
            ip(*words, "rate", rate, "burst", burst, "latency", "50ms")

    def cut(self) -> None:
        """Nothing gets through any more, and nobody is told: as a cable that is pulled at the switch."""
        ip("-n", self._switch, "link", "set", self._port, "nomaster")

    def mend(self) -> None:
        ip("-n", self._switch, "link", "set", self._port, "master", "br0")

    def processes(self) -> list[int]:
        return _processes(self.name)

    def peers(self, containing: str) -> set[str]:
        """Addresses that are connected to what the process with that text in its command line listens on."""
        for pid in self.signal(0, containing):
            with contextlib.suppress(OSError):
                opened = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
                rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
                ends = {row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in opened}
                if found := {_address(row[2]) for row in rows if row[1] in ends and row[3] == "01"}:
                    return found
        return set()

    def commands(self) -> dict[int, str]:
        """The command lines of this host's processes, by their ids."""
        found = {}
        for pid in self.processes():
            with contextlib.suppress(OSError):
                found[pid] = command_line(pid)
        return found

    def signal(self, number: int, containing: str = "") -> list[int]:
        """To all processes of this host, or to those with that text in their command line: these."""
        sent = []
        for pid, line in self.commands().items():
            with contextlib.suppress(OSError):
                if containing in line:
                    os.kill(pid, number)
                    sent.append(pid)
        return sent


def _address(end: str) -> str:
    """As /proc/net/tcp has it: ADDRESS:PORT, the address as the bytes lie in memory."""
    return socket.inet_ntoa(bytes.fromhex(end.partition(":")[0])[::-1])


class Hosts:
    """So many hosts on one bridge; numbers and addresses begin with 1."""

    def __init__(self, count: int) -> None:
        self._prefix = f"vt{os.getpid()}x{next(_made)}"
        self.switch = f"{self._prefix}-switch"
        self.hosts = [Host(f"{self._prefix}-h{n}", n, self.switch) for n in range(1, count + 1)]

    def __getitem__(self, index: int) -> Host:
        return self.hosts[index]

    def __iter__(self) -> Iterator[Host]:
        return iter(self.hosts)

    @property
    def names(self) -> str:
        return ",".join(host.name for host in self.hosts)

    def make(self) -> None:
        atexit.register(self.remove)
        ip("netns", "add", self.switch)
        # Without waiting: there is no other way, so no loop to be found.
        ip("-n", self.switch, "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
        ip("-n", self.switch, "link", "set", "br0", "up")
        for host in self.hosts:
            host.make()

    def remove(self) -> None:
        remove(self.switch, *(host.name for host in self.hosts))
        atexit.unregister(self.remove)


def remove(*namespaces: str) -> None:
    """Ends what runs there, politely first, and removes them."""

    def processes() -> list[int]:
        return [pid for namespace in namespaces for pid in _processes(namespace)]

    began = time.monotonic()
    for number, seconds in ((signal.SIGTERM, _END_SECONDS / 5), (signal.SIGKILL, _END_SECONDS)):
        while (left := processes()) and time.monotonic() < began + seconds:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
                    os.kill(pid, number)
            time.sleep(0.1)
    for namespace in namespaces:
        subprocess.run(["ip", "netns", "delete", namespace], capture_output=True, timeout=20, check=False)


def sweep() -> None:
    """Removes what processes left that are no more."""
    found = [line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()]
    matched = [(name, _NAME.fullmatch(name)) for name in found]
    if left := [name for name, match in matched if match and not Path(f"/proc/{match[1]}").exists()]:
        remove(*left)


@contextlib.contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """So many hosts; skips the test where there is no root or no way to make namespaces."""
    require(os.geteuid() == 0 and shutil.which("ip"), "root and ip, for network namespaces")
    made = Hosts(count)
    try:
        try:
            sweep()
            made.make()
        except (OSError, subprocess.SubprocessError) as error:
            require(False, f"network namespaces ({error})")
        yield made
    finally:
        made.remove()


class RayCluster:
    """Hosts with a Ray node each, started as a user would: the driver runs on the first one."""

    def __init__(self, on: Hosts) -> None:
        self.hosts = on
        self.folder = Path(tempfile.mkdtemp(prefix="vt", dir="/tmp"))  # sockets have short names
        self.variables = {"XDG_STATE_HOME": str(self.folder / "state")}

    def venturi(self, *words: object) -> subprocess.CompletedProcess[str]:
        """`venturi` on the first host."""
        return self.hosts[0].venturi(*words, **self.variables)

    def up(self, *options: object) -> subprocess.CompletedProcess[str]:
        where = ("--hosts", self.hosts.names, "--ssh", "ip netns exec", "--interface", NETWORK)
        return self.venturi("cluster", "up", *where, "--directory", self.folder / "n", *options)

    def down(self) -> subprocess.CompletedProcess[str]:
        return self.venturi("cluster", "down")

    def remove(self) -> None:
        for host in self.hosts:
            host.signal(signal.SIGCONT)
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def ray_cluster(on: Hosts, *options: object) -> Iterator[RayCluster]:
    """A Ray node on each host, until the end of the `with`."""
    made = RayCluster(on)
    try:
        done = made.up(*options)
        assert done.returncode == 0, done.stderr
        yield made
    finally:
        made.remove()


def busy(on: Iterable[Host]) -> list[str]:
    """Command lines of loaders, servers and drivers that run on any of these hosts."""
    words = ("ray::Ray", "venturi serve", "-m venturi")
    lines = [f"{host.name}: {line}" for host in on for line in host.commands().values()]
    return [line for line in lines if any(word in line for word in words)]


def nothing_is_left(on: Iterable[Host]) -> None:
    """Waits until none of them runs."""
    wait_until(lambda: not busy(on), lambda: busy(on))
