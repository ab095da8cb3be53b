"""adbc:// through PostgreSQL's driver, against a real PostgreSQL."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from test_postgres import types

from support.adbc import URI, trial
from support.database import Database
from support.read import RECORDS, good, refused, sums

pytestmark = pytest.mark.usefixtures("core")
__all__ = ["types"]


@pytest.fixture
def postgres_uri(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> str:
    """The variable in which a driver finds its URI, password included."""
    login = f"venturi:{quote(postgres.password)}" if postgres.password else "venturi"
    monkeypatch.setenv(URI, f"postgresql://{login}@127.0.0.1:{postgres.port}/venturi")
    return URI


def test_types_of_postgres(types: Database, postgres_uri: str) -> None:
    uri = {"driver_option_env": {"uri": postgres_uri}}
    whole = good(trial("postgresql", table="types", **uri), 2001)
    assert sums(whole)["id"] == 2000 * 2001 // 2 and sums(whole)["ok"] == 1000
    assert whole["target"]["software"].startswith("PostgreSQL ")
    for split in ({"split": "key", "split_by": "day"}, {"split_by": "name"}, {"split_by": "u"}):
        good(trial("postgresql", table="types", streams=3, batch=100, **split, **uri), 2001)


def test_a_put_is_counted_and_read_back(postgres: Database, postgres_uri: str) -> None:
    options = {"driver_option_env": {"uri": postgres_uri}}
    record = trial("postgresql", operation="put", data=RECORDS, rows=20_000, streams=3, **options)
    good(record, 60_000, "checksum")
    assert postgres.run_sql("SELECT to_regclass('venturi_put')") == [(None,)]


def test_a_query_that_fails_in_the_middle(postgres_uri: str) -> None:
    query = "SELECT 1000 / (150000 - n) AS n FROM generate_series(1, 200000) AS n"
    record = trial("postgresql", query=query, verify="count", driver_option_env={"uri": postgres_uri})
    refused(record, "server", "division by zero")


def test_wrong_credentials_are_told_without_them(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URI, f"postgresql://somebody:hush%2Dhush@127.0.0.1:{postgres.port}/nowhere")
    message = refused(
        trial("postgresql", table="t", driver_option_env={"uri": URI}),
        "auth", "postgresql: open", "somebody",
    )  # fmt: skip
    assert "hush" not in message
    # Not a URI at all: libpq repeats it.
    monkeypatch.setenv(URI, "postgresql//somebody:hush-hush@127.0.0.1")
    message = refused(trial("postgresql", table="t", driver_option_env={"uri": URI}), "unreachable", "***")
    assert "hush" not in message
    monkeypatch.setenv(URI, "postgresql://somebody@127.0.0.1:1/x")
    refused(trial("postgresql", table="t", driver_option_env={"uri": URI}), "unreachable", "refused")
