"""Addresses, programs and directories of throw-away servers."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from venturi.common.environment import file_system
from venturi.common.errors import UnreachableError, VenturiError

_CONNECT_SECONDS = 2.0
_VERSION_SECONDS = 20.0


def joined(host: str, port: int) -> str:
    """host:port, with brackets round an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def reachable(host: str) -> str:
    """An address to connect to, where the server listens on all of them."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1", "*": "127.0.0.1"}.get(host, host)


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, place = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        # As servers do: a port whose last connections linger is free.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
    except OSError:
        bound.close()
        raise
    return bound


def free_port(host: str) -> int:
    """A port that nobody listens on. Raises VenturiError where the host is not ours."""
    check(host, 0)
    with _bound(host, 0) as bound:
        return int(bound.getsockname()[1])


def check(host: str, port: int) -> None:
    """Raises VenturiError where nobody can listen there."""
    try:
        with _bound(host, port) as bound:
            bound.listen(1)
    except OSError as error:
        # Of getaddrinfo the number is not errno's.
        text = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        advice = ""
        if "in use" in text:
            advice = "; something else listens there: choose another --port (0: any free one)"
        raise UnreachableError(f"cannot listen on {joined(host, port)}: {text}{advice}") from None


def connect(host: str, port: int) -> socket.socket:
    """A connection with a time limit on everything. Raises OSError."""
    return socket.create_connection((reachable(host), port), timeout=_CONNECT_SECONDS)


def received(connection: socket.socket, length: int) -> bytes:
    """Exactly that many bytes. Raises OSError where the other end closes before."""
    found = bytearray()
    while len(found) < length:
        piece = connection.recv(length - len(found))
        if not piece:
            raise ConnectionError("closed")
        found += piece
    return bytes(found)


# Debian keeps servers out of a user's PATH; the others are Homebrew's and those built from source.
_PLACES = ("/usr/sbin", "/usr/libexec", "/opt/homebrew/bin", "/usr/local/bin", "/usr/local/sbin")


def find(names: Sequence[str], places: Sequence[str | Path] = ()) -> str | None:
    """The first program of one of these names, in PATH, then `places`, then where servers usually are."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(str, places), *_PLACES])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    return None


def output_of(*command: str | Path) -> str:
    """What a program prints when it is asked for its version; empty if it cannot be run."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_VERSION_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def missing(title: str, what: str, debian: str, homebrew: str) -> VenturiError:
    """The error of a server that is not installed: what is missing, and the line that mends it."""
    line = f"brew install {homebrew}" if sys.platform == "darwin" else f"apt-get install {debian}"
    return UnreachableError(f"{title} is not installed here: {what} not found", hint=line)


def in_memory(directory: Path) -> bool:
    """Whether it is memory (tmpfs), where fsync costs nothing; False where the system does not tell."""
    return file_system(directory.resolve()) in ("tmpfs", "ramfs")


# Says whose data a directory holds, and whether they are complete; its lock is held while they are in use.
MARKER = "venturi.json"


def claimed(directory: Path, name: str) -> int:
    """A descriptor that holds the lock of a directory for data, made where it is missing. Raises VenturiError
    where it is not one of this kind of server's, or in use."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = marked(directory / MARKER)
        if owner is None and any(entry.name != MARKER for entry in directory.iterdir()):
            raise VenturiError(
                f"--data {directory}: has files already, and not of venturi serve {name}",
                hint="name an empty directory, or one that does not exist yet",
            )
        if owner is not None and owner.get("server") != name:
            raise VenturiError(f"--data {directory}: holds data of {owner.get('server')}, not of {name}")
        descriptor = os.open(directory / MARKER, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise VenturiError(f"--data {directory}: {error.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise VenturiError(f"--data {directory}: another server works with it") from None
    return descriptor


def marked(marker: Path) -> dict[str, Any] | None:
    """What a directory's marker says; None where there is none, or none of ours."""
    try:
        found = json.loads(marker.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
