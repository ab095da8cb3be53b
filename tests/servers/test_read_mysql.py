"""Gets from mysql:// against a real MariaDB: its types with their traps, how streams share rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.database import Database
from support.read import by_splits, get, good, refused, sums

pytestmark = pytest.mark.usefixtures("core")

FORMATS = ("binary", "text")
ROWS = 3000
TYPES = """CREATE TABLE types (
    id bigint, tiny tinyint, utiny tinyint unsigned, small smallint, usmall smallint unsigned,
    medium mediumint, whole int, uwhole int unsigned, ubig bigint unsigned, ok boolean, f float, d double,
    price decimal(12, 3), wide decimal(65, 2), name varchar(20), code char(4), txt text, raw varbinary(9),
    blobby blob, day date, at_local datetime(6), at_utc timestamp(3) NULL, hours time(6), y year, bits bit(9),
    mood enum('ok', 'bad'), several set('a', 'b'), j json)"""
VALUES = """INSERT INTO types SELECT seq, seq % 256 - 128, seq % 256, -(seq % 32768), seq % 65536,
    seq - 100, -seq, 4294967295 - seq, 18446744073709551615 - seq, seq % 2, seq / 4, seq / 8,
    seq * 1.001 - 5, seq * 1000000000000000000000000.25, CONCAT('ä', seq), 'x', REPEAT('ü', seq % 7),
    UNHEX(LPAD(HEX(seq), 8, '0')), REPEAT('b', seq % 5), DATE '1969-12-30' + INTERVAL seq DAY,
    TIMESTAMP '1969-12-31 23:59:59.999999' + INTERVAL seq HOUR,
    TIMESTAMP '2001-02-03 04:05:06.5' + INTERVAL seq SECOND,
    SEC_TO_TIME(seq * 900 - 100000.5), 1901 + seq % 200, seq % 512, 'bad', 'a,b', '{"a": 1}'
    FROM (SELECT CAST(seq AS SIGNED) AS seq FROM seq_1_to_3000) AS numbers"""


@pytest.fixture(scope="module")
def types(mariadb: Database) -> Iterator[Database]:
    """A table of every type that is read, with a row of nulls."""
    mariadb.run_sql(TYPES)
    mariadb.run_sql(VALUES)
    mariadb.run_sql("INSERT INTO types (id) VALUES (NULL)")
    yield mariadb
    mariadb.run_sql("DROP TABLE types")


@pytest.mark.parametrize("form", FORMATS)
@by_splits(
    {"split": "key", "split_by": "id"},
    {"split": "key", "split_by": "ubig"},
    {"split": "key", "split_by": "day"},
    {"split": "key", "split_by": "at_local"},
    {"split": "key", "split_by": "at_utc"},
    {"split": "hash", "split_by": "name"},
    {"split_by": "id"},
)
def test_every_type_is_shared_by_every_split(types: Database, form: str, split: dict[str, str]) -> None:
    record = good(get(types.url, table="types", streams=3, batch=100, format=form, **split), ROWS + 1)
    assert sums(record)["id"] == ROWS * (ROWS + 1) // 2
    assert len(sums(record)) == 8


@pytest.mark.parametrize("form", FORMATS)
def test_values_of_every_type(types: Database, form: str) -> None:
    """Sums of what was decoded are the server's, for the columns that the first eight do not have."""
    query = "SELECT ubig, price, name, txt, raw, blobby, y, code FROM types"
    record = good(get(types.url, query=query, format=form), ROWS + 1)
    assert sums(record)["ubig"] == -sum(range(2, ROWS + 2)) % 2**64
    assert sums(record)["price"] == (1001 * ROWS * (ROWS + 1) // 2 - 5000 * ROWS) % 2**64
    assert len(sums(record)) == 8
    good(
        get(types.url, query="SELECT d, f, day, at_utc, hours, bits FROM types", format=form),
        ROWS + 1,
        "count",
    )


@pytest.mark.parametrize("form", FORMATS)
def test_mistakes_are_lines(mariadb: Database, form: str) -> None:
    def line(kind: str, *parts: str, url: str = mariadb.url, **choices: Any) -> None:
        refused(get(url, format=form, **choices), kind, *parts)

    line("server", "1146", "name another by --table", table="nowhere")
    line("auth", "1045", url=mariadb.url.replace("venturi@", "nobody@"), query="SELECT 1")
    line("memory", "fewer rows per batch", query="SELECT REPEAT('x', 100000) AS a", max_block_bytes=1 << 16)
    zero = ["SET sql_mode = ''"]
    mariadb.run_sql("CREATE OR REPLACE TABLE zero (d date, t datetime)")
    mariadb.run_sql("INSERT IGNORE INTO zero VALUES ('0000-00-00', '2020-01-01')")
    line("usage", "does not say where its rows lie", table="zero", streams=2, split="parts")
    line("protocol", "0000-00-00 is no day", "NULLIF(d, '0000-00-00')", table="zero", init=zero)
    good(get(mariadb.url, query="SELECT NULLIF(d, '0000-00-00') AS d, t FROM zero", format=form), 1, "count")


@pytest.mark.parametrize("form", FORMATS)
def test_long_values(mariadb: Database, form: str) -> None:
    query = "SELECT REPEAT('x', 3000000) AS a, seq FROM seq_1_to_5"
    record = good(get(mariadb.url, query=query, format=form), 5)
    assert sums(record)["a"] == 15_000_000
