"""Servers that one process of a run starts once, for all tests of its group."""

from __future__ import annotations

from support.clickhouse import clickhouse, engine  # noqa: F401 - fixtures
from support.judged import judged  # noqa: F401 - a fixture
from support.proven import proven_instrument  # noqa: F401 - a fixture
