"""Servers that one process of a run starts once, for all tests of its group."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from support.browser import Browser
from support.clickhouse import clickhouse, engine  # noqa: F401 - fixtures
from support.judged import judged  # noqa: F401 - a fixture
from support.proven import proven_instrument  # noqa: F401 - a fixture

# Java's second compiler pays off after minutes. Without it Cassandra starts with half of the CPU time, Spark
# with two thirds.
# Cassandra gives a write up after 2 s, which a busy machine may need. No test is about that.
LIMITS = ("request", "read_request", "range_request", "write_request", "counter_write_request")
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    " ".join(
        ["-XX:TieredStopAtLevel=1", "-Dcassandra.config.allow_system_properties=true"]
        + [f"-Dcassandra.settings.{name}_timeout=300s" for name in LIMITS]
    ),
)


@pytest.fixture(scope="session")
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser") / "profile") as found:
        yield found


@pytest.fixture
def browser(_started: Browser) -> Browser:
    """As a reader's at a desk in daylight; one for all pages."""
    _started.size(1280, 900)
    _started.dark(False)
    _started.scripts(True)
    return _started
