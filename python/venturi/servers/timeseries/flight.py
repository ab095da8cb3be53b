"""Questions to a store of time series over Arrow Flight: SQL in, record batches out.

`python -m venturi.servers.timeseries.flight DIR HOST PORT` serves them until standard input closes. A
process of its own: neither memory nor a crash of a query is the store's, and a call whose client does not
read cannot hold it up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as flight

from venturi.common.environment import usable_cores
from venturi.common.errors import StoreError
from venturi.servers.timeseries import tables as store_tables

__all__ = ["QUERIES", "QUERY_MEMORY", "StoreFlight"]

_ROWS = 65_536  # of a batch; 2 MiB of points
QUERIES = 8
"""At a time; one more is refused."""
QUERY_MEMORY = 512 * 2**20
"""Bytes of one query; what sorts or groups more is refused, for there is no disk to spill to."""
_GLANCE = 0.1  # seconds between looks whether the client is still there


class StoreFlight(flight.FlightServerBase):  # type: ignore[misc]
    """Answers SQL over what the store in `folder` has sealed by then: the views `points` and `series`.

    A descriptor's command and a ticket are the text of a query; a descriptor's path names a view. Nothing
    but the store's own files can be read, and nothing written. Where some of them are damaged, answers
    are of the others; the metadata `damaged` of their schema, and a line on standard error, name them.
    Answers are made as they are taken: a client
    that reads slowly slows its query, one that leaves ends it. A query's mistake is INVALID_ARGUMENT.
    """

    def __init__(self, folder: Path, host: str, port: int) -> None:
        place = f"[{host}]" if ":" in host else host
        super().__init__(f"grpc+tcp://{place}:{port}")
        self._sealed = store_tables.Sealed(folder)
        self._told: set[store_tables.Damaged] = set()
        self._free = threading.BoundedSemaphore(QUERIES)
        self.address = f"{place}:{self.port}"

    def list_flights(self, context: Any, criteria: bytes) -> Iterator[Any]:
        for view in store_tables.VIEWS:
            yield self._info(flight.FlightDescriptor.for_path(view), f"select * from {view}")

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        return self._info(descriptor, _query(descriptor))

    def get_schema(self, context: Any, descriptor: Any) -> Any:
        return flight.SchemaResult(self._schema(_query(descriptor)))

    def do_get(self, context: Any, ticket: Any) -> Any:
        query = _text(ticket.ticket)
        if not self._free.acquire(blocking=False):
            raise flight.FlightUnavailableError(f"{QUERIES} queries are under way: ask again later")
        try:
            answer = _Answer(*self._connect(), query, context, self._free)
        except BaseException:
            self._free.release()
            raise
        return flight.GeneratorStream(answer.schema, answer)

    def _info(self, descriptor: Any, query: str) -> Any:
        # Without an address: where the client is already.
        endpoint = flight.FlightEndpoint(query.encode(), [])
        return flight.FlightInfo(self._schema(query), descriptor, [endpoint], -1, -1)

    def _schema(self, query: str) -> Any:
        connection, damaged = self._connect()
        try:
            # Bound and planned, not run: no batch is asked for.
            return _marked(_reader(connection, query).schema, damaged)
        finally:
            connection.close()

    def _connect(self) -> tuple[Any, list[store_tables.Damaged]]:
        """A connection with the views, and what is not in them."""
        connection = duckdb.connect()
        try:
            connection.execute(f"set memory_limit = '{QUERY_MEMORY}B'")
            connection.execute("set temp_directory = ''")
            connection.execute(f"set threads = {max(1, usable_cores() // 2)}")
            damaged = self._sealed.views(connection)
            connection.execute("set lock_configuration = true")
        except (duckdb.Error, StoreError) as error:
            connection.close()
            raise flight.FlightInternalError(_line(error)) from None
        for one in damaged:
            if one not in self._told:
                text = f"warning: {one.file}: {one.why}; answers are without its segment"
                print(text, file=sys.stderr, flush=True)
        self._told = set(damaged)
        return connection, damaged


class _Answer:
    """The batches of one query. Ends with the last one, with a mistake, or when its client has gone."""

    def __init__(
        self, connection: Any, damaged: list[store_tables.Damaged], query: str, context: Any, free: Any
    ) -> None:
        self._reader: Any = None
        self._over = threading.Event()
        # Not in a method of this class: a thread that held the answer would keep it from ending.
        watcher = threading.Thread(
            target=_watch, args=(context, connection, self._over), name="query-watch", daemon=True
        )
        try:
            watcher.start()
            self._reader = _reader(connection, query)
        except BaseException:
            _end(self._over, watcher, connection, None)
            raise
        self.schema = _marked(self._reader.schema, damaged)
        # gRPC drops the answer, read to its end or not, before it drops the call's context.
        self._finish = weakref.finalize(self, _end, self._over, watcher, connection, free)

    def __iter__(self) -> _Answer:
        return self

    def __next__(self) -> Any:
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            self._finish()
            raise
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            self._finish()
            raise pa.ArrowInvalid(f"the query fails: {_line(error)}") from None


def _watch(context: Any, connection: Any, over: threading.Event) -> None:
    """Ends a query that nobody waits for, also one that has not made its next batch yet."""
    while not over.wait(_GLANCE):
        if context.is_cancelled():
            connection.interrupt()


def _end(over: threading.Event, watcher: threading.Thread, connection: Any, free: Any) -> None:
    over.set()
    watcher.join()
    connection.interrupt()
    connection.close()
    if free is not None:
        free.release()


def _query(descriptor: Any) -> str:
    if descriptor.descriptor_type == flight.DescriptorType.CMD:
        return _text(descriptor.command)
    path = [_text(part) for part in descriptor.path or []]
    if len(path) == 1 and path[0] in store_tables.VIEWS:
        return f"select * from {path[0]}"
    raise pa.ArrowInvalid(
        f"there is no {'/'.join(path)!r}: ask for {' or '.join(store_tables.VIEWS)}, or SQL as a command"
    )


def _text(raw: bytes | str) -> str:
    try:
        return raw.decode() if isinstance(raw, bytes) else raw
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("a query is text in UTF-8") from None


def _reader(connection: Any, query: str) -> Any:
    try:
        statements = connection.extract_statements(query)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise pa.ArrowInvalid("one query, which begins with select or with")
        # `sql` makes rows as they are read; `execute` would keep all of them.
        return connection.sql(statements[0].query).to_arrow_reader(_ROWS)
    except duckdb.Error as error:
        raise pa.ArrowInvalid(f"the query fails: {_line(error)}") from None


def _marked(schema: Any, damaged: list[store_tables.Damaged]) -> Any:
    """The schema of an answer, which tells what the answer leaves out."""
    if not damaged:
        return schema
    told = json.dumps([{"file": one.file, "why": one.why} for one in damaged])
    return schema.with_metadata({**(schema.metadata or {}), b"damaged": told})


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def main() -> None:
    """Says in a line of JSON where it listens, or why it cannot."""
    folder, host, port = sys.argv[1:]
    try:
        server = StoreFlight(Path(folder), host, int(port))
    except (OSError, pa.ArrowException) as error:
        print(json.dumps({"error": _line(error)}), flush=True)
        return
    print(json.dumps({"address": server.address}), flush=True)
    # Interrupts are for the store, which closes standard input when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.read()
    os._exit(0)  # without waiting for calls under way


if __name__ == "__main__":
    main()
