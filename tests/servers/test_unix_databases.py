"""Databases on Unix sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import redis as redis_support
from support.core import run_trial
from support.database import Database
from support.read import RECORDS, get, good, refused
from venturi.targets.urls import place_of

pytestmark = pytest.mark.usefixtures("core")
USAGE = {"rows": 3000, "streams": 2, "rows_per_batch": 100}


def upserted(url: str, pid: int | None, **more: Any) -> None:
    record = run_trial(url, **USAGE, **more)
    assert record["error"] is None and record["verification"]["achieved"] == "sums"
    assert record["target"]["pid"] == pid and record["resources"]["same_machine"] is True


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_gets_and_upserts(kind: str, request: pytest.FixtureRequest) -> None:
    database: Database = request.getfixturevalue(kind)
    url = database.hello["unix_url"]
    record = good(get(url, data=RECORDS, streams=2, rows=10_000), 20_000, "checksum")
    assert record["target"]["pid"] == database.pid and record["resources"]["same_machine"] is True
    for options in ({}, {"statement": "text"}):
        upserted(url, database.pid, options=options)
    # The process is known where the clock runs from the connection on, too.
    upserted(url, database.pid, include_setup=True)


def test_a_directory_of_postgres(postgres: Database, request: pytest.FixtureRequest) -> None:
    """As clients of libpq name it: the socket of the usual port is in it."""
    url = postgres.hello["unix_url"]
    directory = str(Path(place_of(url)).parent)
    named = url.replace(place_of(url), directory)
    if postgres.port != 5432:
        refused(get(named, data=RECORDS, rows=1000), "unreachable", directory, "there is no such socket")
        usual = Path(directory) / ".s.PGSQL.5432"
        usual.symlink_to(place_of(url))
        request.addfinalizer(usual.unlink)
    good(get(named, data=RECORDS, rows=1000), 1000, "checksum")
    refused(get(url.removesuffix("venturi") + "nowhere", query="SELECT 1"), "server", "nowhere")


def test_redis() -> None:
    with redis_support.started() as server:
        assert server.unix_url is not None
        upserted(server.unix_url, server.pid)
