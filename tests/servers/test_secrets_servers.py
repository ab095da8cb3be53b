"""Databases that a run starts inherit the environment's secrets, and nothing shows them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.clickhouse import has_chdb
from support.needs import require_server
from support.secret import ROWS, UPSERT, stays_there

pytestmark = pytest.mark.usefixtures("core")


@pytest.mark.parametrize("scheme", ["mysql", "postgres", "clickhouse"])
def test_what_is_in_the_environment_stays_there(scheme: str, tmp_path: Path) -> None:
    has_chdb() if scheme == "clickhouse" else require_server(scheme)
    words = ROWS if scheme == "clickhouse" else ("--operation", "upsert", *UPSERT)
    stays_there(tmp_path, f"{scheme}://local", *words)
