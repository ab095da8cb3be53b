"""adbc:// through drivers that PyPI has of databases in files, SQLite's and DuckDB's; and through drivers
that crash, hang or are killed, which take their trial with them and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pytest

from support.adbc import URI, driver, run, trial
from support.read import ONCE, RECORDS, good, records, refused, sums
from support.run import command, environment, venturi
from support.wait import wait_until
from venturi.engine.executor import _lost

pytestmark = pytest.mark.usefixtures("core")
ROWS = 40_000


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """A file of SQLite with a table of all that it stores, and nulls."""
    path = tmp_path / "trips.db"
    rows = ((n, n / 3, f"n{n}" if n % 7 else None, b"\0" * (n % 5)) for n in range(ROWS))
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE trips (id INTEGER, fare REAL, name TEXT, raw BLOB)")
        connection.executemany("INSERT INTO trips VALUES (?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO trips VALUES (NULL, NULL, NULL, NULL)")
    connection.close()
    return path


def tables(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    connection.close()
    return [name for (name,) in found]


# ---- gets


@pytest.mark.parametrize("split", [{"split": "hash"}, {"split": "key"}, {"split": "none"}])
def test_a_table_is_shared_by_its_streams(trips: Path, split: dict[str, str]) -> None:
    by = {} if split == {"split": "none"} else {"split_by": "id"}
    times = 3 if split == {"split": "none"} else 1
    options: dict[str, Any] = {"driver_options": [f"uri={trips}"], "table": "trips", "batch": 500}
    record = trial("sqlite", streams=3, **options, **split, **by)
    good(record, (ROWS + 1) * times)
    raw = sum(n % 5 for n in range(ROWS))
    assert sums(record) == {"id": ROWS * (ROWS - 1) // 2 * times, "raw": raw * times}
    assert record["target"]["software"].startswith("SQLite 3.") and record["target"]["protocol"] == "adbc"
    assert {"driver", "verify"} <= set(record["stages"]["client"])
    assert min(stream["rows"] for stream in record["streams"]) > ROWS // 6


def test_a_query_and_batches_of_the_driver(trips: Path) -> None:
    options = [f"uri={trips}", "statement:adbc.sqlite.query.batch_rows=100"]
    query = 'SELECT id AS "a b", fare FROM trips WHERE id < 1000 -- all ;\n;'
    record = good(trial("sqlite", driver_options=options, query=query, batch=100), 1000)
    assert sums(record) == {"a b": 999 * 1000 // 2}
    # A batch is what was asked for at a time, in as many of the driver's as that takes.
    assert record["counts"]["batches"] == 10
    record = good(trial("sqlite", driver_options=options, query=query, batch=250), 1000)
    assert record["counts"]["batches"] == 4


@pytest.mark.parametrize("name", ["sqlite", "duckdb"])
def test_our_rows_come_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / "our.db"
    options = [f"{'path' if name == 'duckdb' else 'uri'}={path}"]
    record = trial(name, data=RECORDS, rows=20_000, streams=2, driver_options=options)
    good(record, 40_000, "checksum")
    assert record["counts"]["payload_bytes"] == 40_000 * 32
    if name == "sqlite":
        assert tables(path) == []
        good(trial(name, data=RECORDS, rows=10, driver_options=options, keep=True), 10, "checksum")
        assert tables(path) == ["venturi_get"]


def test_nothing_and_less_than_streams(trips: Path) -> None:
    options = [f"uri={trips}"]
    none = "SELECT id FROM trips WHERE id < 0"
    for split in ("hash", "key"):
        good(trial("sqlite", driver_options=options, query=none, streams=3, split=split, split_by="id"), 0)
        one = "SELECT id FROM trips WHERE id = 5"
        good(trial("sqlite", driver_options=options, query=one, streams=3, split=split, split_by="id"), 1)


def test_types_of_duckdb(tmp_path: Path) -> None:
    """Values of every kind arrive, those that can be summed with DuckDB's own sums."""
    path = tmp_path / "types.duckdb"
    rows = """SELECT n::BIGINT AS id, (n % 100)::TINYINT AS small, n::UBIGINT * 1000000000000000 AS big,
        n % 2 = 0 AS ok, n / 3.0 AS d, (n * 1.001)::DECIMAL(12, 3) AS price, 'ä' || n AS name,
        ('x' || n)::BLOB AS raw, DATE '1970-01-01' + n::INT AS day,
        TIMESTAMP '2001-02-03 04:05:06' AS at, [n, NULL] AS list,
        {'a': n, 'b': 'c'} AS struct, CASE WHEN n % 3 = 0 THEN n END AS nulls FROM range(10000) t(n)"""
    record = trial("duckdb", driver_options=[f"path={path}"], query=rows, batch=2048)
    good(record, 10_000)
    assert sums(record)["nulls"] == sum(range(0, 10_000, 3)) and len(sums(record)) == 8
    shared = trial("duckdb", driver_options=[f"path={path}"], query=rows, streams=2, split_by="name")
    good(shared, 10_000)
    assert min(stream["rows"] for stream in shared["streams"]) > 4000


