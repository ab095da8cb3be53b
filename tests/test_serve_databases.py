"""Throw-away databases: they start, answer, and leave nothing behind."""

from __future__ import annotations

import pytest

from database_support import Database

pytestmark = pytest.mark.slow


def test_mariadb_answers(mariadb: Database) -> None:
    assert mariadb.run_sql("SELECT 1 + 1") == [(2,)]
    assert mariadb.run_as_administrator("SELECT @@innodb_flush_log_at_trx_commit") == [(1,)]


def test_cassandra_answers(cassandra: Database) -> None:
    assert cassandra.run_sql("SELECT release_version FROM system.local") == [("5.0.9",)]
