"""ClickHouse's engine behind `venturi serve charrow --engine chdb`: queries in, Arrow IPC streams out.

The core asks for nothing but bytes: each piece of a result is a whole IPC stream, which the server's encoders
take apart and encode anew. chdb runs one stream a connection, so each query has a connection and a thread.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

from venturi.common.errors import VenturiError

_WAIT_SECONDS = 0.2
_MOST_THREADS = 64
_LAST_WORDS = 2000


class Query(Protocol):
    """A query that the server wants executed (`venturi._core.Query`)."""

    id: str
    text: str

    def push(self, stream: bytes) -> bool:
        """Takes one IPC stream, waiting while the server has enough; False where nobody wants more."""

    def finish(self, error: str | None) -> None:
        """The end of the result, or why there is none."""


class ChdbEngine:
    """Executes the queries of one server. Raises VenturiError where chdb is not installed."""

    def __init__(self, data: Path | None = None) -> None:
        self._chdb = _chdb()
        self._place = ":memory:" if data is None else str(data.absolute())
        self._ending = threading.Event()
        self._taker: threading.Thread | None = None
        self._free = threading.Semaphore(_MOST_THREADS)
        # The engine is one a process, and starts with its first connection; it ends with its last one.
        self._kept: Any = None

    def start(self, server: Any) -> None:
        """Takes queries from this server until `stop`. Raises VenturiError where the directory is no good."""
        try:
            self._kept = self._chdb.connect(self._place)
        except Exception as error:
            raise VenturiError(f"--data {self._place}: chdb cannot open it: {_reason(error)}") from None
        self._taker = threading.Thread(target=self._take, args=(server,), name="chdb-queries", daemon=True)
        self._taker.start()

    def stop(self) -> None:
        """No more queries; those that run are the server's to end, which it has stopped to want."""
        self._ending.set()
        if self._taker is not None:
            self._taker.join(2 * _WAIT_SECONDS)
        with contextlib.suppress(Exception):
            if self._kept is not None:
                self._kept.close()

    def _take(self, server: Any) -> None:
        while not self._ending.is_set():
            try:
                query = server.next_query(_WAIT_SECONDS)
            except RuntimeError:
                return  # the server has ended
            if query is None:
                continue
            self._free.acquire()
            threading.Thread(target=self._work, args=(query,), name="chdb-query", daemon=True).start()

    def _work(self, query: Query) -> None:
        try:
            self._execute(query)
            reason = None
        except Exception as error:  # whatever chdb throws is the answer to the query
            reason = _reason(error)
        finally:
            self._free.release()
        with contextlib.suppress(RuntimeError):
            query.finish(reason)

    def _execute(self, query: Query) -> None:
        connection = self._chdb.connect(self._place)
        try:
            # It would compress by itself what is taken apart a moment later.
            connection.query("SET output_format_arrow_compression_method = 'none'")
            pushed = False
            with contextlib.closing(pieces(connection, query.text, "ArrowStream")) as found:
                for piece in found:
                    pushed = True
                    if not query.push(piece):
                        return
            if not pushed:
                query.push(_no_columns())
        finally:
            connection.close()


def _no_columns() -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([])):
        pass
    return bytes(sink.getvalue())


def _chdb() -> Any:
    try:
        import chdb
    except ImportError as error:
        raise VenturiError(
            f"--engine chdb needs the package chdb, ClickHouse's engine, which cannot be loaded: {error}",
            hint="pip install 'venturi[chdb]', or leave --engine out and serve files: --table NAME=FILE",
        ) from None
    return chdb


def _reason(error: BaseException) -> str:
    """What the engine says, in one line."""
    return " ".join(str(error).split())[:_LAST_WORDS] or type(error).__name__


_NO_STREAM = "Streaming query is not supported"


def pieces(connection: Any, statement: str, form: str) -> Generator[bytes, None, None]:
    """The result of one statement in a format of ClickHouse's, each piece a whole document of that format. At
    least one piece where the result has columns. Raises whatever chdb raises. A connection has one such
    result at a time; who stops early closes the generator."""
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
    """The result of a SELECT without its rows. As a subquery of which nothing is wanted it is planned and not
    executed once more. What cannot be one, as a text that names its FORMAT, is asked again: a SELECT changes
    nothing."""
    try:
        return connection.query(f"SELECT * FROM (\n{select.rstrip().rstrip(';')}\n) LIMIT 0", form)
    except Exception:
        return connection.query(select, form)
