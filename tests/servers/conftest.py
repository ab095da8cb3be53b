"""Servers that one process of a run starts once, for all tests of its group."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import proven
from support.clickhouse import clickhouse, engine  # noqa: F401 - fixtures
from support.judged import judged  # noqa: F401 - a fixture


@pytest.fixture(scope="session", autouse=True)
def proven_instrument(cache_home: Path) -> None:
    """What runs measure of this machine before they begin is no part of these tests."""
    proven.passed()
