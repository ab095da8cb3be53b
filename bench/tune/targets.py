"""Live Flight servers to tune: on loopback, and behind a slow link between two network namespaces."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

VENTURI = (sys.executable, "-m", "venturi")
LISTENING = re.compile(r"flight://\S+")
CLIENT, SERVER = "10.78.0.1", "10.78.0.2"


@dataclass(frozen=True)
class Target:
    """Where to, and what is searched there."""

    name: str
    what: str
    axes: dict[str, str]
    """Flag to values, as typed."""
    options: tuple[str, ...] = ()
    rate: str | None = None
    """Of the link between two namespaces; None is loopback."""


_LOOPBACK = Target(
    "loopback",
    "get over loopback, client and server on the same cores",
    {"--streams": "1,2,4,8", "--rows-per-batch": "256,1k,4k,16k,64k,256k"},
    ("--duration", "400ms"),
)
_LINK = Target(
    "slow link",
    "put of sequential records over a link of 40 Mbit/s between two network namespaces",
    {"--compression": "none,lz4,zstd:1,zstd", "--rows-per-batch": "256,1k,4k,16k", "--streams": "1,2"},
    ("--operation", "put", "--values", "sequential", "--duration", "700ms"),
    rate="40mbit",
)
LIVE = {target.name: target for target in (_LOOPBACK, _LINK)}


@dataclass
class Live:
    """A server that runs, and what commands begin with that are to reach it."""

    url: str
    inside: Sequence[str] = field(default_factory=tuple)

    def venturi(self, *words: str, timeout: float = 900) -> str:
        """Runs a command; its standard output. Ends this script where it fails."""
        done = subprocess.run(
            [*self.inside, *VENTURI, *words], capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode:
            sys.exit(f"venturi {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout


def refused(target: Target) -> str | None:
    """Why this target cannot be made here."""
    if target.rate is not None and os.geteuid() != 0:
        return "needs root, for network namespaces"
    return None


@contextlib.contextmanager
def live(target: Target) -> Iterator[Live]:
    """Starts the server; it, and the namespaces, are gone afterwards."""
    if target.rate is None:
        with _server((), "127.0.0.1") as url:
            yield Live(url)
        return
    tag = uuid.uuid4().hex[:6]
    ends = {f"vb{tag}-c": CLIENT, f"vb{tag}-s": SERVER}
    client, server = ends
    try:
        for name in ends:
            _ip("netns", "add", name)
        _ip("link", "add", "eth0", "netns", client, "type", "veth", "peer", "eth0", "netns", server)
        for name, address in ends.items():
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            shape = ("tbf", "rate", target.rate, "burst", "256kb", "latency", "50ms")
            _ip("netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", *shape)
        with _server(("ip", "netns", "exec", server), SERVER) as url:
            yield Live(url, ("ip", "netns", "exec", client))
    finally:
        for name in ends:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20, check=False)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode:
        sys.exit(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def _server(inside: Sequence[str], host: str) -> Iterator[str]:
    words = [*inside, *VENTURI, "serve", "flight", "--host", host, "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield _url(process)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _url(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    until, said = time.monotonic() + 20, ""
    while time.monotonic() < until:
        if not select.select([process.stdout], [], [], 0.5)[0]:
            continue
        line = process.stdout.readline()
        said += line
        if found := LISTENING.search(line):
            return found.group()
        if not line:
            break
    sys.exit(f"the server did not start: {said}")
