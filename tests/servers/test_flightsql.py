"""flightsql://: gets and puts against Arrow's Flight SQL server for Go, over SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.flight import Certificates, Start
from support.flightsql import Server, serving, trial
from support.read import REMOTE, good, refused, sums
from support.run import venturi
from support.secret import SECRET, leaking_files, leaks

pytestmark = pytest.mark.usefixtures("core")

RECORDS = {"source": "records", "columns": 4, "seed": 3}
ROWS = 10_000
TABLE = """CREATE TABLE things (id INTEGER, name TEXT, price REAL, raw BLOB, tag VARCHAR(20))"""
FILL = f"""INSERT INTO things WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {ROWS})
    SELECT CASE WHEN n % 100 = 0 THEN NULL ELSE n * 1000000007 * CASE n % 2 WHEN 0 THEN 1 ELSE -1 END END,
    CASE WHEN n % 7 = 0 THEN NULL ELSE printf('ä%d', n) END, n / 3.0, randomblob(n % 5), 't' || n FROM n"""
IDS = sum(n * 1000000007 * (1 if n % 2 == 0 else -1) for n in range(1, ROWS + 1) if n % 100)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """As the example is: one endpoint, no ingest, no schema in a plan."""
    with serving(tmp_path_factory.mktemp("flightsql") / "plain.db") as server:
        server.ask(TABLE)
        server.ask(FILL)
        yield server


@pytest.fixture(scope="module")
def parted(plain: Server) -> Iterator[Server]:
    """Another server of the same file, with ingests, of whose endpoints every second one is at the first."""
    flags = ("-ingest", "-endpoints", "5", "-elsewhere", f"grpc+tcp://{plain.address}")
    with serving(plain.data, *flags) as server:
        yield server


def test_a_query_by_text_and_prepared(plain: Server) -> None:
    for statement in ("text", "prepared"):
        query = "SELECT id, name FROM things -- all of them ;"
        record = good(trial(plain.url, "get", REMOTE, query=query, statement=statement), ROWS)
        assert sums(record)["id"] == IDS % 2**64
        assert sums(record)["name"] == sum(len(f"ä{n}".encode()) for n in range(1, ROWS + 1) if n % 7)
        kind = "statement" if statement == "text" else "prepared"
        assert record["target"]["protocol"] == f"flightsql-{kind}"
        assert record["target"]["software"] == "db_name sqlite 3"
        assert record["target"]["pid"] == plain.process.pid
        assert record["counts"]["wire_bytes"] > record["counts"]["payload_bytes"]
        assert {"receive", "decode", "verify"} <= set(record["stages"]["client"])


@pytest.mark.parametrize("statement", ["text", "prepared"])
@pytest.mark.parametrize(
    "split",
    [{"split": "key", "split_by": "id"}, {"split_by": "id"}, {"split": "hash", "split_by": "name"}],
    ids=lambda split: "-".join(split.values()),
)
def test_streams_share_a_table(plain: Server, split: dict[str, str], statement: str) -> None:
    record = trial(plain.url, "get", REMOTE, streams=3, table="things", statement=statement, **split)
    good(record, ROWS)
    assert sums(record)["id"] == IDS % 2**64
    assert min(stream["rows"] for stream in record["streams"]) > ROWS / 10


def test_each_stream_reads_all(plain: Server) -> None:
    good(trial(plain.url, "get", REMOTE, streams=2, table="things", split="none"), 2 * ROWS)


@pytest.mark.parametrize("streams", [1, 2, 5])
def test_streams_share_endpoints_wherever_they_are(parted: Server, plain: Server, streams: int) -> None:
    record = good(trial(parted.url, "get", REMOTE, streams=streams, table="things"), ROWS)
    assert sums(record)["id"] == IDS % 2**64
    moved = [stream["rows"] for stream in record["streams"]]
    assert sum(moved) == ROWS and min(moved) >= ROWS // 5


def test_fewer_endpoints_than_streams_are_no_share(plain: Server) -> None:
    record = trial(plain.url, "get", REMOTE, streams=2, table="things")
    refused(record, "unsupported", "1 endpoint, fewer than 2 streams", "--split hash --split-by COLUMN")


def test_a_file_comes_back(parted: Server, tmp_path: Path) -> None:
    columns = {
        "n": pa.array([1, None, -3], pa.int64()), "s": ["a", None, "ü"], "f": pa.array([0.5, None, -1e300]),
    }  # fmt: skip

    def written(blobs: list[bytes | None]) -> dict[str, Any]:
        table = pa.table({**columns, "b": pa.array(blobs, pa.binary())})
        ipc = tmp_path / "x.arrow"
        with pa.ipc.new_file(ipc, table.schema) as file:
            file.write_table(table)
        return {"source": "file", "path": "x", "ipc": str(ipc)}

    good(trial(parted.url, "put", written([b"\0", b"", None]), streams=2, rows=900), 1800)
    good(trial(parted.url, "get", written([b"\0", b"", b"x"]), rows=900), 900, "checksum")
    # The example sends a null among blobs as an empty one: sums do not see it, the digest of our rows does.
    record = trial(parted.url, "get", written([b"\0", b"", None]), rows=900)
    refused(record, "verification", "the client has other values than the server sent")


@pytest.mark.parametrize("way", ["ingest", "insert", "fallback"])
@pytest.mark.parametrize("streams", [1, 3])
def test_puts(plain: Server, parted: Server, way: str, streams: int) -> None:
    server = plain if way == "fallback" else parted
    options = {"statement": "prepared"} if way == "insert" else {}
    record = good(trial(server.url, "put", RECORDS, streams=streams, rows=3000, **options), streams * 3000)
    assert record["target"]["protocol"] == f"flightsql-{'ingest' if way == 'ingest' else 'insert'}"
    note = record["verification"]["note"]
    assert ("takes no bulk ingest" in (note or "")) == (way == "fallback")
    assert not server.has("venturi_put")


def test_a_put_by_time_and_compressed(parted: Server) -> None:
    record = trial(parted.url, "put", RECORDS, duration_s=0.5, compression="lz4")
    good(record, record["counts"]["rows"])
    assert record["counts"]["rows"] >= 1000


def test_a_put_into_a_table_that_is_there(parted: Server) -> None:
    parted.ask("DROP TABLE IF EXISTS theirs")
    parted.ask("CREATE TABLE theirs (a INTEGER, b INTEGER, c INTEGER, d INTEGER)")
    parted.ask("INSERT INTO theirs VALUES (1, 2, 3, 4)")
    taken = trial(parted.url, "put", RECORDS, rows=1000, table="theirs")
    refused(taken, "usage", "table theirs exists already and is not Venturi's")
    record = good(trial(parted.url, "put", RECORDS, rows=1000, table="theirs", setup=False), 1000)
    assert "1 rows were there before" in record["verification"]["note"]
    assert parted.ask("SELECT count(*) FROM theirs") == [(1001,)]
    kept = trial(parted.url, "put", RECORDS, rows=1000, keep=True)
    good(kept, 1000)
    assert parted.ask("SELECT count(*) FROM venturi_put") == [(1000,)]
    # What is ours is made anew.
    good(trial(parted.url, "put", RECORDS, rows=10), 10)
    parted.ask("DROP TABLE theirs")


@pytest.mark.parametrize(
    ("fault", "kind", "part"),
    [
        ("miscount", "verification", "says that it took 2999 rows, 3000 were sent"),
        ("lose", "verification", "the server counts 2999 rows, 3000 were sent"),
    ],
)
def test_a_server_that_loses_rows_is_found_out(tmp_path: Path, fault: str, kind: str, part: str) -> None:
    with serving(tmp_path / "x.db", "-ingest", "-fault", fault) as server:
        refused(trial(server.url, "put", RECORDS, rows=3000), kind, part)


def test_a_server_that_does_not_count(tmp_path: Path) -> None:
    with serving(tmp_path / "x.db", "-ingest", "-fault", "uncounted") as server:
        good(trial(server.url, "put", RECORDS, rows=3000), 3000)


def test_what_goes_wrong_with_a_query(plain: Server) -> None:
    record = trial(plain.url, "get", REMOTE, table="nosuch")
    refused(record, "server", plain.address, 'SELECT * FROM "nosuch"', "no such table: nosuch")
    record = trial(plain.url, "get", REMOTE, query="SELECT *\nFROM things WHERE", statement="prepared")
    refused(record, "server", "SELECT * FROM things WHERE", "incomplete input")
    record = trial(plain.url, "get", REMOTE, streams=2, table="things", split="key", split_by="name")
    refused(record, "usage", "split key: column name is Utf8")
    record = trial(plain.url, "get", REMOTE, streams=2, table="things", split="key", split_by="x")
    refused(record, "usage", "split_by x: there is no such column")


def test_a_query_that_fails_in_mid_result(plain: Server) -> None:
    late = f"SELECT CASE WHEN rowid > {ROWS - 100} THEN json('no json') ELSE id END AS id FROM things"
    record = trial(plain.url, "get", REMOTE, query=late, verify="none")
    message = refused(record, "server", plain.address, "malformed JSON")
    rows = int(message.partition("after ")[2].partition(" rows")[0])
    assert 0 < rows < ROWS


def test_rows_are_not_counted_where_nobody_asks(plain: Server) -> None:
    record = trial(plain.url, "get", REMOTE, table="things", verify="none")
    assert record["error"] is None and record["counts"]["rows"] == ROWS
    good(trial(plain.url, "get", REMOTE, table="things", verify="count"), ROWS, "count")


def test_a_log_in_and_tls(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RIGHT", SECRET)
    monkeypatch.setenv("WRONG", "no")
    monkeypatch.setenv("TOKEN", f"t-{SECRET}")
    tls = ("-certificate", str(certificates.server), "-key", str(certificates.server_key))
    with serving(tmp_path / "x.db", "-user", "me", "-ingest", *tls, password=SECRET) as server:
        server.ask(TABLE)
        server.ask(FILL)
        url = server.url.replace("flightsql://", "flightsql+tls://")
        ca = {"tls_ca": str(certificates.ca)}
        mine = {"user": "me", "password_env": "RIGHT", **ca}
        good(trial(url, "get", REMOTE, streams=2, table="things", split_by="id", **mine), ROWS)
        good(trial(url, "put", RECORDS, streams=2, rows=1000, **mine), 2000)
        good(trial(url, "get", REMOTE, table="things", token_env="TOKEN", **ca), ROWS)
        wrong = trial(url, "get", REMOTE, table="things", user="me", password_env="WRONG", **ca)
        refused(wrong, "auth", "UNAUTHENTICATED")
        nobody = trial(url, "get", REMOTE, table="things", **ca)
        refused(nobody, "auth", "token_env, or user and password_env")
        refused(trial(url, "get", REMOTE, table="things", **(mine | {"tls_ca": None})), "tls", "tls_ca")
        refused(
            trial(server.url, "get", REMOTE, table="things", **mine | {"tls_ca": None}),
            "protocol",
            "flightsql+tls://",
        )
        done = venturi(
            "run", "--target", url, "--table", "things", "--user", "me", "--password-env", "RIGHT",
            "--tls-ca", certificates.ca, "--repeats", "2", cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not leaks(done.stdout + done.stderr, SECRET)
        assert not leaking_files(tmp_path / "venturi-runs", SECRET)


def test_a_server_without_sql(start_reference_server: Start) -> None:
    address = start_reference_server().address
    record = trial(f"flightsql://{address}", "get", REMOTE, table="t")
    refused(record, "unsupported", "no server of Flight SQL", f"flight://{address}/TABLE")


def test_nobody_is_there() -> None:
    refused(trial("flightsql://127.0.0.1:1", "get", REMOTE, table="t"), "unreachable", "127.0.0.1:1")


def test_streams_of_many_at_once_leave_nothing_open(plain: Server) -> None:
    """Prepared statements are closed: the server would keep a read of the table, and with it its log."""
    for _ in range(3):
        good(trial(plain.url, "get", REMOTE, table="things", statement="prepared"), ROWS)
    plain.ask("CREATE TABLE after (a INTEGER)")
    plain.ask("DROP TABLE after")


def test_a_run(plain: Server, tmp_path: Path) -> None:
    done = venturi(
        "run", "--target", plain.url, "--query", "SELECT * FROM things", "--streams", "1,2",
        "--split", "hash", "--split-by", "id", "--statement", "text,prepared", "--repeats", "2",
        "--no-report", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified: sums, every trial" in " ".join(done.stdout.split())
    (run,) = (tmp_path / "venturi-runs").iterdir()
    lines = [json.loads(line) for line in (run / "trials.jsonl").read_text().splitlines()]
    assert {line["parameters"]["statement"] for line in lines if "parameters" in line} == {"text", "prepared"}
