"""`venturi serve`: a reference server, the other end of a measurement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

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
@flags.shared("batch", "bearer token", port=31337)
def flight(
    shared: Callable[[], dict[str, Any]],
    memory: flags.Memory = "4GiB",
    max_message_size: flags.MaxMessageSize = "256Mi",
    window: Annotated[
        str | None,
        typer.Option(
            "--window",
            help="HTTP/2 window granted to clients in bytes, as 64KiB; bounds puts. Without it: no limit.",
            show_default=False,
        ),
    ] = None,
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
        **serving.bounds(memory, max_message_size),
        "window": window_bytes,
        **shared(),
    }
    files = [*(("--table", text) for text in table or []), *(("--data", text) for text in data or [])]
    serving.tables("flight", spec, files, as_json, exit_with_parent)


app.command()(serve_charrow.charrow)
app.command()(serve_http.http)
app.command()(serve_timeseries.timeseries)
for _database in serve_databases.COMMANDS:
    app.command()(_database)
