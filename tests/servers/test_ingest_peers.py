"""influx:// and opentsdb:// into servers of others: by their own count they have every point."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from support import timeseries as stores
from support.needs import require
from support.read import ONCE, ran
from support.run import venturi
from support.wait import wait_until
from venturi.common.errors import ExitCode

pytestmark = pytest.mark.usefixtures("core")
POINTS = 200_000


class GuardedInfluxDb(stores.InfluxDb):
    """It answers to `loader` and its password only."""

    log_in: ClassVar = {"u": "loader", "p": "s3cret pass&word"}

    def command(self) -> list[str]:
        command = super().command()
        config = Path(command[-1])
        config.write_text(config.read_text().replace("[http]\n", "[http]\n  auth-enabled = true\n"))
        return command

    def answers(self) -> bool:
        there = f"http://127.0.0.1:{self.ports['http']}/query"
        stores.fetch(there, b"q=CREATE USER loader WITH PASSWORD 's3cret pass%26word' WITH ALL PRIVILEGES")
        return super().answers()


Peers = Callable[[type[stores.Server]], stores.Server]


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    """Starts a server of this kind when a test first asks for it."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def started(kind: type[stores.Server]) -> stores.Server:
            missing = kind.missing()
            require(missing is None, f"{missing} (make test-all unpacks it)")
            server = kind(tmp_path_factory.mktemp("peer") / "data")
            server.start()
            stack.callback(server.stop)
            return server

        yield started


def until_stored(server: stores.Server, wanted: int) -> None:
    """Some count a moment after they have taken it."""
    wait_until(lambda: server.stored() == wanted, server.stored)


def ingested(target: str, place: Path, *more: str) -> dict[str, Any]:
    words = ["--target", target, "--hosts", "20", "--streams", "2", "--points-per-stream", str(POINTS // 2)]
    (record,) = ran(place / "run", *words, *ONCE, *more)
    assert record["outcome"] == "ok" and record["counts"]["rows"] == POINTS
    return record


START = ("--start", "2001-01-01")
"""Points that are nobody's yet."""
WAYS = [
    *((stores.VictoriaMetrics, way, "") for way in ("influx", "influx+http", "opentsdb")),
    *((stores.QuestDb, way, "QuestDB ") for way in ("influx", "influx+http")),
    (stores.InfluxDb, "influx+http", "InfluxDB 1."),
]


@pytest.mark.parametrize(("kind", "way", "software"), WAYS)
def test_every_point_is_there(
    peers: Peers, tmp_path: Path, kind: type[stores.Server], way: str, software: str
) -> None:
    """Those that say who they are can be asked for their count."""
    server = peers(kind)
    before, port = server.stored(), server.ports[way.replace("influx+", "")]
    target = f"{way}://127.0.0.1:{port}{'/bench' if way == 'influx+http' else ''}"
    more = ("--http-port", str(server.ports["http"])) if software and way == "influx" else ()
    record = ingested(target, tmp_path, *more, *(START if kind is stores.InfluxDb else ()))
    found = record["verification"]
    if software:
        assert record["target"]["software"].startswith(software)
        assert (found["achieved"], found["rows"], found["expected_rows"]) == ("count", POINTS, POINTS)
    else:
        assert found["achieved"] == "acknowledged"
    until_stored(server, before + POINTS)
    if kind is stores.InfluxDb:
        # The same points once more take the places of those that are there.
        (tmp_path / "again").mkdir()
        found = ingested(target, tmp_path / "again", *START)["verification"]
        assert found["achieved"] == "acknowledged"
        assert f"{POINTS} before and {POINTS} afterwards" in found["note"]


def test_influxdb_that_wants_a_log_in(peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFLUX_PW", "s3cret pass&word")
    monkeypatch.setenv("INFLUX_WRONG", "guessed")
    server = peers(GuardedInfluxDb)
    target = f"influx+http://127.0.0.1:{server.ports['http']}/bench"
    who = ("--user", "loader", "--password-env")
    record = ingested(target, tmp_path, "--start", "2017-01-01", *who, "INFLUX_PW")
    assert record["verification"]["achieved"] == "count"
    until_stored(server, POINTS)
    for place, wrong in (("wrong", (*who, "INFLUX_WRONG")), ("nobody", ())):
        words = ["--points-per-stream", "1000", "--no-ceilings", "--out", str(tmp_path / place), *wrong]
        done = venturi("run", "--target", target, *words)
        assert done.returncode == ExitCode.TRIALS_FAILED and "the server said 401" in done.stderr, done.stderr


def test_a_database_that_is_not_there_is_said(peers: Peers, tmp_path: Path) -> None:
    influxdb = peers(stores.InfluxDb)
    target = f"influx+http://127.0.0.1:{influxdb.ports['http']}/nowhere"
    done = venturi("run", "--target", target, "--points-per-stream", "1000", "--out", str(tmp_path / "run"))
    assert done.returncode != 0
    assert "database not found" in done.stderr + done.stdout
