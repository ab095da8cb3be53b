"""A bit of a store's files turns: both ways to ask by SQL name the file, and answer from the others."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.flight as flight
import pytest

from support.run import venturi
from support.store import StoreInProcess, row
from venturi.servers.timeseries.flight import StoreFlight
from venturi.servers.timeseries.tables import Sealed

pytestmark = pytest.mark.usefixtures("core")

QUERIES = (
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
        found = [connection.sql(query).to_arrow_table().to_pylist() for query in QUERIES]
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
    done = venturi("sql", data, QUERIES[0], "--format", "csv")
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
def client(data: Path) -> Iterator[Any]:
    server = StoreFlight(data, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    with flight.connect(f"grpc+tcp://{server.address}") as client:
        yield client
    server.shutdown()


def test_flight_answers_from_the_others_and_names_it(
    whole: Path, data: Path, tmp_path: Path, client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its server lives on: it sees what changes between two queries, and what is put back."""

    def asked(query: str) -> tuple[list[Any], list[str]]:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(query))
        table = client.do_get(info.endpoints[0].ticket).read_all()
        assert table.schema.equals(info.schema, check_metadata=True)
        named = json.loads((table.schema.metadata or {}).get(b"damaged", b"[]"))
        return table.to_pylist(), [one["file"] for one in named]

    everything = [asked(query) for query in QUERIES]
    assert all(named == [] for _, named in everything)
    for file in files(data):
        expected = without(whole, file, tmp_path / f"without-{file.parent.name}-{file.name}")
        content = turned(file, file.stat().st_size // 2)
        assert [asked(query) for query in QUERIES] == [(rows, [str(file)]) for rows in expected]
        file.write_bytes(content)
        assert f"warning: {file}: " in capsys.readouterr().err
        # Seen whole again, so that the next damage is news.
        assert asked(QUERIES[0]) == everything[0]
    assert [asked(query) for query in QUERIES] == everything
