"""`cassandra://` against a real server: what is written is there, once; what cannot be gets one line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import core
from support.database import PASSWORD_ENV, Database, skewed
from support.holding import while_held
from support.read import file_of, refused

pytestmark = pytest.mark.usefixtures("core")


def trial(database: Database, table: str, **given: Any) -> dict[str, Any]:
    """The spec of a trial into `table`: 2,000 rows of usage by each of two streams, unless told."""
    options = {"table": table, "password_env": PASSWORD_ENV, **given.pop("options", {})}
    options = {name: value for name, value in options.items() if value is not None}
    usual = {"rows": 2000, "rows_per_batch": 200, "streams": 2, "working_set": 10_000}
    return core.spec(given.pop("target", database.url), options=options, **{**usual, **given})


def upsert(database: Database, table: str, **given: Any) -> dict[str, Any]:
    """The record of such a trial."""
    return core.run(trial(database, table, **given))


def passed(record: dict[str, Any]) -> dict[str, Any]:
    assert record["outcome"] == "ok", record["error"]
    assert record["errors"] is None
    verification: dict[str, Any] = record["verification"]
    assert verification["achieved"] == "sums"
    for column in verification["sums"]:
        assert column["expected"] == column["found"]
        assert column["in_doubt"] == "0"
    return verification


@pytest.mark.parametrize("write", ["insert", "counter"])
@pytest.mark.parametrize("statement", ["prepared", "text"])
def test_a_shorter_last_batch_as_one_statement(
    cassandra: Database, write: str, statement: str, tmp_path: Path
) -> None:
    rows = pa.table({"id": pa.array(range(50), pa.int32()), "sold": pa.array(range(50), pa.int64())})
    given: dict[str, Any] = {
        "data": file_of(tmp_path / "table.arrow", rows),
        "upsert": {"key": ["id"], "add": ["sold"]},
        "options": {"write": write, "statement": statement, "batch_form": "statement"},
        **{"rows": 60, "rows_per_batch": 20, "streams": 1},
    }
    verification = passed(upsert(cassandra, "venturi_whole", **given))
    assert verification["rows"] == 50
    assert int(verification["sums"][0]["found"]) == sum(range(50))


def test_one_statement_has_so_many_values(cassandra: Database) -> None:
    options = {"batch_form": "statement"}
    record = upsert(cassandra, "venturi_wide", options=options, rows_per_batch=10_000, rows=10_000)
    said = "binds 70000 values to one statement, which takes 65535"
    refused(record, "usage", said, "--rows-per-batch 9362 or less")


@pytest.mark.parametrize(("form", "in_flight"), [("message", 1), ("statement", 1), ("message", 8)])
def test_a_statement_that_the_server_forgets(cassandra: Database, form: str, in_flight: int) -> None:
    table = f"venturi_forgot_{form}_{in_flight}"
    options = {"batch_form": form, "write": "insert", "keep": True}
    asked = trial(cassandra, table, options=options, rows=10_000, in_flight=in_flight)
    # Whatever was prepared for the table before is gone.
    forget = f"ALTER TABLE venturi.{table} ADD more int"
    record = while_held(asked, lambda *_: cassandra.run_sql(forget))
    assert passed(record)["rows"] > 0


def test_one_by_one_needs_batches_of_one_row(cassandra: Database) -> None:
    refused(upsert(cassandra, "venturi_x", options={"batch": "none"}), "usage", "--in-flight")


def test_a_wrong_init_statement(cassandra: Database) -> None:
    record = upsert(cassandra, "venturi_options", options={"init": ["SELECT nonsense"]})
    refused(record, "server", "init")


def test_a_foreign_keyspace_is_left_alone(cassandra: Database) -> None:
    own = "WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
    cassandra.run_sql(f"CREATE KEYSPACE IF NOT EXISTS orders {own}")
    target = cassandra.url.removesuffix("venturi") + "orders"
    passed(upsert(cassandra, "venturi_t", target=target))
    record = upsert(cassandra, "venturi_t", target=target, options={"replication": 3})
    refused(record, "usage", "keyspace orders exists already")


def test_more_replicas_than_nodes(cassandra: Database) -> None:
    target = cassandra.url.removesuffix("venturi") + "venturi_copies"
    options = {"replication": 3, "consistency": "quorum"}
    record = upsert(cassandra, "venturi_t", target=target, options=options)
    refused(record, "server", "QUORUM needs 2 replicas, and 1 are up")
    # A batch of several partitions may have been applied to those that had their replicas.
    assert record["errors"]["refused"]["batches"] == 0
    assert record["errors"]["in_doubt"]["batches"] in (1, 2)
    assert record["errors"]["kinds"][0]["code"] == "0x1000"
    # A budget for errors: all are counted, none is applied, and none is missed.
    options |= {"write": "insert", "batch": "logged"}
    record = upsert(cassandra, "venturi_t", target=target, options=options, max_errors=100, retries=1)
    assert record["outcome"] == "ok", record["error"]
    assert record["errors"]["refused"] == {"batches": 20, "rows": 4000}
    assert record["errors"]["in_doubt"]["batches"] == 0
    assert record["errors"]["retries"] == 20
    assert record["verification"]["rows"] == 0
    assert "not all replicas are up" in record["verification"]["note"]
    passed(upsert(cassandra, "venturi_t", target=target))


def test_a_table_of_the_users_own(cassandra: Database, tmp_path: Path) -> None:
    n = 50
    table = pa.table(
        {
            "id": pa.array(range(n), pa.int32()),
            "kind": pa.array([f"k'{i % 3}" for i in range(n)]).dictionary_encode(),
            "sold": pa.array([i * 3 - 50 for i in range(n)], pa.int16()),
            "price": pa.array([Decimal(i) / 4 - 3 for i in range(n)], pa.decimal128(12, 2)),
            "weight": pa.array([None if i % 7 == 0 else i / 8 for i in range(n)], pa.float64()),
            "day": pa.array([i * 100 - 500 for i in range(n)], pa.int32()).cast(pa.date32()),
            "at": pa.array([1_790_000_000_000 + i for i in range(n)], pa.timestamp("ms")),
            "seen": pa.array([i % 2 == 0 for i in range(n)]),
            "raw": pa.array([bytes([i, 255]) for i in range(n)]),
        }
    )
    given: dict[str, Any] = {
        "data": file_of(tmp_path / "table.arrow", table),
        "upsert": {"key": ["id", "kind"], "add": ["sold"]},
        **{"rows": 60, "rows_per_batch": 20, "streams": 1},
    }
    options: dict[str, Any] = {"write": "insert", "keep": True, "partition_key": 1}
    columns = ", ".join(table.column_names)
    for statement in ("prepared", "text"):
        record = upsert(cassandra, "venturi_own", **given, options={**options, "statement": statement})
        passed(record)
        found = cassandra.run_sql(f"SELECT {columns} FROM venturi.venturi_own")
        expected = [tuple(row.values()) for row in table.to_pylist()]
        shown = [(*row[:5], row[5].date(), *row[6:]) for row in found]
        assert sorted(shown) == sorted(expected)
    refused(upsert(cassandra, "venturi_own", **given), "usage", "write = insert")
    given["upsert"] = {"key": ["id", "kind"], "add": ["sold"]}
    given["data"] = file_of(tmp_path / "table.arrow", table.select(["id", "kind", "sold"]))
    verification = passed(upsert(cassandra, "venturi_own", **given))
    # Three batches of 20, 20 and 10 rows, each of them once.
    assert verification["rows"] == n
    assert int(verification["sums"][0]["found"]) == sum(table["sold"].to_pylist())


@pytest.mark.parametrize(("offset", "where"), [("-90s", "ahead"), ("+90s", "behind")])
def test_a_clock_that_is_wrong(cassandra: Database, offset: str, where: str) -> None:
    """Of this machine, as it seems: Java does not run with the clock of libfaketime."""
    spec = trial(cassandra, "venturi_clock")
    run = "import sys; from venturi import _core; print(_core.run_trial(sys.argv[1], _core.Control()))"
    done = subprocess.run(
        [sys.executable, "-c", run, json.dumps(spec)],
        env={**os.environ, **skewed(offset)},
        capture_output=True,
        text=True,
        check=True,
    )
    note = passed(json.loads(done.stdout))["note"]
    seconds = re.search(rf"the server's clock is (\S+) s {where}", note)
    assert seconds, note
    assert float(seconds[1]) == pytest.approx(90, abs=30)
    assert "set the clocks (NTP)" in note


def test_rights(cassandra: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_PASSWORD", "clerk")
    cassandra.run_sql("CREATE ROLE IF NOT EXISTS clerk WITH PASSWORD = 'clerk' AND LOGIN = true")
    nobody = f"cassandra://127.0.0.1:{cassandra.port}/"
    for login, said in (
        ({"user": "clerk", "password_env": "CLERK_PASSWORD"}, "clerk has no CREATE permission"),
        ({"password_env": None}, "wants a user and a password"),
    ):
        refused(upsert(cassandra, "venturi_rights", target=nobody, options=login), "auth", said)


def test_a_batch_over_the_limit_is_explained(cassandra: Database) -> None:
    def of(rows: int, statement: str = "prepared", form: str = "message") -> dict[str, Any]:
        options = {"statement": statement, "batch_form": form}
        return upsert(cassandra, "venturi_limit", options=options, rows_per_batch=rows)

    for statement, form in (("prepared", "message"), ("text", "message"), ("prepared", "statement")):
        message = refused(of(2000, statement, form), "server", "batch_size_fail_threshold is 64KiB")
        largest = int(message.partition(" rows fit")[0].split()[-1])
        assert 500 < largest < 800
        assert f"--rows-per-batch {largest} or less" in message
    # It is the largest, to the row.
    record = of(largest)
    verification = passed(record)
    assert "exceeding specified threshold of 5120" in verification["note"]
    assert record["counts"]["rows"] == verification["rows"]
    refused(of(largest + 1), "server", "too large")
    passed(of(largest, "prepared", "statement"))
    # Of one text no part can be taken, so what fits is not looked for.
    refused(of(2000, "text", "statement"), "server", "take fewer --rows-per-batch")
    # Nothing of all that was tried is left.
    tables = cassandra.run_sql("SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'venturi'")
    assert ("venturi_limit",) not in tables
    # One partition has no limit.
    passed(upsert(cassandra, "venturi_one", options={"partition_key": 1}, rows_per_batch=2000))
