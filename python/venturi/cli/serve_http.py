"""`venturi serve http`: Arrow IPC streams over HTTP/1.1."""

from __future__ import annotations

from typing import Annotated

import typer

from venturi.cli import serve_flags as flags
from venturi.cli import serving

__all__ = ["http"]


def http(
    host: flags.Host = "127.0.0.1",
    port: flags.Port = 8080,
    memory: Annotated[
        str,
        typer.Option("--memory", help="Most bytes that tables, and copies that gets read from, may take."),
    ] = "4GiB",
    max_connections: flags.MaxConnections = 1024,
    max_message_size: Annotated[
        str, typer.Option("--max-message-size", help="Largest batch that a put may send, in bytes.")
    ] = "256Mi",
    send_buffer: flags.SendBuffer = None,
    handicap: Annotated[str | None, flags.handicap("batch")] = None,
    tls_certificate: flags.TlsCertificate = None,
    tls_key: flags.TlsKey = None,
    tls_client_ca: flags.TlsClientCa = None,
    token_env: Annotated[str | None, flags.token_env("bearer token, or password,")] = None,
    table: Annotated[
        list[str] | None, flags.table("a Parquet, Arrow or CSV file to serve under /NAME")
    ] = None,
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Serve Arrow IPC streams over HTTP: records, and tables under a path."""
    spec = {
        "server": "http",
        "memory_bytes": serving.count("--memory", memory),
        "max_message_size": serving.count("--max-message-size", max_message_size),
        **serving.common(
            "batch",
            host=host,
            port=port,
            unix=None,
            max_connections=max_connections,
            send_buffer=send_buffer,
            handicap=handicap,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            tls_client_ca=tls_client_ca,
            token_env=token_env,
        ),
    }
    files = [("--table", text) for text in table or []]
    serving.tables("http+arrow", spec, files, as_json, exit_with_parent)
