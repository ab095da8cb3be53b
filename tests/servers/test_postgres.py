"""postgres:// against a real PostgreSQL, straight through the core."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.core import run_trial
from support.database import Database
from support.read import file_of

pytestmark = pytest.mark.usefixtures("core")

WAYS: list[dict[str, Any]] = [{}, {"statement": "text"}, {"method": "copy"}]


def test_a_users_table_of_every_type(postgres: Database, tmp_path: Path) -> None:
    import datetime as dt
    import decimal

    when = dt.datetime(2026, 2, 28, 23, 59, 59, 123456)
    table = pa.table(
        {
            "id": pa.array([1, 2, 1, 3], pa.int32()),
            "name": pa.array(["it's", None, "ünï", "\\x"], pa.string()),
            "seen": pa.array([when] * 4, pa.timestamp("us", "UTC")),
            "face": pa.array([when] * 4, pa.timestamp("ns")),
            "day": pa.array([dt.date(1969, 12, 31)] * 4),
            "price": pa.array(
                [decimal.Decimal("-12345.678"), decimal.Decimal("0.001")] * 2, pa.decimal128(12, 3)
            ),
            "ratio": pa.array([0.1, -2.5e300, 3.0, None], pa.float64()),
            "raw": pa.array([b"\x00\xff", b"", b"'", None], pa.binary()),
            "ok": pa.array([True, False, None, True]),
            "large": pa.array([2**63, 1, 5, 0], pa.uint64()),
        }
    )
    data = file_of(tmp_path / "x.arrow", table)
    answers = []
    for at, way in enumerate(WAYS):
        options = {"table": f"venturi_types_{at}", "keep": True, **way}
        record = run_trial(
            postgres.url,
            rows=4,
            rows_per_batch=4,
            options=options,
            data=data,
            upsert={"key": ["id"], "add": ["large"]},
        )
        assert record["error"] is None, record["error"]
        assert "1 rows of the file" in record["verification"]["note"]
        answers.append(postgres.run_sql(f"SELECT * FROM venturi_types_{at} ORDER BY id"))
    assert answers[0] == answers[1] == answers[2]
    first, second, third = answers[0]
    assert (first[1], first[9]) == ("ünï", decimal.Decimal(2**63 + 5))
    assert second[2] == when.replace(tzinfo=dt.UTC) and second[3] == when
    assert (second[5], bytes(second[7]), third[8]) == (decimal.Decimal("0.001"), b"", True)


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
