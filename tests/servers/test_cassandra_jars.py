"""`venturi serve cassandra --fetch-only` where the jars are here already."""

from __future__ import annotations

from pathlib import Path

from support.needs import require
from support.run import venturi


def test_jars_that_are_here_are_not_fetched_again(cache_home: Path) -> None:
    require(list((cache_home / "venturi").glob("cassandra-*")), "Cassandra's jars (tools/install-servers)")
    done = venturi("serve", "cassandra", "--fetch-only")
    assert done.returncode == 0, done.stderr
