"""Results of chdb, ClickHouse's engine in a library, piece by piece as it makes them."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

_NO_STREAM = "Streaming query is not supported"


def pieces(connection: Any, statement: str, form: str) -> Generator[bytes, None, None]:
    """The result of one statement in a format of ClickHouse's, each piece a whole document of that format.

    At least one piece where the result has columns. Raises whatever chdb raises. A connection has one such
    result at a time; who stops early closes the generator.
    """
    found, streams = False, True
    try:
        with contextlib.closing(connection.send_query(statement, form)) as results:
            for result in results:
                if raw := result.bytes():
                    found = True
                    yield raw
    except Exception as error:
        if _NO_STREAM not in str(error):
            raise
        streams = False  # as it says before it does anything
    if found:
        return
    # A statement has what it brings in one go; a SELECT has found no row, and brings its columns.
    result = _columns(connection, statement, form) if streams else connection.query(statement, form)
    if raw := result.bytes():
        yield bytes(raw)


def _columns(connection: Any, select: str, form: str) -> Any:
    """The result of a SELECT without its rows.

    As a subquery of which nothing is wanted it is planned and not executed once more. What cannot be one, as
    a text that names its FORMAT, is asked again: a SELECT changes nothing.
    """
    try:
        return connection.query(f"SELECT * FROM (\n{select.rstrip().rstrip(';')}\n) LIMIT 0", form)
    except Exception:
        return connection.query(select, form)
