"""Queries to a store of time series over Arrow Flight, by pyarrow's client and by Venturi itself; and where a
bit of its files turns: both ways to ask by SQL name the file, and answer from the others."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.flight as flight
import pytest

from support.mistakes import check
from support.read import ONCE, ran
from support.run import venturi
from support.store import Store, StoreInProcess, row
from support.wait import wait_until
from venturi.servers.timeseries.flight import QUERIES, StoreFlight
from venturi.servers.timeseries.tables import Sealed

pytestmark = pytest.mark.usefixtures("core")
SECONDS = 3_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store(tmp_path_factory.mktemp("store") / "it's data", "--flight", "0") as store:
        line = store.connect()
        for second in range(SECONDS):
            line.send(row(second, float(second), 2.0))
        assert line.flush() == f"+OK {2 * SECONDS}"
        store.post("/api/seal")
        yield store


@pytest.fixture
def client(store: Store) -> Iterator[Any]:
    host, port = store.address("flight")
    with flight.connect(f"grpc+tcp://{host}:{port}") as client:
        yield client


def asked(client: Any, query: str) -> Any:
    info = client.get_flight_info(flight.FlightDescriptor.for_command(query))
    (endpoint,) = info.endpoints
    table = client.do_get(endpoint.ticket).read_all()
    assert table.schema == info.schema
    return table


def test_sql(client: Any) -> None:
    query = "select metric, count(*) as n, sum(value) as total from points group by all order by metric;"
    assert asked(client, query).to_pylist() == [
        {"metric": "cpu.sys", "n": SECONDS, "total": 2.0 * SECONDS},
        {"metric": "cpu.user", "n": SECONDS, "total": sum(range(SECONDS)) * 1.0},
    ]
    assert asked(client, "with a as (select 1 as x) select x -- of one row\nfrom a").to_pydict() == {"x": [1]}


def test_views_by_their_paths(client: Any) -> None:
    listed = {info.descriptor.path[0].decode(): info for info in client.list_flights()}
    assert set(listed) == {"points", "series"}
    points = client.do_get(listed["points"].endpoints[0].ticket).read_all()
    assert points.num_rows == 2 * SECONDS
    assert points.schema.field("time").type == pa.timestamp("ns", "UTC")
    info = client.get_flight_info(flight.FlightDescriptor.for_path("series"))
    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 2


def test_what_is_no_query_of_points_gets_a_line(client: Any) -> None:
    def refused(query: str) -> str:
        with pytest.raises(pa.ArrowInvalid) as refused:
            asked(client, query.removeprefix("''"))
        return str(refused.value).partition(". Detail: ")[0]

    check("queries", refused)
    with pytest.raises(pa.ArrowInvalid):
        client.get_flight_info(flight.FlightDescriptor.for_path("nothing"))


def test_an_answer_is_made_as_it_is_taken(store: Store, client: Any) -> None:
    """Endless ones do not fill the memory, and who leaves one harms nobody."""
    before = peak(store)
    for _ in range(QUERIES + 2):
        reader = client.do_get(flight.Ticket(b"select * from range(1000000000000)"))
        for _ in range(3):
            assert reader.read_chunk().data.num_rows > 0
        reader.cancel()
    assert peak(store) - before < 400e6
    assert asked(client, "select count(*) as n from points").to_pydict() == {"n": [2 * SECONDS]}


def admitted(client: Any, count: int) -> list[Any]:
    """So many endless answers of which a piece has come; none where not all are let in."""
    readers = []
    try:
        for _ in range(count):
            readers.append(client.do_get(flight.Ticket(b"select * from range(1000000000000)")))
            readers[-1].read_chunk()
    except flight.FlightUnavailableError:
        left(readers)
        return []
    return readers


def left(readers: list[Any]) -> None:
    for reader in readers:
        reader.cancel()


def test_a_query_without_an_end_ends_with_its_client(client: Any) -> None:
    """It has no batch to send, so nothing but a look at the call tells that the client has gone."""
    options = flight.FlightCallOptions(timeout=0.5)

    def ask(_: int) -> None:
        query = flight.Ticket(b"select sum(sqrt(range)) from range(1000000000000)")
        with pytest.raises((flight.FlightTimedOutError, flight.FlightUnavailableError)):
            client.do_get(query, options).read_all()

    with ThreadPoolExecutor(QUERIES) as many:
        list(many.map(ask, range(QUERIES)))
    left(wait_until(lambda: admitted(client, QUERIES)))


def test_so_many_at_a_time(client: Any) -> None:
    readers = wait_until(lambda: admitted(client, QUERIES))
    with pytest.raises(flight.FlightUnavailableError, match="8 queries are under way"):
        client.do_get(flight.Ticket(b"select 1")).read_all()
    left(readers)
    left(wait_until(lambda: admitted(client, 1)))


def test_a_query_beyond_its_memory_gets_a_line(client: Any) -> None:
    query = b"select list(range) from range(1000000000000)"
    with pytest.raises(pa.ArrowInvalid, match=r"(?i)out of memory"):
        client.do_get(flight.Ticket(query)).read_all()


def test_the_store_ends_though_a_query_does_not(tmp_path: Path) -> None:
    with Store(tmp_path / "data", "--flight", "0") as store:
        host, port = store.address("flight")
        with flight.connect(f"grpc+tcp://{host}:{port}") as client:
            reader = client.do_get(flight.Ticket(b"select * from range(1000000000000)"))
            reader.read_chunk()
            store.process.terminate()
            assert store.process.wait(60) == 0


def test_a_killed_store_leaves_no_process(tmp_path: Path) -> None:
    with Store(tmp_path / "data", "--flight", "0") as store:
        child = Path(f"/proc/{answering(store)}")
        store.process.kill()
        wait_until(lambda: not child.exists())


def answering(store: Store) -> int:
    """The process that answers queries."""
    parent = store.process.pid
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(child)


def peak(store: Store) -> int:
    """Most bytes of memory that the server has had."""
    status = Path(f"/proc/{answering(store)}/status").read_text()
    return 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])


def test_venturi_measures_its_queries(store: Store, tmp_path: Path) -> None:
    target = f"flight://{store.hello['addresses']['flight']}?command=select%20*%20from%20points"
    words = ("--operation", "get", "--data", "remote", "--streams", "1,2", *ONCE)
    assert {one["outcome"] for one in ran(tmp_path / "run", "--target", target, *words)} == {"ok"}


def test_a_port_that_is_taken_is_said(store: Store, tmp_path: Path) -> None:
    port = store.address("flight")[1]
    free = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", "0")]
    done = venturi("serve", "timeseries", "--data", tmp_path / "data", *free, "--flight", port)
    assert done.returncode != 0 and f"--flight {port}: cannot serve on 127.0.0.1" in done.stderr
    assert "Traceback" not in done.stderr


# ---- damage


ASKED = (
    "select series, count(*) as n, sum(value) as total from points group by all order by series",
    "select * from points where time > '2020-01-01 00:00:05+00' and value > 3.5 order by all",
    "select * from points where series like '%host=a' order by all",
    "select * from series order by all",
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two segments: of host a, and of host b. Rust's tests hold that damage at any byte is seen,
    also in segments of an earlier version (crates/servers/src/timeseries/tests/damage.rs)."""
    data = tmp_path_factory.mktemp("store") / "data"
    for host in ("a", "b"):
        with StoreInProcess(data, threads=1) as store:
            line = store.connect()
            line.send(b"".join(row(at, at / 7, 3.0 + at % 2, host=host) for at in range(12)))
            assert line.flush() == "+OK 24"
    return data


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def files(data: Path) -> list[Path]:
    return sorted(data.glob("*/*.parquet"))


