"""`mysql://`: what goes wrong at a real MariaDB is one line that says what to do; what became of batches."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from support.database import Database
from support.holding import while_held
from support.mysql import refusal, run, spec

pytestmark = pytest.mark.usefixtures("core")

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
    assert run(f"{url}/{name}", "venturi_x")["outcome"] == "ok"
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
    assert "there is no table venturi_missing in venturi" in line and "--no-setup" in line
    mariadb.run_sql("CREATE OR REPLACE TABLE venturi_odd (a int)")
    line = refusal(mariadb.url, "venturi_odd", options={"setup": False})
    assert "error 1054" in line and "other columns than the data" in line
    mariadb.run_sql("DROP TABLE venturi_odd")


def test_limits_of_the_server(start_database: Start) -> None:
    database = start_database("mariadb", settings={"max_connections": "10", "max_allowed_packet": "1M"})
    line = refusal(database.url, "venturi_many", streams=20)
    assert "error 1040" in line and "max_connections" in line and "--streams" in line
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
