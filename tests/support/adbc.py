"""Trials through ADBC drivers that packages bring, straight through the core and as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import read as read_support
from support.needs import require
from support.run import venturi
from venturi.servers.local import adbc_driver

URI = "VENTURI_TEST_ADBC_URI"


def driver(name: str) -> dict[str, str]:
    """Options of a trial's spec that say where the driver of a package is."""
    found = adbc_driver(f"adbc://{name}")
    require(found, f"adbc-driver-{name}")
    return found


def trial(name: str, *, operation: str = "get", **choices: Any) -> dict[str, Any]:
    """A record of a trial in this process."""
    return read_support.get(f"adbc://{name}", operation=operation, **driver(name), **choices)


def run(out: Path, name: str, *words: object) -> list[dict[str, Any]]:
    """The records of a run; where a trial failed, the run says so."""
    url = name if "://" in name else f"adbc://{name}"
    done = venturi("run", "--target", url, *words, *read_support.ONCE, "--out", out)
    found = read_support.records(out)
    good = all(record["outcome"] == "ok" for record in found)
    assert (done.returncode == 0) is good, done.stderr
    return found
