"""Servers of ClickHouse for tests: Debian's of 2018, and the engine of today behind an HTTP handler."""

from __future__ import annotations

import importlib.util
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from venturi.throwaway import ClickHouse

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
        wanted = urllib.parse.urlencode({"database": "venturi", **parameters})
        asking = urllib.request.Request(f"http://{self.started.address}/?{wanted}", statement.encode())
        asking.add_header("X-ClickHouse-User", "venturi")
        try:
            with urllib.request.urlopen(asking, timeout=20) as answer:
                return str(answer.read().decode()).strip()
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None


def old_server(place: Path) -> str:
    """A directory for PATH, with Debian's clickhouse-server 18.16 in it (tools/install-servers)."""
    from conftest import require

    found = shutil.which("clickhouse-server")
    if found:
        return str(Path(found).parent)
    program = _CACHE / "usr" / "sbin" / "clickhouse-server"
    require(program.exists(), "clickhouse-server (tools/install-servers)")
    folders = [str(lib) for root in ("usr/lib", "lib") for lib in (_CACHE / root).glob("*-linux-gnu*")]
    wrapper = place / "clickhouse-server"
    wrapper.write_text(_WRAPPER.format(libraries=os.pathsep.join(folders), program=program))
    wrapper.chmod(0o755)
    return str(place)


def has_chdb() -> None:
    """Skips the test, or fails it, where the engine is not installed."""
    from conftest import require

    require(importlib.util.find_spec("chdb"), "chdb (pip install 'venturi[chdb]')")


@pytest.fixture(scope="module")
def clickhouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Debian's clickhouse-server 18.16."""
    folder = old_server(tmp_path_factory.mktemp("clickhouse"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", folder + os.pathsep + os.environ["PATH"])
        server = ClickHouse(engine="server")
        server.find()
        server.start()
    yield Server(server)
    server.stop()


@pytest.fixture(scope="module")
def engine() -> Iterator[Server]:
    """ClickHouse's engine of today, in a process of its own."""
    has_chdb()
    server = ClickHouse(engine="chdb")
    server.start()
    yield Server(server)
    server.stop()