def turned(file: Path, place: int) -> bytes:
    """Turns a bit at this byte; returns what was there."""
    content = file.read_bytes()
    file.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
    return content


def answers(data: Path) -> tuple[list[Any], list[str]]:
    """What all queries answer, as `venturi sql` and Flight have it, and the files that are named."""
    with duckdb.connect() as connection:
        damaged = Sealed(data).views(connection)
        found = [connection.sql(query).to_arrow_table().to_pylist() for query in ASKED]
        return found, [one.file for one in damaged]


def without(whole: Path, file: Path, folder: Path) -> list[Any]:
    """What is answered where the segment of a file is not there."""
    rest = shutil.copytree(whole, folder)
    for one in files(rest):
        if one.name[:16] == file.name[:16]:
            one.unlink()
    found, named = answers(rest)
    assert named == []
    return found


@pytest.mark.parametrize("folder", ["points", "series"])
@pytest.mark.parametrize("share", [0.05, 0.6, 0.95])
def test_the_command_names_it_and_ends_with_its_code(
    whole: Path, data: Path, tmp_path: Path, folder: str, share: float
) -> None:
    file = sorted((data / folder).glob("*.parquet"))[0]
    turned(file, int(file.stat().st_size * share))
    others = without(whole, file, tmp_path / "without")
    assert answers(data) == (others, [str(file)])
    done = venturi("sql", data, ASKED[0], "--format", "csv")
    assert done.returncode == 7
    warning, error, hint = done.stderr.splitlines()
    assert warning.startswith(f"warning: {file}: ") and warning.endswith("left out of the answer")
    assert error.startswith(f"error: {data}: 1 damaged file") and hint.startswith("hint: ")
    assert done.stdout.splitlines()[1:] == [",".join(map(str, line.values())) for line in others[0]]
    # The store itself says the same.
    with StoreInProcess(data) as store:
        (damaged,) = store.hello["recovered"]["damaged"]
        assert str(data / damaged["file"]) == str(file)
        assert store.stats()["points"] == 24
        assert store.get("/api/stored?metric=cpu.user")["points"] == 12


@pytest.fixture
def other_client(data: Path) -> Iterator[Any]:
    server = StoreFlight(data, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    with flight.connect(f"grpc+tcp://{server.address}") as other_client:
        yield other_client
    server.shutdown()


def test_flight_answers_from_the_others_and_names_it(
    whole: Path, data: Path, tmp_path: Path, other_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its server lives on: it sees what changes between two queries, and what is put back."""

    def asked(query: str) -> tuple[list[Any], list[str]]:
        info = other_client.get_flight_info(flight.FlightDescriptor.for_command(query))
        table = other_client.do_get(info.endpoints[0].ticket).read_all()
        assert table.schema.equals(info.schema, check_metadata=True)
        named = json.loads((table.schema.metadata or {}).get(b"damaged", b"[]"))
        return table.to_pylist(), [one["file"] for one in named]

    everything = [asked(query) for query in ASKED]
    assert all(named == [] for _, named in everything)
    for file in files(data):
        expected = without(whole, file, tmp_path / f"without-{file.parent.name}-{file.name}")
        content = turned(file, file.stat().st_size // 2)
        assert [asked(query) for query in ASKED] == [(rows, [str(file)]) for rows in expected]
        file.write_bytes(content)
        assert f"warning: {file}: " in capsys.readouterr().err
        # Seen whole again, so that the next damage is news.
        assert asked(ASKED[0]) == everything[0]
    assert [asked(query) for query in ASKED] == everything
