"""Log-ins of MySQL 8 and later, `caching_sha2_password`, at a server made for it: no MySQL is needed."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from support.mysql import refusal

pytestmark = pytest.mark.usefixtures("core")

NONCE = bytes(range(65, 85))
PASSWORD = "correct horse"
REACHED = b"\xff\x15\x04#HY000this is as far as it goes"


def exclusive_or(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))


class Server:
    """Answers one client; `cached`: it has seen the password before. Notes what it was given."""

    def __init__(
        self, cached: bool, plugin: bytes = b"caching_sha2_password", then: bytes = b"", path: str = ""
    ) -> None:
        self.cached, self.plugin, self.then, self.path = cached, plugin, then, path
        self.password: bytes | None = None
        if path:
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen()
            self.url = f"mysql+unix://me@{path}"
        else:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.url = f"mysql://me@127.0.0.1:{self.listener.getsockname()[1]}"
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        self.client, _ = self.listener.accept()
        with self.client, self.client.makefile("rb") as self.stream, contextlib.suppress(EOFError):
            head = (
                b"\x0a8.4.2\0" + bytes(4) + NONCE[:8] + b"\0" + b"\xff\xf7" + bytes([45, 2, 0]) + b"\xff\x81"
            )
            self.send(0, head + bytes([21]) + bytes(10) + NONCE[8:] + b"\0" + self.plugin + b"\0")
            number, _ = self.receive()
            if self.then:
                self.send(number + 1, b"\xfe" + self.then + b"\0" + NONCE + b"\0")
                number, _ = self.receive()
            if b"caching_sha2_password" in (self.plugin, self.then):
                number = self.full(number + 1) if not self.cached else number + 1
                if self.cached:
                    self.send(number, b"\x01\x03")
            self.send(number + 1, bytes([0, 0, 0, 2, 0, 0, 0]))
            self.receive()
            self.send(1, REACHED)

    def full(self, number: int) -> int:
        self.send(number, b"\x01\x04")
        number, asked = self.receive()
        if self.path:
            self.password = asked
            return number
        assert asked == b"\x02"
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        self.send(number + 1, b"\x01" + pem)
        number, hidden = self.receive()
        rule = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
        masked = key.decrypt(hidden, rule)
        self.password = exclusive_or(masked, (NONCE * 9)[: len(masked)])
        return number

    def send(self, number: int, message: bytes) -> None:
        self.client.sendall(len(message).to_bytes(3, "little") + bytes([number]) + message)

    def receive(self) -> tuple[int, bytes]:
        header = self.stream.read(4)
        if not header:
            raise EOFError  # the client has gone
        return header[3], self.stream.read(int.from_bytes(header[:3], "little"))


def refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("VENTURI_TEST_PASSWORD", PASSWORD)
    line = refusal(server.url, "venturi_x", options={"password_env": "VENTURI_TEST_PASSWORD"})
    server.thread.join(timeout=10)
    assert PASSWORD not in line
    return line


@pytest.mark.parametrize(
    ("made", "password"),
    [
        ({"cached": True}, None),
        ({"cached": False}, PASSWORD.encode() + b"\0"),
        ({"cached": False, "path": "socket"}, PASSWORD.encode() + b"\0"),
        ({"cached": True, "plugin": b"auth_odd", "then": b"mysql_native_password"}, None),
    ],
    ids=[
        "seen before",
        "under the server's key",
        "over a Unix socket",
        "another plugin than the server's own",
    ],
)
def test_the_log_in_goes_through(
    made: dict[str, Any], password: bytes | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is answered to each plugin, Rust's tests hold (crates/targets/src/mysql/auth.rs)."""
    server = Server(**made | ({"path": str(tmp_path / made["path"])} if "path" in made else {}))
    assert "this is as far as it goes" in refused(server, monkeypatch)
    assert server.password == password
