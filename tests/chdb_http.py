"""ClickHouse's engine of today (chdb) behind as much HTTP as `clickhouse://` uses: a process of its own.

`python chdb_http.py DIRECTORY` prints its port. The statement is the body, or `query` in the URL with the
rows as the body; settings are the other parameters. Answers go out in chunks, zstd where it is asked for.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
from chdb import session as chdb_session

CHUNK = 300_000
OWN = {"database", "query", "enable_http_compression", "default_format", "compress", "query_id", "session_id"}
FORMAT = re.compile(r"\sFORMAT\s+(\w+)[\s;]*$")
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    session: Any = None

    def do_POST(self) -> None:
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if form := self.headers.get("X-ClickHouse-Format"):
            parameters["default_format"] = form
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "zstd":
            # The size is not in every frame.
            body = pa.CompressedInputStream(pa.BufferReader(body), "zstd").read()
        try:
            answer = self.run(parameters, body)
        except Exception as error:
            text = str(error).strip() + " (version 26.9.2.1)\n"
            code = text.split(":", 1)[1].split(".", 1)[0].strip() if text.startswith("Code:") else "1"
            self.answer(500, text.encode(), {"X-ClickHouse-Exception-Code": code})
            return
        # The rows of the trial, not what is asked before.
        broken = b"venturi_broken" in body and b"TabSeparated" not in body
        if broken:
            answer = (
                answer[: len(answer) // 2] + b"Code: 395. DB::Exception: broken on purpose (version 26.9)\n"
            )
        self.answer(200, answer, {})

    def run(self, parameters: dict[str, str], body: bytes) -> bytes:
        settings = [f"{name} = '{value}'" for name, value in parameters.items() if name not in OWN]
        statement = parameters.get("query")
        if statement is None:
            statement, rows = body.decode(), None
        else:
            rows = body
        with LOCK, tempfile.TemporaryDirectory() as folder:
            for setting in settings:
                self.session.query(f"SET {setting}")
            if rows is None:
                told = FORMAT.search(statement)
                form = told[1] if told else parameters.get("default_format", "TabSeparated")
                made = self.session.query(statement[: told.start()] if told else statement, form)
            else:
                # INSERT INTO t (columns) FORMAT F, the rows behind it: from a file, as chdb reads them.
                head, _, form = statement.rpartition(" FORMAT ")
                place = Path(folder) / "rows"
                place.write_bytes(rows)
                made = self.session.query(f"{head} SELECT * FROM file('{place}', '{form}')", "Null")
            return bytes(made.bytes() or b"")

    def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        packed = status == 200 and "zstd" in self.headers.get("Accept-Encoding", "")
        if packed:
            body = pa.Codec("zstd").compress(body, asbytes=True) if body else b""
            headers = {"Content-Encoding": "zstd", **headers}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for start in range(0, len(body), CHUNK):
            piece = body[start : start + CHUNK]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: object) -> None:
        """Silent."""


def main() -> None:
    Handler.session = chdb_session.Session(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
