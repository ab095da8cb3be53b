"""Gets from cassandra://: every type, pages and parts of the ring, our own rows by their digest, mistakes."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from support import read
from support.database import PASSWORD_ENV, Database
from support.holding import while_held
from support.read import good, refused, sums

pytestmark = pytest.mark.usefixtures("core")
get = partial(read.get, password_env=PASSWORD_ENV)

ROWS = 3000
TYPES = {
    "id": "int", "b": "boolean", "i8": "tinyint", "i16": "smallint", "i64": "bigint", "f": "float",
    "d": "double", "name": "text", "letters": "ascii", "raw": "blob", "v": "varint", "n": "decimal",
    "u": "uuid", "tu": "timeuuid", "ip": "inet", "day": "date", "at": "time", "ts": "timestamp",
    "every": "duration", "l": "list<int>", "s": "set<text>", "ll": "list<frozen<list<bigint>>>",
}  # fmt: skip


def row(i: int) -> dict[str, Any]:
    from cassandra.util import Date, Duration, Time, uuid_from_time

    return {
        "id": i, "b": i % 2 == 0, "i8": i % 100, "i16": -i, "i64": 2**62 + i, "f": i / 4, "d": i / 3,
        "name": "ü" * (i % 30) if i % 5 else None, "letters": "x", "raw": bytes([i % 256] * (i % 7)),
        "v": -(7**60) * i, "n": Decimal(i) / 1000, "u": uuid.UUID(int=i), "tu": uuid_from_time(i),
        "ip": "::1" if i % 2 else "10.0.0.1", "day": Date(i - 100), "at": Time(i),
        "ts": dt.datetime(1969, 12, 31) + dt.timedelta(milliseconds=i), "every": Duration(-i, -i, -i),
        "l": [i, -i] if i % 3 else None, "s": {"a", str(i)}, "ll": [[i], []],
    }  # fmt: skip


@pytest.fixture(scope="module")
def keyspace(cassandra: Database) -> Iterator[Any]:
    """A session in the keyspace `gets`, which has the tables."""
    from cassandra.concurrent import execute_concurrent_with_args

    with cassandra.cluster() as cluster:
        session = cluster.connect()
        session.default_timeout = 60
        session.execute("DROP KEYSPACE IF EXISTS gets")
        session.execute(
            "CREATE KEYSPACE gets WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
        )
        session.set_keyspace("gets")
        columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        session.execute(f"CREATE TABLE t ({columns}, PRIMARY KEY (id))")
        session.execute("CREATE TYPE place (x int, y text)")
        session.execute(
            "CREATE TABLE wide (a text, b int, c int, m map<int, frozen<place>>, pair tuple<int, text>, "
            "PRIMARY KEY ((a, b), c))"
        )
        session.execute("CREATE TABLE vectors (k int PRIMARY KEY, v vector<float, 3>)")
        session.execute("INSERT INTO vectors (k, v) VALUES (1, [1, 2, 3])")
        session.execute("CREATE TABLE hits (k int PRIMARY KEY, n counter)")
        names = ", ".join(TYPES)
        insert = session.prepare(f"INSERT INTO t ({names}) VALUES ({', '.join('?' * len(TYPES))})")
        rows = [tuple(row(i).values()) for i in range(ROWS)]
        execute_concurrent_with_args(session, insert, rows, concurrency=100)
        # Nothing but its key; and what CQL calls empty.
        session.execute(f"INSERT INTO t (id) VALUES ({ROWS})")
        session.execute(f"INSERT INTO t (id, i64) VALUES ({ROWS + 1}, blobAsBigint(0x))")
        wide = session.prepare(
            "INSERT INTO wide (a, b, c, m, pair) VALUES (?, ?, ?, {1: {x: 7, y: 'why'}, 2: {x: 8}}, (1, 'x'))"
        )
        keys = [(f"Ö{i % 3}", i % 7, i) for i in range(1000)]
        execute_concurrent_with_args(session, wide, keys, concurrency=100)
        for i in range(100):
            session.execute("UPDATE hits SET n = n + 5 WHERE k = %s", (i,))
        yield session


@pytest.fixture
def url(cassandra: Database, keyspace: Any) -> str:
    return f"cassandra://venturi@127.0.0.1:{cassandra.port}/gets"


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("page_size", [None, 7])
def test_every_type_and_every_page(url: str, streams: int, page_size: int | None) -> None:
    options = {"split": "parts", **({} if page_size is None else {"page_size": page_size})}
    record = good(get(url, table="t", streams=streams, batch=500, **options), ROWS + 2)
    found = sums(record)
    assert list(found) == ["id", "i16", "i64", "i8"]
    assert found["id"] == sum(range(ROWS + 2))
    assert found["i64"] == sum(2**62 + i for i in range(ROWS)) % 2**64
    assert record["target"]["protocol"] == "cql" and record["target"]["software"].startswith("Cassandra")
    assert {"send", "receive", "decode", "verify"} <= set(record["stages"]["client"])
    assert record["counts"]["wire_bytes"] > (ROWS + 2) * 100
    if streams > 1:
        assert min(stream["rows"] for stream in record["streams"]) > ROWS / 5


@pytest.mark.parametrize("compression", ["lz4", "snappy"])
def test_compressed_pages(url: str, compression: str) -> None:
    plain = good(get(url, table="t"), ROWS + 2)
    record = good(get(url, table="t", compression=compression), ROWS + 2)
    assert record["counts"]["wire_bytes"] < plain["counts"]["wire_bytes"]


def test_keys_of_several_columns_and_counters(url: str) -> None:
    query = "SELECT a, b, c FROM wide WHERE token(a, b) >= ? AND token(a, b) <= ?"
    good(get(url, query=query, streams=2, split="parts"), 1000, "count")
    good(get(url, query=query, streams=2, split="none"), 2000, "count")
    good(get(url, query="SELECT b, c FROM wide WHERE a = 'Ö1' AND b = 1"), 48, "count")
    good(get(url, table="hits", streams=2, split="parts"), 100, "sums")
    good(get(url, query="SELECT id FROM t WHERE id = -1"), 0, "count")
    good(get(url, table="wide", streams=2, split="parts"), 1000)
    good(get(url, query="SELECT toJson(m) AS m, c FROM wide"), 1000, "count")
    good(get(url, query="SELECT toJson(v) AS v FROM vectors"), 1, "count")


def test_mistakes_are_lines(url: str) -> None:
    refused(get(url.replace("/gets", "/nowhere"), query="SELECT a FROM b"), "server", "nowhere")
    refused(get(url, query="UPDATE hits SET n = n + 1 WHERE k = 1"), "usage", "a get needs a SELECT")
    refused(get(url, table="vectors"), "usage", "column v is vector<float, 3>", "toJson(v)")
    refused(get(url, query="SELECT id, i8 AS id FROM t"), "usage", "column id is there twice")
    refused(get(url, query="SELECT id FROM t WHERE id = ?"), "usage", "two question marks")
    refused(get(url, table="t", streams=2), "usage", "parts; none")
    refused(get(url, table="t", streams=2, split="hash", split_by="id"), "usage", "by ranges of tokens")
    refused(get(url, query="SELECT id FROM t", streams=2, split="parts"), "usage", "token(KEY) >= ?")
    refused(get(url, table="t", consistency="three"), "server", "THREE needs 3 replicas")
    refused(get(url, table="t", consistency="any"), "usage", "counters and gets", "take one")
    refused(get(url, table="t", page_size=0), "usage", "page_size")
    small = {"table": "t", "max_block_bytes": 1 << 16}
    refused(get(url, batch=3, page_size=5000, **small), "memory", "smaller page_size", "max_block_size")
    refused(get(url, page_size=50, **small), "memory", "fewer rows per batch", "max_block_size")


def test_a_page_that_fails_says_how_far_it_came(url: str, keyspace: Any) -> None:
    keyspace.execute("CREATE TABLE IF NOT EXISTS odd (k int PRIMARY KEY, v varint)")
    for k in range(50):
        keyspace.execute("INSERT INTO odd (k, v) VALUES (%s, %s)", (k, 1))
    last = [one.k for one in keyspace.execute("SELECT k, token(k) FROM odd")][-1]
    insert = keyspace.prepare("INSERT INTO odd (k, v) VALUES (?, ?)")
    keyspace.execute(insert, (last, 2**40_000))
    refused(get(url, table="odd", batch=10), "protocol", ": after 40 rows: column v: a number of 5001 bytes")


def test_it_stops_in_the_midst(url: str) -> None:
    slow = read.spec(
        url,
        password_env=PASSWORD_ENV,
        table="t",
        batch=1,
        page_size=1,
        streams=3,
        split="none",
        verify="none",
    )
    record = while_held(slow, lambda _, control: control.cancel())
    assert record["outcome"] == "interrupted" and record["counts"]["rows"] > 0
