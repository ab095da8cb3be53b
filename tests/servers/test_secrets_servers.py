"""Secrets by reference: in commands that measure this machine, and in databases that a run starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clickhouse import has_chdb
from support.flight import Start
from support.needs import require_server
from support.secret import HARD, ROWS, UPSERT, searched, stays_there

pytestmark = pytest.mark.usefixtures("core")


@pytest.mark.parametrize("scheme", ["mysql", "postgres", "clickhouse"])
def test_what_is_in_the_environment_stays_there(scheme: str, tmp_path: Path) -> None:
    has_chdb() if scheme == "clickhouse" else require_server(scheme)
    words = ROWS if scheme == "clickhouse" else ("--operation", "upsert", *UPSERT)
    stays_there(tmp_path, f"{scheme}://local", *words)


def test_flight(start_reference_server: Start, tmp_path: Path) -> None:
    """Other ways to give a token, and other commands that take one; tests/test_behaviour.py has the usual."""

    def there(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    server = start_reference_server("--token-env", "THE_TOKEN", THE_TOKEN=HARD)
    url = f"flight://{server.address}"
    named = ("--target", url, "--header-env", "authorization=MY_HEADER")
    searched(there("header"), "run", *named, *ROWS, MY_HEADER=f"Bearer {HARD}")
    searched(there("limits"), "ceilings", url, "--only", "tcp", "--streams", "1", "--token-env", "MY_TOKEN",
             MY_TOKEN=HARD)  # fmt: skip
    searched(there("tuned"), "tune", url, "--trials", "2", "--streams", "1,2", "--duration", "100ms",
             "--set", "target.token_env=MY_TOKEN", MY_TOKEN=HARD)  # fmt: skip
