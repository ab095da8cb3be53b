"""flightsql://: gets and puts against Arrow's Flight SQL server for Go, over SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.flight import Certificates, Start
from support.flightsql import Server, serving
from support.read import RECORDS, file_of, get, good, put, refused, sums
from support.secret import HARD

pytestmark = pytest.mark.usefixtures("core")

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
        record = good(get(plain.url, query=query, statement=statement), ROWS)
        assert sums(record)["id"] == IDS % 2**64
        assert sums(record)["name"] == sum(len(f"ä{n}".encode()) for n in range(1, ROWS + 1) if n % 7)
        kind = "statement" if statement == "text" else "prepared"
        assert record["target"]["protocol"] == f"flightsql-{kind}"


@pytest.mark.parametrize("statement", ["text", "prepared"])
@pytest.mark.parametrize(
    "split",
    [{"split": "key", "split_by": "id"}, {"split_by": "id"}, {"split": "hash", "split_by": "name"}],
    ids=lambda split: "-".join(split.values()),
)
def test_streams_share_a_table(plain: Server, split: dict[str, str], statement: str) -> None:
    record = get(plain.url, streams=3, table="things", statement=statement, **split)
    good(record, ROWS)
    assert sums(record)["id"] == IDS % 2**64
    assert min(stream["rows"] for stream in record["streams"]) > ROWS / 10


@pytest.mark.parametrize("streams", [1, 2, 5])
def test_streams_share_endpoints_wherever_they_are(parted: Server, plain: Server, streams: int) -> None:
    record = good(get(parted.url, streams=streams, table="things"), ROWS)
    assert sums(record)["id"] == IDS % 2**64
    moved = [stream["rows"] for stream in record["streams"]]
    assert sum(moved) == ROWS and min(moved) >= ROWS // 5


def test_fewer_endpoints_than_streams_are_no_share(plain: Server) -> None:
    record = get(plain.url, streams=2, table="things")
    refused(record, "unsupported", "1 endpoint, fewer than 2 streams", "--split hash --split-by COLUMN")
    # Rows of our own are shared by their first column, which this server's plan does not name.
    shared = get(plain.url, data=RECORDS, rows=900, streams=2, verify="none")
    assert (shared["error"], shared["counts"]["rows"]) == (None, 1800)


def test_a_file_comes_back(parted: Server, tmp_path: Path) -> None:
    columns = {
        "n": pa.array([1, None, -3], pa.int64()), "s": ["a", None, "ü"], "f": pa.array([0.5, None, -1e300]),
    }  # fmt: skip

    def written(blobs: list[bytes | None]) -> dict[str, Any]:
        return file_of(tmp_path / "x.arrow", pa.table({**columns, "b": pa.array(blobs, pa.binary())}))

    good(put(parted.url, data=written([b"\0", b"", None]), streams=2, rows=900), 1800)
    good(get(parted.url, data=written([b"\0", b"", b"x"]), rows=900), 900, "checksum")
    # The example sends a null among blobs as an empty one: sums do not see it, the digest of our rows does.
    record = get(parted.url, data=written([b"\0", b"", None]), rows=900)
    refused(record, "verification", "the client has other values than the server sent")


@pytest.mark.parametrize("way", ["ingest", "insert", "fallback"])
@pytest.mark.parametrize("streams", [1, 3])
def test_puts(plain: Server, parted: Server, way: str, streams: int) -> None:
    server = plain if way == "fallback" else parted
    options = {"statement": "prepared"} if way == "insert" else {}
    record = good(put(server.url, streams=streams, rows=3000, **options), streams * 3000)
    assert record["target"]["protocol"] == f"flightsql-{'ingest' if way == 'ingest' else 'insert'}"
    note = record["verification"]["note"]
    assert ("takes no bulk ingest" in (note or "")) == (way == "fallback")
    assert not server.has("venturi_put")


def test_a_put_by_time_and_compressed(parted: Server) -> None:
    record = put(parted.url, duration_s=0.5, compression="lz4")
    good(record, record["counts"]["rows"])
    assert record["counts"]["rows"] >= 1000


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("miscount", "says that it took 2999 rows, 3000 were sent"),
        ("lose", "the server counts 2999 rows, 3000 were sent"),
        ("uncounted", ""),
    ],
)
def test_a_server_that_loses_rows_is_found_out(tmp_path: Path, fault: str, said: str) -> None:
    """A server that counts no rows is not accused of losing any."""
    with serving(tmp_path / "x.db", "-ingest", "-fault", fault) as server:
        record = put(server.url, rows=3000)
    refused(record, "verification", said) if said else good(record, 3000)


def test_what_goes_wrong_with_a_query(plain: Server) -> None:
    record = get(plain.url, query="SELECT *\nFROM things WHERE", statement="prepared")
    refused(record, "server", "SELECT * FROM things WHERE", "incomplete input")
    record = get(plain.url, streams=2, table="things", split="key", split_by="name")
    refused(record, "usage", "split key: column name is Utf8")
    record = get(plain.url, streams=2, table="things", split="key", split_by="x")
    refused(record, "usage", "split_by x: there is no such column")


def test_a_token_and_a_server_of_tls_alone(
    tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", f"t-{HARD}")
    tls = ("-certificate", str(certificates.server), "-key", str(certificates.server_key))
    with serving(tmp_path / "x.db", "-user", "me", *tls, password=HARD) as server:
        server.ask(TABLE)
        server.ask(FILL)
        url = server.url.replace("flightsql://", "flightsql+tls://")
        good(get(url, table="things", token_env="TOKEN", tls_ca=str(certificates.ca)), ROWS)
        plain = get(server.url, table="things", user="me", password_env="TOKEN")
        refused(plain, "protocol", "flightsql+tls://")


def test_a_server_without_sql(start_reference_server: Start) -> None:
    address = start_reference_server().address
    record = get(f"flightsql://{address}", table="t")
    refused(record, "unsupported", "no server of Flight SQL", f"flight://{address}/TABLE")


def test_streams_of_many_at_once_leave_nothing_open(plain: Server) -> None:
    """Prepared statements are closed: the server would keep a read of the table, and with it its log."""
    for _ in range(3):
        good(get(plain.url, table="things", statement="prepared"), ROWS)
    plain.ask("CREATE TABLE after (a INTEGER)")
    plain.ask("DROP TABLE after")
