"""`venturi serve`: a reference server, the other end of a measurement."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from venturi.cli import say, serve_charrow, serve_databases, serve_timeseries, serving
from venturi.errors import VenturiError

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Serve as the other end of a measurement."
)


@app.callback()
def serve() -> None:
    """Serve as the other end of a measurement."""


@app.command()
def flight(
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 takes a free one.")] = 31337,
    memory: Annotated[
        str, typer.Option("--memory", help="Most bytes that tables put here may take.")
    ] = "4GiB",
    max_connections: Annotated[
        int, typer.Option("--max-connections", min=1, help="Most connections at a time; each has a thread.")
    ] = 1024,
    max_message_size: Annotated[
        str, typer.Option("--max-message-size", help="Largest batch that a put may send, in bytes.")
    ] = "256Mi",
    send_buffer: Annotated[
        str | None,
        typer.Option(
            "--send-buffer",
            help="Bytes of the sockets' send buffers; without it 256Ki on loopback, else the kernel's.",
            show_default=False,
        ),
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help="HTTP/2 window granted to clients in bytes, as 64KiB; bounds puts. Without it: no limit.",
            show_default=False,
        ),
    ] = None,
    handicap: Annotated[
        str | None,
        typer.Option(
            "--handicap",
            help="STAGE=TIME: CPU time to burn for every batch, as encode=2ms; several joined by +.",
            show_default=False,
        ),
    ] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", help="Certificate file (PEM).", show_default=False)
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", help="Key file of the certificate (PEM).", show_default=False)
    ] = None,
    tls_client_ca: Annotated[
        Path | None,
        typer.Option(
            "--tls-client-ca", help="Demand client certificates of this CA (PEM).", show_default=False
        ),
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option("--token-env", help="Variable with the bearer token to demand.", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", help="NAME=FILE: a table to serve under /NAME. Repeatable.", show_default=False
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Say where it listens in one line of JSON on standard output.")
    ] = False,
    exit_with_parent: Annotated[
        bool, typer.Option("--exit-with-parent", help="End when standard input closes.")
    ] = False,
) -> None:
    """Serve Arrow Flight: Arrow's perf protocol, and tables under a path."""
    from venturi.data import DataStore
    from venturi.environment import describe
    from venturi.handicap import nanoseconds
    from venturi.suffixes import parse_count
    from venturi.trial import load_core

    try:
        memory_bytes = parse_count(memory)
    except ValueError as error:
        raise VenturiError(f"--memory: {error}") from None
    try:
        message_bytes = parse_count(max_message_size)
    except ValueError as error:
        raise VenturiError(f"--max-message-size: {error}") from None
    try:
        send_buffer_bytes = parse_count(send_buffer) if send_buffer is not None else None
    except ValueError as error:
        raise VenturiError(f"--send-buffer: {error}") from None
    try:
        window_bytes = parse_count(window) if window is not None else None
    except ValueError as error:
        raise VenturiError(f"--window: {error}") from None
    if window_bytes is not None and not 1 <= window_bytes <= 2**31 - 1:
        raise VenturiError(f"--window {window}: must be 1 to 2147483647 bytes")
    try:
        slowed = nanoseconds(handicap) if handicap is not None else {}
    except ValueError as error:
        raise VenturiError(f"--handicap: {error}") from None
    serving.check_access(tls_certificate, tls_key, tls_client_ca, token_env)
    serving.warn_if_open(host, tls_certificate is not None, token_env)
    if handicap is not None:
        say("warning", f"handicapped by {handicap} a batch: figures measured here are slowed down on purpose")
    core = load_core()
    # Whoever measures this server may ask what it runs on.
    environment = describe()
    with DataStore() as store:
        tables = [_table(store, text) for text in data or []]
        store.forget_tables()
        spec = {
            "host": host,
            "port": port,
            "memory_bytes": memory_bytes,
            "max_connections": max_connections,
            "max_message_size": message_bytes,
            "send_buffer": send_buffer_bytes,
            "window": window_bytes,
            "handicap": slowed,
            "tls_certificate": serving.path(tls_certificate),
            "tls_key": serving.path(tls_key),
            "tls_client_ca": serving.path(tls_client_ca),
            "token_env": token_env,
            "environment": environment,
            "tables": tables,
        }
        server = serving.started(core, spec, f"{host}:{port}")
        # Who reads that it is ready may stop it at once.
        ending = serving.signalled()
        _announce(server, as_json, tls_certificate is not None, environment)
        serving.wait(server, ending, exit_with_parent)
    if not as_json:
        _print_statistics(server)


app.command()(serve_charrow.charrow)
app.command()(serve_timeseries.timeseries)
for _database in serve_databases.COMMANDS:
    app.command()(_database)


def _table(store: Any, text: str) -> dict[str, str]:
    name, equals, label = text.partition("=")
    if not equals or not name or not label:
        raise VenturiError(f"--data {text}: must be written NAME=FILE")
    return {"name": name.strip("/"), "ipc": str(store.prepare(label).ipc)}


def _announce(server: Any, as_json: bool, tls: bool, environment: dict[str, Any]) -> None:
    address = server.address
    if as_json:
        hello = {"address": address, "pid": os.getpid(), "environment": environment}
        print(json.dumps(hello), flush=True)
        return
    scheme = "flight+tls" if tls else "flight"
    print(f"serving {scheme}://{address}  (Ctrl-C stops)", flush=True)


def _print_statistics(server: Any) -> None:
    found = server.statistics()
    found = json.loads(found) if isinstance(found, str) else found
    if not isinstance(found, dict):
        return
    from venturi.suffixes import format_bytes, format_duration

    def moved(calls: str, payload: str) -> str:
        return f"{found.get(calls, 0):,} {calls} ({format_bytes(found.get(payload, 0))})"

    calls = f"{moved('gets', 'payload_bytes_sent')}, {moved('puts', 'payload_bytes_received')}"
    after = format_duration(found.get("uptime_ns", 0))
    say("info", f"stopped after {after}: {found.get('connections', 0):,} connections, {calls}")
