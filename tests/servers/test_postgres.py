"""postgres:// against a real PostgreSQL, straight through the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.core import run_trial
from support.database import Database

pytestmark = pytest.mark.usefixtures("core")


def test_mistakes_and_refusals_are_lines(postgres: Database) -> None:
    def line(url: str = postgres.url, **choices: Any) -> str:
        message: str = run_trial(url, rows=100, **choices)["error"]["message"]
        return message

    assert "(28000)" in line(postgres.url.replace("venturi@", "nobody@"))
    assert "(25006)" in line(options={"init": ["SET default_transaction_read_only = on"]})
    assert "take more streams" in line(in_flight=2, options={"method": "copy"})
    assert "syntax error" in line(options={"init": ["SELEC 1"]})
    postgres.run_sql("CREATE TABLE IF NOT EXISTS sales (id int)")
    assert "does not exist" in line(options={"table": "sales", "setup": False})


def test_locked_rows_refuse_batches_and_no_more(postgres: Database) -> None:
    options: dict[str, Any] = {"table": "venturi_locked", "keep": True}
    assert run_trial(postgres.url, rows=1000, options=options)["error"] is None
    options |= {"setup": False, "init": ["SET lock_timeout = '1ms'"]}
    with postgres.transaction("SELECT count(*) FROM (SELECT FROM venturi_locked FOR UPDATE) AS rows"):
        record = run_trial(postgres.url, rows=1000, options=options, max_errors=100)
    assert record["errors"]["refused"]["batches"] == 10 and record["errors"]["in_doubt"]["batches"] == 0
    assert record["errors"]["kinds"][0]["code"] == "55P03"
    assert record["error"] is None and record["verification"]["achieved"] == "sums"


def test_without_tls_it_says_so(postgres: Database) -> None:
    error = run_trial(postgres.url.replace("postgres://", "postgres+tls://"), rows=100)["error"]
    assert "without TLS the URL begins with postgres://" in error["message"]


def test_too_many_connections(start_database: Callable[..., Database]) -> None:
    settings = {"max_connections": "8", "superuser_reserved_connections": "3"}
    database = start_database("postgres", settings=settings)
    assert run_trial(database.url, rows=1000, streams=2)["outcome"] == "ok"
    refused = run_trial(database.url, rows=100, streams=9)["error"]["message"]
    assert "53300" in refused and "max_connections" in refused and "--streams" in refused
