"""`venturi serve http`: Arrow IPC streams over HTTP/1.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from venturi.cli import serve_flags as flags
from venturi.cli import serving

__all__ = ["http"]


@flags.shared("batch", "bearer token, or password,", port=8080, unix=False)
def http(
    shared: Callable[[], dict[str, Any]],
    memory: flags.Memory = "4GiB",
    max_message_size: flags.MaxMessageSize = "256Mi",
    table: Annotated[
        list[str] | None, flags.table("a Parquet, Arrow or CSV file to serve under /NAME")
    ] = None,
    as_json: flags.Json = False,
    exit_with_parent: flags.ExitWithParent = False,
) -> None:
    """Serve Arrow IPC streams over HTTP: records, and tables under a path."""
    spec = {"server": "http", **serving.bounds(memory, max_message_size), **shared()}
    files = [("--table", text) for text in table or []]
    serving.tables("http+arrow", spec, files, as_json, exit_with_parent)
