"""Gets from sqlite:// and duckdb:// files: types, how streams share rows, what goes wrong. What all systems
have in common, tests/unit/test_behaviour.py holds."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support import read as read_support
from support.mistakes import check
from support.read import by_splits, cancelled, get, good, refused, spec, sums
from support.run import DATA
from venturi.servers.local import duckdb_library

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


def test_it_stops_in_the_midst(file: str) -> None:
    """The library is asked within a statement too that gives no rows; the behaviour `cancelled` holds the
    rest."""
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    silent = f"SELECT count(*) AS c FROM ({endless})"
    assert cancelled(spec(file, query=silent, verify="none"))["outcome"] == "interrupted"


# ---- duckdb


@pytest.mark.parametrize("system", ["sqlite", "duckdb"])
def test_mistakes_are_lines(system: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    read = get if system == "sqlite" else get_duckdb
    url: str = request.getfixturevalue("file" if system == "sqlite" else "duckdb_file")

    def answer(text: str) -> str:
        record = read(url, **tomllib.loads(text))
        if record["error"] is None:
            return f"{record['counts']['rows']} rows"
        assert record["outcome"] == "failed"
        message = record["error"]["message"].replace(url.partition("://")[2], "FILE")
        return f"{record['error']['kind']}: {message}"

    check(f"read-{system}", answer)
    kind = "unreachable" if system == "sqlite" else "usage"
    refused(read(f"{system}://{tmp_path}/none.db", table="t"), kind, "no such file")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("no database" * 100)
    said = "NOTADB" if system == "sqlite" else "valid DuckDB"
    refused(read(f"{system}://{tmp_path}/text.db", table="t"), "usage", said)


def get_duckdb(url: str, **choices: Any) -> dict[str, Any]:
    return read_support.get(url, library=duckdb_library(), **choices)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duckdb") / "x.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute((DATA / "types.duckdb.sql").read_text())
    return path


@pytest.fixture(scope="module")
def duckdb_file(path: Path) -> Iterator[str]:
    yield f"duckdb://{path}"


@by_splits(
    {"split": "parts"},
    {"split": "key", "split_by": "id"},
    {"split": "key", "split_by": "day"},
    {"split": "key", "split_by": "us"},
    {"split": "hash", "split_by": "name"},
    {"split_by": "u"},
    {"split": "none"},
)
def test_every_type_of_duckdb_is_shared_by_every_split(duckdb_file: str, split: dict[str, str]) -> None:
    times = 3 if split.get("split") == "none" else 1
    record = good(get_duckdb(duckdb_file, table="t", streams=3, batch=700, **split), times * (ROWS + 1))
    found = sums(record)
    assert found["id"] == times * sum(range(ROWS))
    assert found["n64"] == times * sum(2**64 - 1 - i for i in range(ROWS)) % 2**64
    assert found["huge"] == times * sum(range(ROWS)) * 10**21 % 2**64
    assert len(found) == 8
    if split.get("split") != "none" and split.get("split_by") != "name":
        assert min(stream["rows"] for stream in record["streams"]) > ROWS / 4


def test_sums_of_the_other_columns(duckdb_file: str, path: Path) -> None:
    query = "SELECT d4, d9, d18, d30, name, raw, mood, j FROM t"
    found = sums(good(get_duckdb(duckdb_file, query=query, batch=999), ROWS + 1))
    with duckdb.connect(str(path), read_only=True) as database:
        wanted = database.execute(
            "SELECT sum(d4), sum(d9) * 100, sum(d18) * 1000, sum(d30) * 10000, sum(strlen(name)), "
            "sum(octet_length(raw)), sum(strlen(mood::VARCHAR)), sum(strlen(j)) FROM t"
        ).fetchall()[0]
    assert list(found.values()) == [int(sum_) % 2**64 for sum_ in wanted]


def test_a_file_that_others_read_is_read(duckdb_file: str, path: Path) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", f"import duckdb, sys; c = duckdb.connect({str(path)!r}, read_only=True); "
         "print('open', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert held.stdout is not None and held.stdout.readline() == "open\n"
        good(get_duckdb(duckdb_file, table="seen"), ROWS + 1)
    finally:
        held.communicate("")


def test_duckdb_stops_in_the_midst(duckdb_file: str) -> None:
    """The library is told within a statement too that gives no rows, and while rows are counted; the
    behaviour `cancelled` holds the rest."""
    endless = "SELECT i FROM range(9000000000000000) AS r(i)"
    for query, verify in ((f"SELECT i FROM ({endless}) WHERE i < 0", "none"), (endless, "count")):
        silent = read_support.spec(duckdb_file, query=query, verify=verify, library=duckdb_library())
        assert cancelled(silent)["outcome"] == "interrupted"
