"""Databases on Unix sockets."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import redis as redis_support
from support.core import run_trial
from support.database import Database
from support.read import RECORDS, get, good, refused
from venturi.targets.urls import place_of

pytestmark = pytest.mark.usefixtures("core")
USAGE = {"rows": 3000, "streams": 2, "rows_per_batch": 100}


def test_postgres(postgres: Database) -> None:
    url = postgres.hello["unix_url"]
    record = get(url, data=RECORDS, streams=2, rows=10_000)
    good(record, 20_000, "checksum")
    assert record["target"]["pid"] == postgres.pid and record["resources"]["same_machine"] is True
    upserted = run_trial(url, **USAGE)
    assert upserted["error"] is None and upserted["verification"]["achieved"] == "sums"
    # A directory, as clients of libpq name it, has the socket of the usual port in it.
    directory = str(Path(place_of(url)).parent)
    named = url.replace(place_of(url), directory)
    if postgres.port == 5432:
        good(get(named, data=RECORDS, rows=1000), 1000, "checksum")
    else:
        usual = Path(directory) / ".s.PGSQL.5432"
        usual.symlink_to(place_of(url))
        try:
            good(get(named, data=RECORDS, rows=1000), 1000, "checksum")
        finally:
            usual.unlink()
        refused(get(named, data=RECORDS, rows=1000), "unreachable", directory, "there is no such socket")
    gone = get(url.replace("/venturi", "/nowhere"), query="SELECT 1")
    assert gone["error"] is not None and "nowhere" in gone["error"]["message"]


def test_mysql(mariadb: Database) -> None:
    url = mariadb.hello["unix_url"]
    record = get(url, data=RECORDS, streams=2, rows=10_000)
    good(record, 20_000, "checksum")
    assert record["target"]["pid"] == mariadb.pid and record["resources"]["same_machine"] is True
    for statement in ("text", "prepared"):
        upserted = run_trial(url, **USAGE, options={"statement": statement})
        assert upserted["error"] is None and upserted["verification"]["achieved"] == "sums"
        assert upserted["target"]["pid"] == mariadb.pid
    # The process is known where the clock runs from the connection on, too.
    begun = run_trial(url, **USAGE, include_setup=True)
    assert begun["error"] is None and begun["target"]["pid"] == mariadb.pid


def test_redis() -> None:
    with redis_support.started() as server:
        assert server.unix_url is not None
        record = run_trial(server.unix_url, **USAGE)
        assert record["error"] is None and record["verification"]["achieved"] == "sums"
        assert record["target"]["pid"] == server.pid and record["resources"]["same_machine"] is True
