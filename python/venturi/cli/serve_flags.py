"""Flags that several servers have, with one wording."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from venturi.cli import serving
from venturi.cli.options import extended

Host = Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")]
Unix = Annotated[
    Path | None,
    typer.Option(
        "--unix",
        help="Path of a Unix socket to listen on, for this user alone, in the place of host and port.",
        show_default=False,
    ),
]
MaxConnections = Annotated[
    int, typer.Option("--max-connections", min=1, help="Most connections at a time; each has a thread.")
]
SendBuffer = Annotated[
    str | None,
    typer.Option(
        "--send-buffer",
        help=(
            "Bytes of the sockets' send buffers; without it 256Ki on loopback, 512Ki of a Unix socket, else "
            "the kernel's."
        ),
        show_default=False,
    ),
]
TlsCertificate = Annotated[
    Path | None, typer.Option("--tls-certificate", help="Certificate file (PEM).", show_default=False)
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", help="Key file of the certificate (PEM).", show_default=False)
]
TlsClientCa = Annotated[
    Path | None,
    typer.Option("--tls-client-ca", help="Demand client certificates of this CA (PEM).", show_default=False),
]
Json = Annotated[
    bool, typer.Option("--json", help="Say where it listens in one line of JSON on standard output.")
]
ExitWithParent = Annotated[bool, typer.Option("--exit-with-parent", help="End when standard input closes.")]


Memory = Annotated[
    str, typer.Option("--memory", help="Most bytes that tables, and copies that gets read from, may take.")
]
MaxMessageSize = Annotated[
    str, typer.Option("--max-message-size", help="Largest batch that a put may send, in bytes.")
]


def shared(
    each: str, token: str, *, port: int, unix: bool = True
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command the flags that all servers of batches have; it makes their part of the spec by calling
    `shared`. `each`: what a handicap slows down; `token`: as what it is demanded."""
    kinds: dict[str, tuple[Any, Any]] = {
        "host": (Host, "127.0.0.1"),
        "port": (Port, port),
        **({"unix": (Unix, None)} if unix else {}),
        "max_connections": (MaxConnections, 1024),
        "send_buffer": (SendBuffer, None),
        "handicap": (Annotated[str | None, _handicap(each)], None),
        "tls_certificate": (TlsCertificate, None),
        "tls_key": (TlsKey, None),
        "tls_client_ca": (TlsClientCa, None),
        "token_env": (Annotated[str | None, _token_env(token)], None),
    }
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in kinds.items()
    ]

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            found = {name: given.pop(name) for name in kinds}
            command(**given, shared=functools.partial(serving.common, each, **found))

        return extended(command, "shared", more, called)

    return decorated


def _handicap(each: str) -> Any:
    """`--handicap` of a server that moves so: a batch, a block."""
    return typer.Option(
        "--handicap",
        help=f"STAGE=TIME: CPU time to burn for every {each}, as encode=2ms; several joined by +.",
        show_default=False,
    )


def _token_env(what: str) -> Any:
    """`--token-env` of a server that demands it as this."""
    return typer.Option("--token-env", help=f"Variable with the {what} to demand.", show_default=False)


def table(where: str) -> Any:
    """`--table` of a server that keeps such a file."""
    return typer.Option("--table", help=f"NAME=FILE: {where}. Repeatable.", show_default=False)