def test_a_get_ends_with_its_time(tmp_path: Path) -> None:
    rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
    options = {"driver_options": [f"uri={tmp_path / 's.db'}"], "verify": "none", "batch": 1000}
    record = trial("sqlite", query=rows, duration_s=0.3, streams=2, split="none", **options)
    assert record["outcome"] == "ok" and record["counts"]["rows"] > 1000
    assert record["times"]["interval_ns"] >= 0.3e9


# ---- puts


def test_puts_are_counted_and_read_back(tmp_path: Path) -> None:
    every: dict[str, dict[str, Any]] = {
        "sqlite": {"driver_options": [f"uri={tmp_path / 's.db'}"]},
        "duckdb": {"driver_options": [f"path={tmp_path / 'd.db'}"]},
    }
    for name, options in every.items():
        streams = 1 if name == "sqlite" else 3
        record = trial(name, operation="put", data=RECORDS, rows=20_000, streams=streams, **options)
        good(record, 20_000 * streams, "checksum")
        assert {"driver", "generate"} <= set(record["stages"]["client"])
    assert tables(tmp_path / "s.db") == []


def test_a_put_of_a_file_with_a_time(tmp_path: Path) -> None:
    table = pa.table({"n": pa.array([1, None, 3]), "s": ["a", None, "ü"], "f": pa.array([0.5, None, -1e300])})
    with pa.ipc.new_file(tmp_path / "f.arrow", table.schema) as writer:
        writer.write_table(table)
    data = {"source": "file", "path": "f", "ipc": str(tmp_path / "f.arrow")}
    options = {"driver_options": [f"uri={tmp_path / 's.db'}"]}
    record = trial("sqlite", operation="put", data=data, duration_s=0.3, batch=100, **options)
    assert record["error"] is None and record["counts"]["rows"] > 0
    assert record["verification"]["achieved"] == "checksum", record["verification"]


def test_streams_that_wait_for_one_writer(tmp_path: Path) -> None:
    options = {"driver_options": [f"uri={tmp_path / 's.db'}"], "data": RECORDS, "rows": 50_000, "streams": 2}
    record = trial("sqlite", operation="put", init=["PRAGMA busy_timeout=20000"], **options)
    good(record, 100_000, "checksum")
    assert "--init" in refused(
        trial("sqlite", operation="put", init=["PRAGMA nothing(("], **options), "server", "syntax error"
    )


def test_into_a_table_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mine (a INTEGER, b INTEGER, c INTEGER, d INTEGER)")
        connection.execute("INSERT INTO mine VALUES (1, 2, 3, 4)")
    connection.close()
    options = {"driver_options": [f"uri={path}"], "data": RECORDS, "rows": 5000, "table": "mine"}
    refused(trial("sqlite", operation="put", **options), "usage", "table mine exists already", "--no-setup")
    record = good(trial("sqlite", operation="put", setup=False, **options), 5000, "count")
    assert "read back" in record["verification"]["note"] and tables(path) == ["mine"]
    refused(trial("sqlite", operation="put", setup=False, **options | {"table": "other"}), "server", "other")


# ---- what goes wrong


