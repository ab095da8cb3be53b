"""Addresses and ports of throw-away servers."""

from __future__ import annotations

import os
import socket

from venturi.common.errors import ExitCode, VenturiError

__all__ = ["check", "connect", "free_port", "is_loopback", "joined", "reachable", "received"]

_CONNECT_SECONDS = 2.0


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
        raise VenturiError(
            f"cannot listen on {joined(host, port)}: {text}{advice}", ExitCode.UNREACHABLE
        ) from None


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
