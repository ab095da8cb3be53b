"""Our server of charrow for tests, and the stranger's ends that it is tested with."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from support import flight
from support.charrow_peer import (
    HELLO,
    NewPartition,
    Partition,
    Refused,
    fresh,
    handshake,
    query,
    shared,
    together,
)
from support.charrow_peer_server import NewServer, OldServer
from support.flight import ServerProcess

__all__ = [
    "HELLO",
    "NewPartition",
    "NewServer",
    "OldServer",
    "Partition",
    "Refused",
    "fresh",
    "handshake",
    "plain",
    "query",
    "serve_command",
    "served",
    "serving",
    "shared",
    "together",
]


served = partial(flight.served, "charrow")


def serve_command(*arguments: str) -> list[str]:
    common = ["--port", "0", "--json", "--exit-with-parent"]
    return [sys.executable, "-m", "venturi", "serve", "charrow", *common, *arguments]


@contextlib.contextmanager
def serving(*arguments: object, **environment: str) -> Iterator[ServerProcess]:
    """`venturi serve charrow` with these arguments, as long as the block lasts."""
    server = ServerProcess(serve_command(*map(str, arguments)), environment)
    try:
        yield server
    finally:
        server.stop()


def plain(table: pa.Table) -> pa.Table:
    """With values for dictionaries, as the server has to send them."""
    at = table.schema.get_field_index("colour")
    return table.set_column(at, "colour", table["colour"].cast(pa.string()))
