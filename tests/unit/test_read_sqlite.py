"""Gets from sqlite:// files: its types that values have, how streams share rows, what goes wrong. What all
systems have in common, tests/unit/test_behaviour.py holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.read import by_splits, cancelled, get, good, refused, spec, sums

pytestmark = pytest.mark.usefixtures("core")

ROWS = 5000


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("sqlite") / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE t (id INTEGER, name VARCHAR(9), f REAL, raw BLOB, n NUMERIC, day DATE)"
        )
        rows = [
            (i, f"ä{i}", i / 3, bytes([i % 256] * (i % 4)), i if i % 2 else i / 2, f"2026-01-{i % 28 + 1:02}")
            for i in range(ROWS)
        ]
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO t (id) VALUES (NULL)")
        connection.execute("CREATE TABLE wide (v BIGINT)")
        connection.executemany("INSERT INTO wide VALUES (?)", [(2**63 - 1 - i,) for i in range(1000)])
        connection.execute("CREATE TABLE keyed (k INT PRIMARY KEY) WITHOUT ROWID")
        connection.execute("INSERT INTO keyed VALUES (1)")
        connection.execute("CREATE TABLE mixed (v INTEGER)")
        connection.executemany("INSERT INTO mixed VALUES (?)", [(1,), ("two",)])
        connection.commit()
    yield f"sqlite://{path}"


def test_texts_of_a_file_in_utf_16(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute("CREATE TABLE t (id INTEGER, name TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(i, f"ä{i}") for i in range(100)])
        connection.commit()
    good(get(f"sqlite://{tmp_path}/x.db", table="t"), 100, "sums")


@by_splits(
    {"split": "parts"},
    {"split": "key", "split_by": "id"},
    {"split": "hash", "split_by": "name"},
    {"split_by": "id"},
    {"split": "none"},
)
def test_every_type_is_shared_by_every_split(file: str, split: dict[str, str]) -> None:
    times = 3 if split.get("split") == "none" else 1
    record = good(get(file, table="t", streams=3, batch=700, **split), times * (ROWS + 1))
    found = sums(record)
    assert found["id"] == times * sum(range(ROWS))
    assert found["name"] == times * sum(len(f"ä{i}".encode()) for i in range(ROWS))
    assert found["day"] == times * ROWS * 10 and list(found) == ["id", "name", "raw", "day"]
    if split.get("split") == "parts":
        assert min(stream["rows"] for stream in record["streams"]) > ROWS / 4


def test_sums_of_more_than_64_bits(file: str) -> None:
    record = good(get(file, table="wide"), 1000)
    assert sums(record)["v"] == sum(2**63 - 1 - i for i in range(1000)) % 2**64


def test_expressions_are_what_their_first_value_is(file: str) -> None:
    query = (
        "SELECT id + 1 AS a, upper(name) AS b, f * 2 AS c, NULL AS d, x'00' AS e FROM t WHERE id IS NOT NULL"
    )
    assert list(sums(good(get(file, query=query), ROWS))) == ["a", "b", "d", "e"]
    good(get(file, query="SELECT 1 AS a WHERE 0"), 0)


def test_mistakes_are_lines(file: str, tmp_path: Path) -> None:
    refused(
        get(file, table="mixed"),
        "protocol",
        "column v holds a text where it is read as Int64",
        "CAST(v AS TEXT)",
    )
    refused(get(file, table="keyed", streams=2, split="parts"), "usage", "goes by rowid", "split key or hash")
    refused(
        get(file, table="t", streams=2, split="key", split_by="name"), "usage", "column name is VARCHAR(9)"
    )
    assert get(f"sqlite://{tmp_path}/none.db", table="t")["error"] is not None
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no database" * 100)
    refused(get(f"sqlite://{tmp_path}/text.db", table="t"), "usage", "NOTADB")


def test_it_stops_in_the_midst(file: str) -> None:
    """The library is asked within a statement too that gives no rows; the behaviour `cancelled` holds the
    rest."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    silent = f"SELECT count(*) AS c FROM ({endless})"
    assert cancelled(spec(file, query=silent, verify="none"))["outcome"] == "interrupted"
