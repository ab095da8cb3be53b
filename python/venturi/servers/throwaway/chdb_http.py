"""ClickHouse's engine (chdb) behind as much of ClickHouse's HTTP interface as its clients use: a process.

`python -m venturi.servers.throwaway.chdb_http DIRECTORY --port PORT`. A statement is the body of a POST, or
`query` in the URL with the rows of an INSERT as the body; the other parameters are settings. Answers go out
while the engine makes them, in the formats whose pieces can be put together; other formats when they are
whole.
"""

from __future__ import annotations

import argparse
import contextlib
import hmac
import itertools
import os
import re
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from venturi.common.credentials import filled
from venturi.servers.charrow_engine import pieces

# Parameters that are the interface's own, and no settings.
_OWN = frozenset(
    (
        *("database", "query", "query_id", "user", "password", "session_id", "session_timeout"),
        *("session_check", "close_session", "compress", "decompress", "default_format", "quota_key", "role"),
        *("stacktrace", "buffer_size", "wait_end_of_query", "client_protocol_version"),
        *("enable_http_compression", "http_zlib_compression_level", "send_progress_in_http_headers"),
        "http_headers_progress_interval_ms",
    )
)
_USERS = frozenset(("", "default", "venturi"))
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_INSERT = re.compile(r"\s*INSERT\s", re.IGNORECASE)
CONNECTIONS = 256
"""At a time. One more takes the place of the one that has been silent longest."""
STATEMENTS = 64
"""At a time. One more waits."""
_MOST_HEAD = 2**16
_MOST_STATEMENT = 4 * 2**20
_MOST_ROWS = 16 * 2**30
_COPY_BYTES = 2**20
_IDLE_SECONDS = 300.0
"""For a whole request but the rows of an INSERT."""
_STALLED_SECONDS = 30.0
"""Without a byte that the client sends or takes."""
_TURN_SECONDS = 60.0
_GLANCE_SECONDS = 0.2
_MARK = b"\xff\xff\xff\xff"
_END_OF_STREAM = _MARK + bytes(4)
# Their pieces follow one another without more ado.
_PLAIN = frozenset(("Native", "RowBinary", "TabSeparated", "TSV", "CSV", "JSONEachRow", "Null"))
_WRONG_PASSWORD = (
    "Code: 516. DB::Exception: {}: Authentication failed: password is incorrect, or there is no user with "
    "such name. (AUTHENTICATION_FAILED)"
)


def joined(found: Iterable[bytes], form: str) -> Iterator[bytes | memoryview]:
    """Pieces that are documents of their own, as one document. Raises KeyError for other formats."""
    if form in _PLAIN:
        yield from found
    elif form == "ArrowStream":
        for number, piece in enumerate(found):
            # The schema is a message without a body; it comes with the first piece.
            start = 0 if number == 0 else 8 + int.from_bytes(piece[4:8], "little")
            yield memoryview(piece)[start : len(piece) - len(_END_OF_STREAM)]
        yield _END_OF_STREAM
    elif form == "RowBinaryWithNamesAndTypes":
        head = b""
        for piece in found:
            yield memoryview(piece)[len(head) :]
            head = head or piece[: _row_header(piece)]
    else:
        raise KeyError(form)


