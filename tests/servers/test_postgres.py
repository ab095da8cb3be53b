"""`postgres://` against a real PostgreSQL: upserts and what goes wrong, types and how streams share rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.core import run_trial
from support.database import Database, postgres_connection
from support.read import ONCE, RECORDS, by_splits, get, good, ran, refused, sums

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
    with postgres_connection(postgres, administrator=False, autocommit=False) as connection:
        connection.execute("SELECT count(*) FROM (SELECT FROM venturi_locked FOR UPDATE) AS rows")
        record = run_trial(postgres.url, rows=1000, options=options, max_errors=100)
    assert record["errors"]["refused"]["batches"] == 10 and record["errors"]["in_doubt"]["batches"] == 0
    assert record["errors"]["kinds"][0]["code"] == "55P03"
    assert record["error"] is None and record["verification"]["achieved"] == "sums"


def test_floats_are_read_back_with_all_digits(postgres: Database, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"k,f,hits\na,{0.1 + 0.2!r},1\n")
    words = ("--target", postgres.url, "--operation", "upsert", "--data", tmp_path / "t.csv", "--key", "k",
             "--add", "hits", "--rows-per-stream", "1", *ONCE)  # fmt: skip
    (line,) = ran(tmp_path / "r", *words, "--init", "SET extra_float_digits = 0")
    assert line["verification"]["read_back"] == 1


def test_without_tls_it_says_so(postgres: Database) -> None:
    error = run_trial(postgres.url.replace("postgres://", "postgres+tls://"), rows=100)["error"]
    assert "without TLS the URL begins with postgres://" in error["message"]


def test_too_many_connections(start_database: Callable[..., Database]) -> None:
    settings = {"max_connections": "8", "superuser_reserved_connections": "3"}
    database = start_database("postgres", settings=settings)
    assert run_trial(database.url, rows=1000, streams=2)["outcome"] == "ok"
    refused = run_trial(database.url, rows=100, streams=9)["error"]["message"]
    assert "53300" in refused and "max_connections" in refused and "--streams" in refused


FORMATS = ("copy", "rows")
TYPES = """CREATE TABLE types (
    id bigint, small smallint, whole integer, ok boolean, f real, d double precision, price numeric(12, 3),
    hundreds numeric(6, -2), any_number numeric, name text, code varchar(9), fixed char(4), raw bytea, u uuid,
    j json, jb jsonb, day date, at_local timestamp, at_utc timestamptz, hour time, spell interval, mood mood,
    list bigint[], words text[], prices numeric(8, 2)[], ref oid)"""
VALUES = """INSERT INTO types SELECT n, n % 300 - 150, -n, n % 2 = 0, n / 3.0, -n / 7.0, n * 1.001 - 5,
    n * 100, CASE WHEN n = 7 THEN 'NaN' ELSE -n * 12345678.000012 ^ 4 END, repeat('ä', n % 5), 'c' || n, 'x',
    decode(lpad(to_hex(n), 8, '0'), 'hex'), gen_random_uuid(), '{"a": 1}', '{"a": [1, 2]}',
    DATE '1969-12-30' + n, TIMESTAMP '1999-12-31 23:59:59.999999' + n * INTERVAL '1 hour',
    TIMESTAMPTZ '2001-02-03 04:05:06+02' - n * INTERVAL '1 microsecond', TIME '23:59:59.5',
    n * INTERVAL '1 month 2 days 3.5 seconds', 'ok', ARRAY[n, NULL, -n], '{}', ARRAY[n * 0.01], n
    FROM generate_series(1, 2000) AS n"""


@pytest.fixture(scope="module")
def types(postgres: Database) -> Iterator[Database]:
    """A table of every type that is read, with a row of nulls."""
    postgres.run_sql("CREATE TYPE mood AS ENUM ('ok', 'bad')")
    postgres.run_sql(TYPES)
    postgres.run_sql(VALUES)
    postgres.run_sql("INSERT INTO types (id) VALUES (NULL)")
    yield postgres
    postgres.run_sql("DROP TABLE types")
    postgres.run_sql("DROP TYPE mood")


@pytest.mark.parametrize("form", FORMATS)
@by_splits(
    {"split": "parts"},
    {"split": "key", "split_by": "id"},
    {"split": "key", "split_by": "day"},
    {"split": "key", "split_by": "at_local"},
    {"split": "key", "split_by": "at_utc"},
    {"split": "hash", "split_by": "name"},
    {"split_by": "u"},
)
def test_every_type_is_shared_by_every_split(types: Database, form: str, split: dict[str, str]) -> None:
    record = good(get(types.url, table="types", streams=3, batch=100, format=form, **split), 2001)
    found = sums(record)
    assert found["id"] == 2000 * 2001 // 2 and found["ok"] == 1000
    assert found["price"] == (1001 * 2001 * 1000 - 5000 * 2000) % 2**64
    if split.get("split") == "parts":
        assert min(stream["rows"] for stream in record["streams"]) > 400


def test_values_of_every_type(types: Database) -> None:
    """Sums of what was decoded are the server's, for the columns that the first eight do not have."""
    texts = "SELECT any_number, jb, j, name, code, raw, hundreds, small FROM types"
    record = good(get(types.url, query=texts, streams=1), 2001)
    assert [one["column"] for one in record["verification"]["sums"]] == [
        "any_number", "jb", "j", "name", "code", "raw", "hundreds", "small",
    ]  # fmt: skip
    others = "SELECT list, words, prices, spell, hour, mood, ref, u, fixed, f, d, day, at_local FROM types"
    good(get(types.url, query=others, streams=1), 2001, "count")