def test_a_query_that_fails_in_the_middle(trips: Path) -> None:
    query = "SELECT CASE WHEN id = 30000 THEN abs(-9223372036854775807 - 1) ELSE id END AS n FROM trips"
    record = trial("sqlite", driver_options=[f"uri={trips}"], query=query, batch=1000, verify="count")
    refused(record, "server", "sqlite", "integer overflow", "after ", " rows")


def test_a_column_whose_type_the_streams_see_differently(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE mixed (id INTEGER, v)")
        rows = ((n, n if n < 5000 else "text") for n in range(10_000))
        connection.executemany("INSERT INTO mixed VALUES (?, ?)", rows)
    connection.close()
    options = {"driver_options": [f"uri={path}"], "table": "mixed", "split": "key", "split_by": "id"}
    refused(trial("sqlite", streams=2, **options), "protocol", "sqlite", "cast them in a query")
    good(trial("sqlite", streams=2, verify="count", **options), 10_000, "count")


def test_what_cannot_be_counted_by_sql_is_run_twice(tmp_path: Path) -> None:
    query = "PRAGMA function_list"  # stands in no FROM
    record = trial("sqlite", driver_options=[f"uri={tmp_path / 's.db'}"], query=query)
    assert record["error"] is None and record["verification"]["achieved"] == "count"
    assert "a run of the query before" in record["verification"]["note"]


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("adbc://snowflake", ("no driver is called so", "pip install adbc-driver-snowflake")),
        ("adbc://nobody", ("no driver is called so", "nobody.toml")),
        ("adbc:///nowhere/libadbc_driver_x.so", ("/nowhere/libadbc_driver_x.so: not loaded", "No such file")),
        (f"adbc://{__file__}", ("test_adbc.py: not loaded as an ADBC driver", "ELF")),
        (f"adbc://{pa.__path__[0]}/_csv.so", ("not loaded",)),
        ("adbc:///lib/x86_64-linux-gnu/libm.so.6", ("undefined symbol", "--driver-entrypoint")),
    ],
)
def test_what_is_no_driver(url: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    (record,) = run(tmp_path / "run", url, "--table", "t")
    refused(record, "usage", *parts)


def test_a_driver_that_a_manifest_names(trips: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = driver("sqlite")["library"]
    (tmp_path / "mine.toml").write_text(
        f"manifest_version = 1\nname = 'Mine'\nversion = '1.0.0'\n[Driver]\nshared = '{library}'\n"
    )
    monkeypatch.setenv("ADBC_DRIVER_PATH", str(tmp_path))
    words = ("--driver-option", f"uri={trips}", "--table", "trips")
    (record,) = run(tmp_path / "run", "mine", *words)
    good(record, ROWS + 1)
    assert record["target"]["address"] == "mine"


def test_options_that_the_driver_does_not_have(trips: Path) -> None:
    for word in ("nonsense=1", "connection:nonsense=1", "statement:nonsense=1"):
        record = trial("sqlite", table="trips", driver_options=[f"uri={trips}", word])
        refused(record, "unsupported", "nonsense")


# ---- apart


FOR_EVER = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"
# What no real driver can be made to do.
CRASHES = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int AdbcDriverInit(int version, void *driver, void *error) {
    while (getenv("VENTURI_TEST_ADBC_HANGS")) pause();
    fprintf(stderr, "broken: password=hush, %s\\n", getenv("VENTURI_TEST_ADBC_URI"));
    *(volatile int *)0 = version;
    return 0;
}
"""


@pytest.fixture
def crashing(tmp_path: Path) -> Path:
    """A driver that does not survive being loaded, or keeps who loads it."""
    from support.needs import require

    compiler = shutil.which("cc")
    require(compiler, "a C compiler")
    (tmp_path / "crash.c").write_text(CRASHES)
    words = [str(compiler), "-shared", "-fPIC", "-o", "libcrash.so", "crash.c"]
    subprocess.run(words, cwd=tmp_path, check=True)
    return tmp_path / "libcrash.so"


def children(pid: int) -> list[int]:
    """The processes of trials that this one has started."""
    found = []
    with contextlib.suppress(OSError):
        for told in Path(f"/proc/{pid}/task").glob("*/children"):
            words = {child: Path(f"/proc/{child}/cmdline").read_text() for child in told.read_text().split()}
            found += [int(child) for child, line in words.items() if "venturi.engine.loader" in line]
    return found


def test_a_crash_fails_its_trial_and_no_other(
    crashing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    urls = f'matrix.target=["adbc://{crashing}", "adbc://sqlite"]'
    words = ("--set", urls, "--operation", "get", "--data", "records")
    words += ("--rows-per-stream", "1000", "--driver-option-env", f"uri={URI}")
    monkeypatch.setenv(URI, str(tmp_path / "very-secret.db"))
    done = venturi("run", *words, *ONCE, "--out", tmp_path / "run")
    broken, good = sorted(records(tmp_path / "run"), key=lambda record: record["outcome"] == "ok")
    message = refused(broken, "plugin", "crashed (SIGSEGV)", "libcrash.so", "its last words: broken")
    said = message + done.stderr + "".join(capfd.readouterr())
    assert "hush" not in said and "very-secret" not in said
    assert good["outcome"] == "ok" and good["verification"]["achieved"] == "checksum"
    assert done.returncode != 0 and "SIGSEGV" in done.stderr


@pytest.mark.parametrize(
    "value",
    [
        "postgresql://me:hush%40pw@h/db",
        "host=h password=hush%40pw",
        f"host=h password=hush%40pw options={'x' * 5000}",
        "postgresql://h/db?password=hush%40pw&a=b",
    ],
)
def test_no_part_of_a_secret_is_in_a_drivers_last_words(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URI, value)
    spec = json.dumps({"target": "adbc://x", "options": {"driver_option_env": {"uri": URI}}})
    said = f"bad: hush@pw, hush%40pw of {value}"
    message = _lost(spec, -signal.SIGSEGV, said)["error"]["message"]
    assert "hush" not in message and "its last words: bad: ***" in message


def test_a_call_that_never_returns_ends_with_the_time_out(
    crashing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENTURI_TEST_ADBC_HANGS", "yes")
    (record,) = run(
        tmp_path / "run", str(crashing), "--query", "SELECT 1", "--verify", "none", "--timeout", "0.2s"
    )
    refused(record, "timeout", "plan")
    assert not children(os.getpid())


@contextlib.contextmanager
def running(out: Path, query: str, *words: str) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A run of a query without an end, and the process of its trial."""
    given = ("--target", "adbc://sqlite", "--query", query, "--verify", "none", *words, *ONCE, "--out", out)
    with subprocess.Popen(
        command("run", *given), env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        apart = wait_until(lambda: children(process.pid) or process.poll() is not None)
        assert isinstance(apart, list), process.communicate()
        yield process, apart


def gone(pids: list[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def is_read(file: Path) -> bool:
    """Whether a statement reads the file, which nobody may write to meanwhile."""
    with contextlib.closing(sqlite3.connect(file, timeout=0)) as connection:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
    return False


@pytest.mark.parametrize("when", ["on the way there", "in its query"])
def test_a_trial_without_end_is_cancelled(tmp_path: Path, when: str) -> None:
    file = tmp_path / "x.db"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE seed AS SELECT 1 AS n")
    of_file = FOR_EVER.replace("SELECT 1 UNION", "SELECT n FROM seed UNION")
    with running(tmp_path / "run", of_file, "--driver-option", f"uri={file}") as (process, apart):
        if when == "in its query":
            wait_until(lambda: is_read(file))
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    assert gone(apart)
    assert all(record["outcome"] == "interrupted" for record in records(tmp_path / "run"))


def test_a_process_that_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "run", FOR_EVER) as (process, apart):
        os.kill(apart[0], signal.SIGKILL)
        _, said = process.communicate()
    assert process.returncode != 0 and "was killed" in said
    refused(records(tmp_path / "run")[0], "plugin", "the process that had loaded the driver was killed")


def test_nothing_stays_where_venturi_is_killed(tmp_path: Path) -> None:
    with running(tmp_path / "run", FOR_EVER) as (process, apart):
        process.kill()
    wait_until(lambda: gone(apart))
