"""Servers of ClickHouse as Spark and its JDBC drivers meet them: Debian's of 2018, and chdb over HTTP."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

READY_SECONDS = 30.0
_HERE = Path(__file__).resolve().parent
# Fixtures give the tests another cache directory; what was installed lies in the user's.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "venturi" / "debian"

_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>{place}/log</log><errorlog>{place}/errors</errorlog></logger>
  <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><interserver_http_port>{inter}</interserver_http_port>
  <listen_host>127.0.0.1</listen_host>
  <path>{place}/data/</path><tmp_path>{place}/tmp/</tmp_path><users_config>users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
  <mark_cache_size>67108864</mark_cache_size>
</yandex>
"""
_USERS = """<?xml version="1.0"?>
<yandex><profiles><default/></profiles><quotas><default/></quotas><users>
  <default><password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></default>
  <reader><password>secret word</password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></reader>
</users></yandex>
"""


class Server:
    """A running server: its port and URL, and statements outside of Venturi."""

    def __init__(self, port: int, process: subprocess.Popen[str]) -> None:
        self.port = port
        self.process = process
        self.url = f"clickhouse://127.0.0.1:{port}/default"

    def ask(self, statement: str) -> str:
        url = f"http://127.0.0.1:{self.port}/"
        try:
            with urllib.request.urlopen(url, statement.encode(), timeout=20) as answer:
                return str(answer.read().decode()).strip()
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(20)
        if self.process.stdout is not None:
            self.process.stdout.close()


def _program() -> tuple[str, dict[str, str]] | None:
    """The server's program, and what it needs to be told."""
    if found := shutil.which("clickhouse-server"):
        return found, {}
    program = _CACHE / "usr" / "sbin" / "clickhouse-server"
    if not program.exists():
        return None
    folders = [str(lib) for root in ("usr/lib", "lib") for lib in (_CACHE / root).glob("*-linux-gnu*")]
    return str(program), {"LD_LIBRARY_PATH": os.pathsep.join(folders)}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(s.getsockname()[1]) for s in sockets]
    for taken in sockets:
        taken.close()
    return ports


def _wait(server: Server) -> Server:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            server.ask("SELECT 1")
            return server
        except OSError:
            if server.process.poll() is not None or time.monotonic() > deadline:
                server.stop()
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def old_server(place: Path) -> Iterator[Server]:
    """Debian's clickhouse-server 18.16 in an empty directory. Raises LookupError where it is not here."""
    found = _program()
    if found is None:
        raise LookupError("clickhouse-server (tools/install-servers)")
    program, environment = found
    http, tcp, inter = _free_ports(3)
    (place / "config.xml").write_text(_CONFIG.format(place=place, http=http, tcp=tcp, inter=inter))
    (place / "users.xml").write_text(_USERS)
    process = subprocess.Popen(
        [program, f"--config-file={place / 'config.xml'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **environment},
        cwd=place,
    )
    server = _wait(Server(http, process))
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def engine_of_today(place: Path) -> Iterator[Server]:
    """chdb behind chdb_http.py. Raises LookupError where it is not installed."""
    if importlib.util.find_spec("chdb") is None:
        raise LookupError("chdb (pip install 'venturi[chdb]')")
    process = subprocess.Popen(
        [sys.executable, str(_HERE / "chdb_http.py"), str(place / "data")], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the handler did not start"
    server = _wait(Server(int(line), process))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Debian's clickhouse-server 18.16 (tools/install-servers)."""
    from conftest import require

    try:
        with old_server(tmp_path_factory.mktemp("clickhouse")) as server:
            yield server
    except LookupError as error:
        require(False, str(error))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """ClickHouse's engine of today, in a process of its own."""
    from conftest import require

    try:
        with engine_of_today(tmp_path_factory.mktemp("chdb")) as server:
            yield server
    except LookupError as error:
        require(False, str(error))