def test_nothing_and_less_than_streams(postgres: Database) -> None:
    none = "SELECT 1::bigint AS n WHERE false"
    for split in ("hash", "key"):
        good(get(postgres.url, query=none, streams=3, split=split, split_by="n"), 0)
        good(get(postgres.url, query="SELECT 5 AS n;", streams=3, split=split, split_by="n"), 1)
    infinite = "SELECT 'infinity'::date AS d, 1 AS n"
    record = get(postgres.url, query=infinite, streams=2, split="key", split_by="d")
    refused(record, "protocol", "column d", "NULLIF(d, 'infinity')")


def test_what_changes_meanwhile_is_not_seen(postgres: Database) -> None:
    """All streams and the count see one state of the table, though rows come and go all the time."""
    postgres.run_sql("DROP TABLE IF EXISTS moving")
    postgres.run_sql("CREATE TABLE moving AS SELECT n FROM generate_series(1, 300000) AS n")
    ended = threading.Event()

    def write() -> None:
        with postgres_connection(postgres, administrator=False) as connection:
            while not ended.is_set():
                connection.execute("INSERT INTO moving SELECT generate_series(1, 100)")
                connection.execute("DELETE FROM moving WHERE ctid IN (SELECT ctid FROM moving LIMIT 10)")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for split in ({"split": "parts"}, {"split": "key", "split_by": "n"}):
            record = get(postgres.url, table="moving", streams=2, **split)
            assert record["error"] is None, record["error"]["message"]
            assert record["verification"]["achieved"] == "sums"
    finally:
        ended.set()
        writer.join()
        postgres.run_sql("DROP TABLE moving")


def test_a_part_of_it_by_the_clock(postgres: Database) -> None:
    query = "SELECT generate_series(1, 100000000) AS n, repeat('x', 100) AS s"
    record = get(postgres.url, query=query, duration_s=0.5, verify="none")
    assert record["error"] is None, record["error"]["message"]
    assert record["counts"]["rows"] > 1000


def test_mistakes_of_gets_are_lines(postgres: Database) -> None:
    def line(kind: str, *parts: str, **choices: Any) -> None:
        refused(get(choices.pop("url", postgres.url), **choices), kind, *parts)

    line("usage", "how shall they share", query="SELECT 1", streams=2)
    line("usage", "no such column", query="SELECT 1 AS a", streams=2, split="hash", split_by="b")
    line("usage", "column a is text", query="SELECT 'x' AS a", streams=2, split="key", split_by="a")
    line("usage", "a query has none", query="SELECT 1", streams=2, split="parts")
    line("usage", "is none", table="pg_tables", streams=2, split="parts")
    line("usage", "is there twice", query="SELECT 1 AS a, 2 AS a")
    line("usage", "column a is point", "a::text", query="SELECT point(1, 2) AS a")
    line("usage", "numeric(20, 2)", query="SELECT 1::money AS a")
    line("usage", "a::text[]", query="SELECT ARRAY[point(1, 2)] AS a")
    line("protocol", "column a", "2 dimensions", query="SELECT ARRAY[[1], [2]] AS a", verify="none")
    line("protocol", "column a: NaN", query="SELECT 'NaN'::numeric(5, 2) AS a", verify="none")
    line("auth", "(28000)", url=postgres.url.replace("venturi@", "nobody@"), query="SELECT 1")
    line("server", "3D000", url=postgres.url.removesuffix("venturi") + "nowhere", query="SELECT 1")
    line("memory", "a row of 1000", query="SELECT repeat('x', 100000) AS a", max_block_bytes=1 << 16)
    rows = "SELECT repeat('x', 10000) AS a FROM generate_series(1, 10)"
    line("memory", "fewer rows per batch", query=rows, max_block_bytes=1 << 16)
    postgres.run_sql("CREATE TABLE IF NOT EXISTS sales (id int)")
    line("usage", "is not Venturi's", data=RECORDS, rows=10, table="sales")
