"""Two processes' parts of one trial against real servers: the lead finds what both have moved."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from clickhouse_support import Server, clickhouse  # noqa: F401 - a fixture
from core_support import spec
from database_support import Database

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

_PATIENCE = 60.0


def _in_two(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The records of the lead, with the first two streams, and of another with the rest."""
    from venturi import _core

    parts = [{"first": 0, "count": 2, "lead": True}, {"first": 2, "count": whole["streams"] - 2}]
    controls = [_core.Control(), _core.Control()]
    records: list[dict[str, Any]] = [{}, {}]

    def run(at: int) -> None:
        text = _core.run_trial(json.dumps({**whole, "share": parts[at]}), controls[at])
        records[at] = json.loads(text)

    threads = [threading.Thread(target=run, args=(at,)) for at in range(2)]
    threads[0].start()
    assert controls[0].wait("planned", _PATIENCE)
    threads[1].start()
    assert all(control.wait("ready", _PATIENCE) for control in controls)
    start = time.time_ns() + 100_000_000
    for control in controls:
        control.start_at(start)
    assert all(control.wait("counted", _PATIENCE) for control in controls)
    controls[0].conclude(controls[1].tallies() or "[]")
    for thread in threads:
        thread.join(_PATIENCE)
    return records


def _verified(whole: dict[str, Any]) -> dict[str, Any]:
    lead, other = _in_two(whole)
    assert lead["error"] is None, lead["error"]
    assert other["error"] is None, other["error"]
    assert other["verification"]["achieved"] == "none"
    assert "verified by the lead" in other["verification"]["note"]
    assert [stream["stream"] for stream in other["streams"]] == list(range(2, whole["streams"]))
    verification: dict[str, Any] = lead["verification"]
    assert verification["achieved"] == "sums"
    return verification


def _upsert(url: str, **more: Any) -> None:
    options = {"table": "venturi_shares", **more.pop("options", {})}
    # Each of five streams writes two of its four batches.
    whole = spec(url, rows=200, streams=5, working_set=2000, options=options, **more)
    verification = _verified(whole)
    assert (verification["rows"], verification["expected_rows"]) == (1000, 1000)


@pytest.mark.parametrize("statement", ["text", "prepared"])
def test_mysql(mariadb: Database, statement: str) -> None:
    _upsert(mariadb.url, options={"statement": statement})
    assert mariadb.run_sql("SHOW TABLES LIKE 'venturi_shares'") == []


def test_postgres(postgres: Database) -> None:
    _upsert(postgres.url, in_flight=2)
    assert postgres.run_sql("SELECT to_regclass('venturi_shares')") == [(None,)]


@pytest.mark.parametrize("write", ["counter", "insert"])
def test_cassandra(cassandra: Database, write: str) -> None:
    _upsert(cassandra.url, in_flight=2, options={"write": write})


def _clickhouse(server: Server, operation: str, **more: Any) -> dict[str, Any]:
    return {
        "trial": "shares",
        "target": server.url,
        "operation": operation,
        "data": {"source": "records", "columns": 3, "values": "random", "seed": 5},
        "rows_per_batch": 1000,
        "rows_per_stream": 10_500,
        "streams": 5,
        "threads": 2,
        **more,
    }


@pytest.mark.parametrize("operation", ["get", "put"])
def test_clickhouse(clickhouse: Server, operation: str) -> None:  # noqa: F811
    verification = _verified(_clickhouse(clickhouse, operation, options={"format": "native"}))
    assert verification["rows"] == verification["expected_rows"] == 52_500
    assert clickhouse.ask("SHOW TABLES") == ""


def test_clickhouse_split_by_ranges(clickhouse: Server) -> None:  # noqa: F811
    data = {"source": "records", "columns": 1, "values": "sequential", "seed": 0}
    options = {"format": "rowbinary", "split": "key"}
    verification = _verified(_clickhouse(clickhouse, "get", data=data, options=options))
    assert verification["rows"] == 52_500
