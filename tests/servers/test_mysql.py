"""`mysql://` against a real MariaDB: upserts and what becomes of them, types and how streams share rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.core import connecting_all_the_time
from support.database import Database
from support.holding import HoldingRelay, while_held
from support.mysql import refusal, run, spec
from support.read import ONCE, by_splits, get, good, ran, refused, sums
from support.wait import wait_until

pytestmark = pytest.mark.usefixtures("core")


@pytest.mark.parametrize(
    ("statement", "rows_per_batch", "rows"),
    [("text", 1, 250), ("prepared", 1, 250), ("prepared", 8_000, 16_000), ("text", 10_000, 40_000)],
)
def test_batches_of_one_row_and_of_many(
    mariadb: Database, statement: str, rows_per_batch: int, rows: int
) -> None:
    options = {"statement": statement}
    record = run(mariadb.url, "venturi_sizes", rows_per_batch=rows_per_batch, rows=rows, options=options)
    assert (record["error"], record["errors"]) == (None, None)
    assert record["target"]["protocol"] == f"mysql {statement}"
    assert record["verification"]["rows"] == record["verification"]["expected_rows"] > 0
    assert all(line["expected"] == line["found"] for line in record["verification"]["sums"])
    assert record["counts"]["rows"] == 2 * rows
    assert record["counts"]["batches"] == 2 * -(-rows // rows_per_batch)


def test_the_streams_connections_are_read_and_no_others(mariadb: Database) -> None:
    with connecting_all_the_time():
        record = run(mariadb.url, "venturi_sockets", streams=3)
    assert record["outcome"] == "ok", record["error"]
    sockets = record["resources"]["client"]["sockets"]
    assert sockets["count"] == 3 and sockets["rtt_ns"] > 0
    counts = record["counts"]
    # A row is text of some 90 bytes; nothing but the batches and their answers is counted.
    assert 0.5 < counts["wire_bytes"] / (90 * counts["rows"]) < 3


def test_a_statement_has_so_many_parameters(mariadb: Database) -> None:
    line = refusal(mariadb.url, "venturi_x", rows_per_batch=10_000, options={"statement": "prepared"})
    assert "80000 parameters" in line and "--rows-per-batch 8191" in line and "--statement text" in line


def test_options_of_the_server_and_of_others(mariadb: Database) -> None:
    options = {"storage": "Aria", "keep": True, "partitions": 20, "shard_key": ["customer_code"],
               "init": ["SET SESSION lock_wait_timeout = 77"]}  # fmt: skip
    record = run(mariadb.url, "venturi_aria", options=options)
    assert record["outcome"] == "ok", record["error"]
    assert "partitions, shard_key: for SingleStore only" in record["verification"]["note"]
    where = "TABLE_SCHEMA = 'venturi' AND TABLE_NAME = 'venturi_aria'"
    assert mariadb.run_sql(f"SELECT ENGINE FROM information_schema.TABLES WHERE {where}") == [("Aria",)]
    mariadb.run_sql("DROP TABLE venturi_aria")
    # One of another name is ours too if we have made it.
    assert run(mariadb.url, "my_new_sales")["error"] is None
    assert mariadb.run_sql("SHOW TABLES LIKE 'my_new%'") == []
    line = refusal(mariadb.url, "venturi_init", options={"init": ["SET no_such = 1"]})
    assert 'init "SET no_such = 1"' in line and "1193" in line
    line = refusal(mariadb.url, "venturi_init", options={"init": ["SET sql_mode = 'NO_BACKSLASH_ESCAPES'"]})
    assert "--init sets the sql_mode NO_BACKSLASH_ESCAPES" in line
    assert "answers one statement before it takes the next" in refusal(mariadb.url, "venturi_x", in_flight=2)


def test_streams_are_spread_over_hosts(mariadb: Database) -> None:
    with HoldingRelay(mariadb.port) as one, HoldingRelay(mariadb.port) as two:
        both = f"127.0.0.1:{one.own_port},127.0.0.1:{two.own_port}"
        record = run(f"mysql://venturi@{both}/venturi", "venturi_hosts", streams=4)
    assert record["outcome"] == "ok", record["error"]
    assert record["target"]["address"] == both and record["counts"]["rows"] == 40_000
    # A row is text of some 90 bytes, and each took half of them.
    assert all(relay.passed > 20_000 * 45 for relay in (one, two))


Start = Callable[..., Database]


def test_read_only_from_the_middle_on(start_database: Start) -> None:
    database = start_database("mariadb")

    record = while_held(
        spec(database.url, "venturi_closed", max_errors=5),
        lambda *_: database.run_as_administrator("SET GLOBAL read_only = 1"),
    )
    assert record["outcome"] == "failed"
    assert record["error"]["kind"] == "server"
    assert "error 1290" in record["error"]["message"] and "takes no writes" in record["error"]["message"]
    errors = record["errors"]
    assert errors["refused"]["batches"] >= 6 and errors["in_doubt"]["batches"] == 0
    assert [(line["kind"], line["code"]) for line in errors["kinds"]] == [("server", "1290")]
    line = refusal(database.url, "venturi_closed")
    assert "error 1290" in line and "is it a replica?" in line


def test_refused_batches_are_counted_and_the_rest_is_verified(mariadb: Database) -> None:
    """Rows that somebody else holds locked: those batches are refused, all others are there."""
    import pymysql

    table = "venturi_locked"
    assert run(mariadb.url, table, options={"keep": True})["outcome"] == "ok"
    holder = pymysql.connect(host="127.0.0.1", port=mariadb.port, user="venturi", database="venturi")
    cursor = holder.cursor()
    cursor.execute("START TRANSACTION")
    cursor.execute(f"SELECT * FROM {table} LIMIT 1 FOR UPDATE")
    try:
        options = {"setup": False, "init": ["SET SESSION innodb_lock_wait_timeout = 2"]}
        record = run(mariadb.url, table, options=options, max_errors=3, retries=1)
    finally:
        holder.close()
    assert record["outcome"] == "ok", record["error"]
    errors = record["errors"]
    assert errors["refused"] == {"batches": 1, "rows": 500}
    assert errors["retries"] == 1 and errors["in_doubt"]["batches"] == 0
    assert errors["kinds"][0]["code"] == "1205"
    assert record["verification"]["achieved"] == "sums"
    assert record["counts"]["rows"] == 19_500
    mariadb.run_sql(f"DROP TABLE {table}")


def test_an_engine_that_undoes_nothing_leaves_doubt(mariadb: Database) -> None:
    """A full MEMORY table keeps the first rows of the batch that did not fit."""
    options = {"storage": "MEMORY", "init": ["SET SESSION max_heap_table_size = 1048576"]}
    record = run(mariadb.url, "venturi_full", options=options, streams=1, max_errors=100)
    assert record["outcome"] == "ok", record["error"]
    errors = record["errors"]
    assert errors["in_doubt"]["batches"] > 0 and errors["refused"]["batches"] == 0
    assert errors["kinds"][0]["code"] == "1114"
    assert "is the disk of the server full?" in errors["kinds"][0]["message"]
    assert "are in doubt" in record["verification"]["note"]


def test_a_log_in_that_is_not_known(mariadb: Database) -> None:
    """Where the plugin is there, an account may ask for what Venturi does not know."""
    plugins = "SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME = 'ed25519'"
    if mariadb.run_as_administrator(plugins):
        mariadb.run_as_administrator(
            "CREATE OR REPLACE USER odd@'%' IDENTIFIED VIA ed25519 USING PASSWORD('x')"
        )
        line = refusal(mariadb.url, "venturi_login", options={"user": "odd"})
        mariadb.run_as_administrator("DROP USER odd@'%'")
        assert "client_ed25519" in line and "mysql_native_password" in line


def test_rights(mariadb: Database) -> None:
    url = mariadb.url.rsplit("/", 1)[0]
    line = refusal(f"{url}/other", "venturi_x")
    assert "error 1044" in line and "GRANT ALL ON `other`.* TO" in line
    name = "venturi_new_one"
    # What cannot be sent leaves nothing behind.
    refusal(f"{url}/{name}", "venturi_x", rows_per_batch=10_000, options={"statement": "prepared"})
    assert not mariadb.run_sql(f"SHOW DATABASES LIKE '{name}'")
    options = {"init": ["CREATE TABLE venturi_first (a int)", "DROP TABLE venturi_first"]}
    assert run(f"{url}/{name}", "venturi_x", streams=1, options=options)["outcome"] == "ok"
    assert mariadb.run_sql(f"SHOW DATABASES LIKE '{name}'") == [(name,)]
    mariadb.run_sql(f"DROP DATABASE {name}")
    line = refusal(f"{url}/{name}", "venturi_x", options={"setup": False})
    assert "error 1049" in line and "without --no-setup Venturi creates" in line
    mariadb.run_as_administrator("CREATE OR REPLACE USER reader@'127.0.0.1'")
    mariadb.run_as_administrator("GRANT SELECT ON venturi.* TO reader@'127.0.0.1'")
    mariadb.run_sql("CREATE OR REPLACE TABLE venturi_read (a int)")
    line = refusal(mariadb.url, "venturi_read", options={"user": "reader"})
    assert "error 1142" in line and "GRANT ALL ON `venturi`.*" in line
    mariadb.run_sql("DROP TABLE venturi_read")
    mariadb.run_as_administrator("DROP USER reader@'127.0.0.1'")


def test_tables_without_setup(mariadb: Database) -> None:
    line = refusal(mariadb.url, "venturi_missing", options={"setup": False})
    assert "there is no table venturi_missing in venturi, or" in line and "--no-setup" in line
    mariadb.run_sql("CREATE OR REPLACE TABLE venturi_odd (a int)")
    line = refusal(mariadb.url, "venturi_odd", options={"setup": False})
    assert "error 1054" in line and "other columns than the data" in line
    mariadb.run_sql("DROP TABLE venturi_odd")


def test_rows_are_read_back_and_keys_may_meet(mariadb: Database, tmp_path: Path) -> None:
    rows = "".join(f"{word},é{n},{n}\n" for n, word in enumerate(["a", "A", "b", "b "]))
    (tmp_path / "t.csv").write_text(f"k,note,hits\n{rows}")
    words = ("--target", mariadb.url, "--operation", "upsert", "--data", tmp_path / "t.csv", "--key", "k",
             "--add", "hits", "--rows-per-stream", "4", *ONCE)  # fmt: skip
    (line,) = ran(tmp_path / "r", *words)
    assert line["verification"]["read_back"] == 4
    (line,) = ran(tmp_path / "latin", *words, "--init", "SET character_set_client = latin1", code=6)
    assert "that were read back 4 are not as they were sent" in line["error"]["message"]
    columns = "note varchar(9) CHARACTER SET utf8mb4, hits int"
    for at, (key, said) in enumerate([
        (f"k varchar(9) COLLATE utf8mb4_general_ci PRIMARY KEY, {columns}", "compared by utf8mb4_general_ci"),
        (f"k varchar(9) COLLATE utf8mb4_bin PRIMARY KEY, {columns}", "spaces at the end, which utf8mb4_bin"),
        (f"k varbinary(9) PRIMARY KEY, {columns}, UNIQUE u (note)", "unique index u (note) is not the key"),
    ]):  # fmt: skip
        mariadb.run_sql(f"CREATE OR REPLACE TABLE meeting ({key}) CHARACTER SET utf8mb4")
        (line,) = ran(tmp_path / str(at), *words, "--table", "meeting", "--no-setup")
        assert said in line["verification"]["note"] and line["verification"]["achieved"] == "sums"
    mariadb.run_sql("DROP TABLE meeting")


def test_limits_of_the_server(start_database: Start) -> None:
    database = start_database("mariadb", settings={"max_connections": "10", "max_allowed_packet": "1M"})
    line = refusal(database.url, "venturi_many", streams=20)
    assert "error 1040" in line and "max_connections" in line and "--streams" in line
    open_yet = "SELECT count(*) FROM information_schema.processlist WHERE user = 'venturi'"
    wait_until(lambda: database.run_as_administrator(open_yet)[0][0] == 0)
    line = refusal(database.url, "venturi_large", rows_per_batch=30_000)
    assert "max_allowed_packet is 1048576" in line and "SET GLOBAL max_allowed_packet =" in line
    largest = int(line.split("--rows-per-batch ")[1].split(",")[0])
    assert 5_000 < largest < 20_000
    assert database.run_sql("SHOW TABLES LIKE 'venturi_large'") == []  # nothing was left behind
    record = run(database.url, "venturi_large", rows_per_batch=largest, rows=largest)
    assert record["outcome"] == "ok", record["error"]
    line = refusal(database.url, "venturi_large", rows_per_batch=30_000, generate="inline")
    assert "max_allowed_packet" in line


def test_clocks_that_differ_are_worth_a_word(start_database: Start) -> None:
    database = start_database("mariadb")
    ahead = int(time.time()) + 3600
    database.run_as_administrator(f"SET GLOBAL init_connect = 'SET timestamp = {ahead}'")
    record = run(database.url, "venturi_clock")
    assert record["outcome"] == "ok", record["error"]
    note = record["verification"]["note"]
    assert "the server's clock is 3" in note and "s ahead of this host's" in note
    database.run_as_administrator("SET GLOBAL init_connect = ''")
    assert run(database.url, "venturi_clock")["verification"]["note"] is None


def test_a_server_without_tls(mariadb: Database) -> None:
    plain = mariadb.url.replace("mysql://", "mysql+tls://")
    if mariadb.run_sql("SELECT @@have_ssl")[0][0] != "YES":
        assert "does not offer TLS" in refusal(plain, "venturi_tls", options={"tls_insecure": True})


FORMS = ("binary", "text")
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


@pytest.mark.parametrize("form", FORMS)
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


@pytest.mark.parametrize("form", FORMS)
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


@pytest.mark.parametrize("form", FORMS)
def test_mistakes_of_gets_are_lines(mariadb: Database, form: str) -> None:
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


@pytest.mark.parametrize("form", FORMS)
def test_long_values(mariadb: Database, form: str) -> None:
    query = "SELECT REPEAT('x', 3000000) AS a, seq FROM seq_1_to_5"
    record = good(get(mariadb.url, query=query, format=form), 5)
    assert sums(record)["a"] == 15_000_000
