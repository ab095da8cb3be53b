"""Servers of Arrow streams over HTTP that others wrote, and those that lie."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.needs import in_path
from support.stranger import answering
from support.wait import wait_until
from venturi.servers.throwaway import network


def rows(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{n}" for n in numbers]})


def stream(table: pa.Table, rows_per_batch: int = 2000, **options: Any) -> bytes:
    """The table as an Arrow IPC stream of pyarrow's."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=rows_per_batch)
    return sink.getvalue().to_pybytes()


@contextlib.contextmanager
def _ended(child: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        child.terminate()
        child.communicate()


@contextlib.contextmanager
def python_server(folder: Path) -> Iterator[str]:
    """`python -m http.server`: Content-Length, HTTP/1.0, no ranges. It says which port it has got."""
    words = [
        sys.executable,
        "-u",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "--directory",
        str(folder),
        "0",
    ]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with _ended(child):
        assert child.stdout is not None
        port = child.stdout.readline().partition(" port ")[2].split()[0]
        yield f"http+arrow://127.0.0.1:{port}"


@contextlib.contextmanager
def nginx_server(folder: Path, place: Path) -> Iterator[str]:
    """nginx as a user of its own, which packs by gzip what is asked for so; `/user/` wants a password."""
    port = network.free_port("127.0.0.1")
    (place / "users").write_text("me:{PLAIN}open sesame\n")
    paths = "\n".join(
        f"{kind}_temp_path {place}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (place / "nginx.conf").write_text(
        f"""daemon off; master_process off; pid {place}/pid; error_log {place}/error.log;
        events {{}}
        http {{
            access_log off; {paths}
            gzip on; gzip_types *; gzip_min_length 0; gzip_comp_level 1;
            server {{
                listen 127.0.0.1:{port}; root {folder};
                location /user/ {{ alias {folder}/; auth_basic it; auth_basic_user_file {place}/users; }}
                location /away {{ return 302 http://127.0.0.1:{port}/rows.arrows; }}
            }}
        }}"""
    )

    def listens() -> bool:
        assert child.poll() is None, (place / "error.log").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    with in_path("nginx", "usr/sbin/nginx"):
        words = ["nginx", "-p", str(place), "-c", str(place / "nginx.conf")]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with _ended(child):
            wait_until(listens)
            yield f"http+arrow://127.0.0.1:{port}"


class _Taking(BaseHTTPRequestHandler):
    """Takes Arrow streams by POST and PUT, in chunks or with a length, and answers as its path says."""

    protocol_version = "HTTP/1.1"

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers["Content-Length"]))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def do_POST(self) -> None:
        table = pa.ipc.open_stream(self._body()).read_all()
        self.server.taken.append((self.command, dict(self.headers), table))  # type: ignore[attr-defined]
        told = {"/counts": table.num_rows, "/lies": table.num_rows - 1}.get(self.path)
        body = b"" if told is None else json.dumps({"rows": told}).encode()
        self.send_response(503 if self.path == "/busy" else 200 if body else 204)
        if body or self.path == "/busy":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def taking_server() -> Iterator[tuple[str, list[tuple[str, dict[str, str], pa.Table]]]]:
    """Its URL, and what it has taken: method, headers, rows."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Taking)
    server.taken = []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http+arrow://127.0.0.1:{server.server_address[1]}", server.taken  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@contextlib.contextmanager
def saying_server(answer: bytes, endless: bytes = b"") -> Iterator[str]:
    """One that says these bytes to whatever it is asked, then `endless` until nobody listens."""

    def serve(client: socket.socket) -> None:
        asked = b""
        while b"\r\n\r\n" not in asked:
            piece = client.recv(65536)
            if not piece:
                return
            asked += piece
        client.sendall(answer)
        while endless:
            client.sendall(endless)
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass

    with answering(serve) as port:
        yield f"http+arrow://127.0.0.1:{port}"
