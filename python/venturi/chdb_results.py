"""Results of chdb, ClickHouse's engine in a library, piece by piece as it makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

__all__ = ["pieces"]

_NO_STREAM = "Streaming query is not supported"


def pieces(connection: Any, statement: str, form: str) -> Generator[bytes, None, None]:
    """The result of one statement in a format of ClickHouse's, each piece a whole document of that format.

    At least one piece where the result has columns. Raises whatever chdb raises. A connection has one such
    result at a time; who stops early closes the generator.
    """
    found = False
    try:
        with contextlib.closing(connection.send_query(statement, form)) as results:
            for result in results:
                if raw := result.bytes():
                    found = True
                    yield raw
    except Exception as error:
        if _NO_STREAM not in str(error):
            raise
    # Where no row came, or the statement has none, in one go it brings its columns, if any.
    if not found and (raw := connection.query(statement, form).bytes()):
        yield bytes(raw)
