"""Trials through ADBC drivers that packages bring, straight through the core and as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from support import read as read_support
from support.database import Database
from support.run import venturi
from venturi.servers import adbc_drivers

QUIET = ("--repeats", "1", "--warmup", "0", "--no-report", "--no-ceilings")
URI = "VENTURI_TEST_ADBC_URI"


def driver(name: str) -> dict[str, str]:
    """Options of a trial's spec that say where the driver of a package is."""
    from support.needs import require

    found = adbc_drivers.found(f"adbc://{name}")
    require(found, f"adbc-driver-{name}")
    return found


def trial(name: str, *, operation: str = "get", **choices: Any) -> dict[str, Any]:
    """A record of a trial in this process."""
    return read_support.get(f"adbc://{name}", operation=operation, **driver(name), **choices)


def run(out: Path, name: str, *words: object) -> list[dict[str, Any]]:
    """The records of a run; where a trial failed, the run says so."""
    url = name if "://" in name else f"adbc://{name}"
    done = venturi("run", "--target", url, *words, *QUIET, "--out", out)
    found = read_support.records(out)
    good = all(record["outcome"] == "ok" for record in found)
    assert (done.returncode == 0) is good, done.stderr
    return found


@pytest.fixture
def postgres_uri(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """The variable in which a driver finds its URI, password included."""
    login = f"venturi:{quote(postgres.password)}" if postgres.password else "venturi"
    monkeypatch.setenv(URI, f"postgresql://{login}@127.0.0.1:{postgres.port}/venturi")
    return URI
