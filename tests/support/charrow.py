"""Our server of charrow for tests. Strangers' ends are in charrow_peer.py and charrow_peer_server.py."""

from __future__ import annotations

import sys
from functools import partial

import pyarrow as pa

from support import flight
from support.flight import ServerProcess

served = partial(flight.served, "charrow")


def serve_command(*arguments: str) -> list[str]:
    common = ["--port", "0", "--json", "--exit-with-parent"]
    return [sys.executable, "-m", "venturi", "serve", "charrow", *common, *arguments]


def serving(*arguments: object, **environment: str) -> ServerProcess:
    """`venturi serve charrow` with these arguments, as long as the block lasts."""
    return ServerProcess(serve_command(*map(str, arguments)), environment)


def plain(table: pa.Table) -> pa.Table:
    """With values for dictionaries, as the server has to send them."""
    at = table.schema.get_field_index("colour")
    return table.set_column(at, "colour", table["colour"].cast(pa.string()))
