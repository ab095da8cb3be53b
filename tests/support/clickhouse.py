"""Servers of ClickHouse for tests: Debian's of 2018, and the engine of today behind an HTTP handler."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from venturi.servers.throwaway import ClickHouse

_ASK_SECONDS = 300.0
"""Ten million rows come into a table in one statement (tests/servers/test_spark_tables.py)."""
# Fixtures give the tests another cache directory; what was installed lies in the user's.
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "venturi" / "debian"
# The libraries of an unpacked package lie beside its program.
_WRAPPER = """#!/bin/sh
LD_LIBRARY_PATH="{libraries}"
export LD_LIBRARY_PATH
exec {program} "$@"
"""


class Server:
    """A running server: its URL and process, and statements outside of Venturi."""

    def __init__(self, started: ClickHouse) -> None:
        self.started = started
        self.url = started.url
        self.pid = started.pid

    def ask(self, statement: str, **parameters: str) -> str:
        """What it answers, as text. Raises AssertionError with its refusal."""
        return self._post(statement.encode(), parameters)

    def put(self, statement: str, file: Path) -> None:
        """A file as the rows of an INSERT. Raises AssertionError with the server's refusal."""
        with open(file, "rb") as rows:
            self._post(rows, {"query": statement}, {"Content-Length": str(file.stat().st_size)})

    def _post(
        self, body: Any, parameters: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> str:
        wanted = urllib.parse.urlencode({"database": "venturi", **parameters})
        url = f"http://{self.started.address}/?{wanted}"
        login = {"X-ClickHouse-User": "venturi"}
        if (secret := self.started.secret()) is not None:
            login["X-ClickHouse-Key"] = secret
        asking = urllib.request.Request(url, body, {**login, **(headers or {})})
        try:
            with urllib.request.urlopen(asking, timeout=_ASK_SECONDS) as answer:
                return str(answer.read().decode()).strip()
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None


def old_server(place: Path) -> str:
    """A directory for PATH, with Debian's clickhouse-server 18.16 in it; skips or fails the test where it
    is not here."""
    try:
        return _program(place)
    except LookupError as error:
        from support.needs import require

        require(False, str(error))
        raise  # not reached: it skips or fails


def _program(place: Path) -> str:
    found = shutil.which("clickhouse-server")
    if found:
        return str(Path(found).parent)
    program = _CACHE / "usr" / "sbin" / "clickhouse-server"
    if not program.exists():
        raise LookupError("clickhouse-server (tools/install-servers)")
    folders = [str(lib) for root in ("usr/lib", "lib") for lib in (_CACHE / root).glob("*-linux-gnu*")]
    wrapper = place / "clickhouse-server"
    wrapper.write_text(_WRAPPER.format(libraries=os.pathsep.join(folders), program=program))
    wrapper.chmod(0o755)
    return str(place)


def has_chdb() -> None:
    """Skips the test, or fails it, where the engine is not installed."""
    from support.needs import require

    require(importlib.util.find_spec("chdb"), "chdb (pip install 'venturi[chdb]')")


@contextlib.contextmanager
def started(engine: str, password_env: str | None = None) -> Iterator[Server]:
    """`server`: Debian's of 2018; `chdb`: ClickHouse's engine of today, in a process of its own. Raises
    LookupError where it is not here."""
    if engine == "chdb" and importlib.util.find_spec("chdb") is None:
        raise LookupError("chdb (pip install 'venturi[chdb]')")
    server = ClickHouse(engine=engine, password_env=password_env)
    with tempfile.TemporaryDirectory() as place:
        before = os.environ["PATH"]
        if engine == "server":
            os.environ["PATH"] = _program(Path(place)) + os.pathsep + before
        try:
            server.find()
            server.start()
        finally:
            os.environ["PATH"] = before
        try:
            yield Server(server)
        finally:
            server.stop()


@contextlib.contextmanager
def required(engine: str, password_env: str | None = None) -> Iterator[Server]:
    """The same; skips the test, or fails it, where it is not here."""
    from support.needs import require

    try:
        with started(engine, password_env) as server:
            yield server
    except LookupError as error:
        require(False, str(error))


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
