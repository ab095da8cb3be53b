"""`venturi serve`: a reference server, the other end of a measurement."""

from __future__ import annotations

from typing import Annotated

import typer

from venturi.cli import serve_charrow, serve_databases, serve_http, serve_timeseries, serving
from venturi.cli import serve_flags as flags

app = typer.Typer(
    rich_markup_mode=None, no_args_is_help=True, help="Serve as the other end of a measurement."
)


@app.callback()
def serve() -> None:
    """Serve as the other end of a measurement."""


@app.command()
def flight(
    host: flags.Host = "127.0.0.1",
    port: flags.Port = 31337,
    unix: flags.Unix = None,
    memory: Annotated[
        str,
        typer.Option("--memory", help="Most bytes that tables, and copies that gets read from, may take."),
    ] = "4GiB",
    max_connections: flags.MaxConnections = 1024,
    max_message_size: Annotated[
        str, typer.Option("--max-message-size", help="Largest batch that a put may send, in bytes.")
    ] = "256Mi",
    send_buffer: flags.SendBuffer = None,
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help="HTTP/2 window granted to clients in bytes, as 64KiB; bounds puts. Without it: no limit.",
            show_default=False,
        ),
    ] = None,
    handicap: Annotated[str | None, flags.handicap("batch")] = None,
    tls_certificate: flags.TlsCertificate = None,
    tls_key: flags.TlsKey = None,
    tls_client_ca: flags.TlsClientCa = None,
    token_env: Annotated[str | None, flags.token_env("bearer token")] = None,
    table: Annotated[
        list[str] | None, flags.table("a Parquet, Arrow or CSV file to serve under /NAME")
    ] = None,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="Another word for --table.", hidden=True)
    ] = None,
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Serve Arrow Flight: Arrow's perf protocol, and tables under a path."""
    # HTTP/2's largest.
    window_bytes = serving.count("--window", window, 2**31 - 1) if window is not None else None
    spec = {
        "memory_bytes": serving.count("--memory", memory),
        "max_message_size": serving.count("--max-message-size", max_message_size),
        "window": window_bytes,
        **serving.common(
            "batch",
            host=host,
            port=port,
            unix=unix,
            max_connections=max_connections,
            send_buffer=send_buffer,
            handicap=handicap,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            token_env=token_env,
        ),
    }
    files = [*(("--table", text) for text in table or []), *(("--data", text) for text in data or [])]
    serving.tables("flight", spec, files, as_json, exit_with_parent)


app.command()(serve_charrow.charrow)
app.command()(serve_http.http)
app.command()(serve_timeseries.timeseries)
for _database in serve_databases.COMMANDS:
    app.command()(_database)
