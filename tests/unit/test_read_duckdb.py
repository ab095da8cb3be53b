"""Gets from duckdb:// files: every type against what DuckDB says itself, how streams share rows, mistakes.
What all systems have in common, tests/unit/test_behaviour.py holds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from support import read as read_support
from support.read import by_splits, cancelled, good, refused, sums
from support.run import DATA
from venturi.servers.local import duckdb_library

pytestmark = pytest.mark.usefixtures("core")

ROWS = 5000
"""Of the table of all types."""


def get(url: str, **choices: Any) -> dict[str, Any]:
    return read_support.get(url, library=duckdb_library(), **choices)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("duckdb") / "x.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute((DATA / "types.duckdb.sql").read_text())
    return path


@pytest.fixture(scope="module")
def file(path: Path) -> Iterator[str]:
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
def test_every_type_is_shared_by_every_split(file: str, split: dict[str, str]) -> None:
    times = 3 if split.get("split") == "none" else 1
    record = good(get(file, table="t", streams=3, batch=700, **split), times * (ROWS + 1))
    found = sums(record)
    assert found["id"] == times * sum(range(ROWS))
    assert found["n64"] == times * sum(2**64 - 1 - i for i in range(ROWS)) % 2**64
    assert found["huge"] == times * sum(range(ROWS)) * 10**21 % 2**64
    assert len(found) == 8
    if split.get("split") != "none" and split.get("split_by") != "name":
        assert min(stream["rows"] for stream in record["streams"]) > ROWS / 4


def test_sums_of_the_other_columns(file: str, path: Path) -> None:
    query = "SELECT d4, d9, d18, d30, name, raw, mood, j FROM t"
    found = sums(good(get(file, query=query, batch=999), ROWS + 1))
    with duckdb.connect(str(path), read_only=True) as database:
        wanted = database.execute(
            "SELECT sum(d4), sum(d9) * 100, sum(d18) * 1000, sum(d30) * 10000, sum(strlen(name)), "
            "sum(octet_length(raw)), sum(strlen(mood::VARCHAR)), sum(strlen(j)) FROM t"
        ).fetchall()[0]
    assert list(found.values()) == [int(sum_) % 2**64 for sum_ in wanted]


def test_mistakes_are_lines(file: str, tmp_path: Path) -> None:
    refused(get(file, query="SELECT '101'::BIT AS bits"), "usage", "column bits is BIT", "bits::VARCHAR")
    refused(get(file, query="SELECT [{'a': '1'::BIT}] AS m"), "usage", "column m is of others")
    good(get(file, query="SELECT 1 AS a, 2 AS a"), 1)
    refused(get(file, table="seen", streams=2, split="parts"), "usage", "goes by rowid", "split key or hash")
    refused(get(file, table="t", streams=2, split="key", split_by="name"), "usage", "column name is VARCHAR")
    refused(
        get(file, query="SELECT d FROM ends"), "protocol", "a date without an end", "NULLIF(d, 'infinity')"
    )
    refused(get(file, query="SELECT s FROM ends"), "protocol", "a timestamp without an end")
    good(get(file, query="SELECT NULLIF(d, 'infinity') AS d FROM ends"), 3, "count")
    wide = "SELECT -170141183460469231731687303715884105727::HUGEINT AS h"
    refused(get(file, query=wide), "protocol", "column h: -1701411", "no Decimal128(38, 0)")
    far = "SELECT INTERVAL '3000000 hours' AS h"
    refused(get(file, query=far), "protocol", "column h: a time so far away")
    refused(get(file, query="SELECT repeat('x', 200000) FROM range(9)", max_block_bytes=1 << 20), "memory")
    refused(get(f"duckdb://{tmp_path}/none.duckdb", table="t"), "usage", "no such file", "a get")
    assert not (tmp_path / "none.duckdb").exists()
    (tmp_path / "text.db").write_text("no database" * 100)
    refused(get(f"duckdb://{tmp_path}/text.db", table="t"), "usage", "valid DuckDB")


def test_a_file_that_others_read_is_read(file: str, path: Path) -> None:
    held = subprocess.Popen(
        [sys.executable, "-c", f"import duckdb, sys; c = duckdb.connect({str(path)!r}, read_only=True); "
         "print('open', flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert held.stdout is not None and held.stdout.readline() == "open\n"
        good(get(file, table="seen"), ROWS + 1)
    finally:
        held.communicate("")


def test_it_stops_in_the_midst(file: str) -> None:
    """The library is told within a statement too that gives no rows, and while rows are counted; the
    behaviour `cancelled` holds the rest."""
    endless = "SELECT i FROM range(9000000000000000) AS r(i)"
    for query, verify in ((f"SELECT i FROM ({endless}) WHERE i < 0", "none"), (endless, "count")):
        silent = read_support.spec(file, query=query, verify=verify, library=duckdb_library())
        assert cancelled(silent)["outcome"] == "interrupted"
