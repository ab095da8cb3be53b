"""Servers of ClickHouse for tests: Debian's of 2018, and the engine of today behind an HTTP handler."""

from __future__ import annotations

import contextlib
import importlib.util
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

import pytest

from support.needs import in_path, require
from venturi.servers.throwaway import ClickHouse

_ASK_SECONDS = 300.0
"""Ten million rows come into a table in one statement (tests/servers/test_spark.py)."""


class Server:
    """A running server: its URL and process, and statements outside of Venturi."""

    def __init__(self, started: ClickHouse) -> None:
        self.started = started
        self.url = started.url
        self.pid = started.pid

    def ask(self, statement: str, **parameters: str) -> str:
        """What it answers, as text. Raises AssertionError with its refusal."""
        return self.post(statement.encode(), parameters, {}).decode().strip()

    def post(self, body: Any, parameters: Mapping[str, str], headers: Mapping[str, str]) -> bytes:
        """What it answers to a request. Raises AssertionError with its refusal."""
        wanted = urllib.parse.urlencode({"database": "venturi", **parameters})
        login = {"X-ClickHouse-User": "venturi"}
        if (secret := self.started.secret()) is not None:
            login["X-ClickHouse-Key"] = secret
        url = f"http://{self.started.address}/?{wanted}"
        asking = urllib.request.Request(url, body, {**login, **headers})
        try:
            with urllib.request.urlopen(asking, timeout=_ASK_SECONDS) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None


def has_chdb() -> None:
    """Skips the test, or fails it, where the engine is not installed."""
    require(importlib.util.find_spec("chdb"), "chdb (pip install 'venturi[chdb]')")


def old_server() -> AbstractContextManager[str]:
    """Debian's clickhouse-server 18.16 is in PATH as long as the block lasts."""
    return in_path("clickhouse-server", "usr/sbin/clickhouse-server")


@contextlib.contextmanager
def required(engine: str, password_env: str | None = None) -> Iterator[Server]:
    """`server`: Debian's of 2018; `chdb`: ClickHouse's engine of today, in a process of its own. Skips the
    test, or fails it, where it is not here."""
    if engine == "chdb":
        has_chdb()
    server = ClickHouse(engine=engine, password_env=password_env)
    with old_server() if engine == "server" else contextlib.nullcontext():
        server.find()
        server.start()
    try:
        yield Server(server)
    finally:
        server.stop()


@pytest.fixture(scope="session")
def clickhouse() -> Iterator[Server]:
    """Debian's clickhouse-server 18.16."""
    with required("server") as server:
        yield server


@pytest.fixture(scope="session")
def engine() -> Iterator[Server]:
    """ClickHouse's engine of today, in a process of its own."""
    with required("chdb") as server:
        yield server