def _row_header(piece: bytes) -> int:
    """Bytes of a number, and of twice as many texts, each after its length: LEB128, as all of them."""

    def number(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value |= (piece[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if piece[at - 1] < 0x80:
                return value, at

    columns, at = number(0)
    for _ in range(2 * columns):
        length, at = number(at)
        at += length
    return at


class Server(ThreadingHTTPServer):
    """The engine, which is one a process, and who listens for it."""

    daemon_threads = True
    request_queue_size = 512

    def __init__(
        self,
        address: tuple[str, int],
        data: Path,
        password: str,
        settings: dict[str, str],
        memory: int | None = None,
    ) -> None:
        """`memory`: bytes that all statements may have together; otherwise half of the machine's."""
        import chdb

        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        limit = "max_server_memory_usage_to_ram_ratio=0.5" if memory is None else None
        self.place = f"{data}?{limit or f'max_server_memory_usage={memory}'}"
        self.password, self.settings = password, settings
        self._lock = threading.Lock()
        self._free = threading.BoundedSemaphore(STATEMENTS)
        # Connections, and since when each has not made a whole request, nor sent rows; None while its
        # statement runs.
        self._silent: dict[socket.socket, float | None] = {}
        self._running: dict[str, socket.socket] = {}
        untyped: Any = chdb
        self.connect = untyped.connect
        # The engine ends with its last connection.
        self.kept = self.connect(self.place)
        self.kept.query("CREATE DATABASE IF NOT EXISTS venturi")
        self.version = bytes(self.kept.query("SELECT version()", "TabSeparated").bytes()).decode().strip()
        super().__init__(address, Handler)
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            silent = {one: since for one, since in self._silent.items() if since is not None}
            full = len(self._silent) >= CONNECTIONS
            if full and silent:
                self._drop(min(silent, key=silent.__getitem__))
            if not full or silent:
                self._silent[request] = time.monotonic()
                full = False
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def _drop(self, connection: socket.socket) -> None:
        """Its thread reads the end. The caller has the lock."""
        self._silent.pop(connection, None)
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._silent.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Silent: a client may leave, and what it sent may make no sense."""

    def waits(self, connection: socket.socket, since: float | None) -> None:
        """Notes that a connection has made no whole request, and sent no rows, since then."""
        with self._lock:
            if connection in self._silent:
                self._silent[connection] = since

    @contextlib.contextmanager
    def turn(self, mark: str, connection: socket.socket) -> Iterator[None]:
        """One of the statements that may run at a time; it ends with its client."""
        if not self._free.acquire(timeout=_TURN_SECONDS):
            raise ValueError(f"Code: 202. DB::Exception: {STATEMENTS} statements run: ask again later")
        try:
            self._running[mark] = connection
            yield
        finally:
            self._running.pop(mark, None)
            self._free.release()

    def _watch(self) -> None:
        """Ends statements whose clients have left, and connections that make no request."""
        killer = self.connect(self.place)
        while True:
            time.sleep(_GLANCE_SECONDS)
            for mark, connection in list(self._running.items()):
                if _left(connection):
                    # Not there yet, or no memory for it: the next look tries again.
                    with contextlib.suppress(Exception):
                        killer.query(f"KILL QUERY WHERE Settings['log_comment'] = '{mark}' ASYNC")
            with self._lock:
                for connection, since in list(self._silent.items()):
                    if since is not None and time.monotonic() - since > _IDLE_SECONDS:
                        self._drop(connection)

    def session(self, database: str, settings: dict[str, str]) -> Any:
        """A connection to the engine with these settings. Raises whatever chdb raises."""
        made = self.connect(self.place)
        try:
            if database:
                made.query("USE `" + database.replace("\\", "\\\\").replace("`", "\\`") + "`")
            for name, value in {**self.settings, **settings}.items():
                if not _NAME.fullmatch(name):
                    raise ValueError(f"Code: 115. DB::Exception: Setting {name!r} is unknown")
                made.query(f"SET {name} = {_text(value)}")
        except BaseException:
            made.close()
            raise
        return made


class Handler(BaseHTTPRequestHandler):
    """One client's connection, on a thread of its own."""

    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS
    marks = itertools.count()
    rfile: Any
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        self.rfile = _Lines(self.rfile)
        self._mark = f"venturi-{next(self.marks)}"
        self._session: Any = None
        self._settled: object = None

    def handle_one_request(self) -> None:
        self.connection.settimeout(_IDLE_SECONDS)
        self.server.waits(self.connection, time.monotonic())
        self.rfile.left = _MOST_HEAD
        super().handle_one_request()

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self._leave()

    def _leave(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session, self._settled = None, None

    def do_GET(self) -> None:
        # No statements: a page in a browser can make any host be asked so.
        if urlsplit(self.path).path in ("/", "/ping"):
            self._reply(200, b"Ok.\n")
        else:
            self._reply(404, b"There is no such page; statements come by POST.\n")

    def do_POST(self) -> None:
        self.connection.settimeout(_STALLED_SECONDS)
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        who = self._refused(parameters)
        if who is not None:
            # What follows may be many rows, which nobody reads.
            self.close_connection = True
            self._reply(403, f"{_WRONG_PASSWORD.format(who)} (version {self.server.version})\n".encode())
            return
        try:
            statement = parameters.get("query", "")
            if _INSERT.match(statement) and (found := _FORMAT.search(statement)):
                self._insert(statement[: found.start()], found[1], parameters)
                return
            body = b"".join(self._body(_MOST_STATEMENT)).decode()
            with self._turn(parameters):
                self._execute("\n".join(filter(None, (statement, body))), parameters)
        except OSError:
            self.close_connection = True  # the client has gone
        except Exception as error:  # whatever chdb throws is the answer
            with contextlib.suppress(OSError):
                self._refuse(error)

    @contextlib.contextmanager
    def _turn(self, parameters: dict[str, str]) -> Iterator[None]:
        """The request is whole: a statement may run, in a session with its settings."""
        self.server.waits(self.connection, None)
        database = self.headers.get("X-ClickHouse-Database") or parameters.get("database") or ""
        chosen = {name: value for name, value in parameters.items() if name not in _OWN}
        wanted = (database, tuple(chosen.items()))
        with self.server.turn(self._mark, self.connection):
            if self._settled != wanted:
                self._leave()
                chosen["log_comment"] = self._mark
                self._session, self._settled = self.server.session(database, chosen), wanted
            yield

    def _execute(self, statement: str, parameters: dict[str, str]) -> None:
        wanted_format = self.headers.get("X-ClickHouse-Format")
        form = wanted_format or parameters.get("default_format") or "TabSeparated"
        if found := _FORMAT.search(statement):
            statement, form = statement[: found.start()], found[1]
        accepted = re.findall(r"\w+", self.headers.get("Accept-Encoding") or "")
        zstd = parameters.get("enable_http_compression") == "1" and "zstd" in accepted
        if form in _PLAIN or form in ("ArrowStream", "RowBinaryWithNamesAndTypes"):
            with contextlib.closing(pieces(self._session, statement, form)) as made:
                self._stream(joined(made, form), form, zstd)
        else:
            self._stream(iter((self._session.query(statement, form).bytes() or b"",)), form, zstd)

    def _insert(self, head: str, form: str, parameters: dict[str, str]) -> None:
        """INSERT INTO t (columns), the rows from a file, as the engine reads them."""
        packed = self.headers.get("Content-Encoding") == "zstd"
        with tempfile.TemporaryDirectory(prefix="rows-") as folder:
            # The engine takes the compression from the name.
            place = Path(folder) / ("rows.zst" if packed else "rows")
            with place.open("wb") as file:
                for piece in self._body(_MOST_ROWS):
                    self.server.waits(self.connection, time.monotonic())
                    file.write(piece)
            with self._turn(parameters):
                if place.stat().st_size:
                    self._session.query(f"{head} SELECT * FROM file({_text(str(place))}, '{form}')", "Null")
        self._reply(200, b"")

    def _stream(self, found: Iterator[bytes | memoryview], form: str, zstd: bool) -> None:
        """The answer in chunks. What goes wrong before the first one has a status of its own."""
        first = next(found, b"")
        self.send_response(200)
        self.send_header("X-ClickHouse-Format", form)
        if zstd:
            self.send_header("Content-Encoding", "zstd")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        out: Any = _Chunks(self.connection)
        with contextlib.ExitStack() as stack:
            if zstd:
                import pyarrow as pa

                out = stack.enter_context(pa.CompressedOutputStream(pa.PythonFile(out, "w"), "zstd"))
            try:
                for piece in itertools.chain((first,), found):
                    out.write(piece)
            except OSError:
                raise
            except Exception as error:
                # As ClickHouse does it: the text of the exception ends the body, and the connection.
                out.write(self._message(error))
                self.close_connection = True
        self.connection.sendall(b"0\r\n\r\n")

    def _message(self, error: Exception) -> bytes:
        text = str(error).strip().removeprefix("Streaming query failed: ")
        if not text.startswith("Code: "):
            text = f"Code: 1. DB::Exception: {text or type(error).__name__}"
        return f"{text} (version {self.server.version})\n".encode()

    def _refuse(self, error: Exception) -> None:
        message = self._message(error)
        code = message.split(b":", 2)[1].split(b".", 1)[0].strip().decode()
        # Settings and streams that broke off do not outlive a request that failed.
        self._leave()
        self._reply(404 if code in ("60", "81") else 500, message, {"X-ClickHouse-Exception-Code": code})

    def _reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/plain; charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _refused(self, parameters: dict[str, str]) -> str | None:
        """Who must not come in; None: whoever asks may."""
        user = self.headers.get("X-ClickHouse-User") or parameters.get("user") or ""
        password = self.headers.get("X-ClickHouse-Key") or parameters.get("password") or ""
        kind, _, secret = (self.headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "basic":
            with contextlib.suppress(ValueError):
                user, _, password = b64decode(secret).decode().partition(":")
        good = hmac.compare_digest(password.encode(), self.server.password.encode())
        # Somebody else's page in a browser says where it comes from.
        return None if good and user in _USERS and "Origin" not in self.headers else user or "default"

    def _body(self, most: int) -> Iterator[bytes]:
        """The request's body, in pieces of at most a mebibyte. Raises OSError where it ends too soon, and
        ValueError for more than `most` bytes, or for what is not a body: then no more is read."""
        kept_open, self.close_connection = self.close_connection, True
        chunked = (self.headers.get("Transfer-Encoding") or "").lower() == "chunked"
        while size := self._chunk() if chunked else int(self.headers.get("Content-Length") or 0):
            most -= size
            if size < 0 or most < 0:
                raise ValueError("Code: 62. DB::Exception: The body of this request is too large, or no body")
            yield from self._read(size)
            if not chunked:
                break
            self.rfile.readline(8)
        self.rfile.left = _MOST_HEAD
        while chunked and self.rfile.readline(1024).strip():
            pass
        self.close_connection = kept_open

    def _chunk(self) -> int:
        self.rfile.left = _MOST_HEAD
        return int(self.rfile.readline(64).split(b";")[0] or b"0", 16)

    def _read(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self.rfile.read(min(size, _COPY_BYTES))
            if not piece:
                raise ConnectionError("the client has gone")
            size -= len(piece)
            yield piece

    def log_message(self, *_: object) -> None:
        """Silent: a line a request would be most of the log."""


class _Lines:
    """What a client sends, whose lines are `left` bytes at most together."""

    def __init__(self, file: Any) -> None:
        self._file, self.left = file, 0
        self.read, self.close = file.read, file.close

    def readline(self, most: int) -> bytes:
        line: bytes = self._file.readline(most)
        self.left -= len(line)
        if self.left < 0:
            raise ConnectionError("the head of a request is too long")
        return line


class _Chunks:
    """A file to write to, whose pieces become chunks of a body."""

    closed = False

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def write(self, piece: bytes | memoryview) -> int:
        left = [memoryview(b"%x\r\n" % len(piece)), memoryview(piece), memoryview(b"\r\n")]
        if not len(piece):
            return 0  # an empty chunk would be the end
        while left:
            sent = self._connection.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if left:
                left[0] = left[0][sent:]
        return len(piece)

    def flush(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """The connection goes on."""


def _left(connection: socket.socket) -> bool:
    """Whether the client has closed its end."""
    look = select.poll()
    try:
        look.register(connection, select.POLLIN)
        return bool(look.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""
    except (OSError, ValueError):  # reset, or closed here
        return True


def _text(value: str) -> str:
    """A literal of ClickHouse's."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main(words: list[str] | None = None, out: BinaryIO | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--password-env")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    chosen = parser.parse_args(words)
    settings = dict(filled(word).split("=", 1) for word in chosen.set)
    password = os.environ.get(chosen.password_env or "", "")
    server = Server((chosen.host, chosen.port), chosen.data, password, settings, chosen.memory)
    # A setting that the engine does not know is said now, not to every client.
    server.session("", {}).close()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown, daemon=True).start())
    (out or sys.stdout.buffer).write(f"{server.server_address[1]}\n".encode())
    sys.stdout.flush()
    with server:
        server.serve_forever()
    server.kept.close()


if __name__ == "__main__":
    main()
