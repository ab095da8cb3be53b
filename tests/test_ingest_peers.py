"""influx:// and opentsdb:// into servers of others: by their own count they have every point."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import require
from run_support import venturi

sys.path.insert(0, str(Path(__file__).parent.parent / "bench" / "ingest"))
import stores

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]
POINTS = 200_000


def started(kind: type[stores.Server], place: Path) -> Iterator[stores.Server]:
    missing = kind.missing()
    require(missing is None, f"{missing} (make test unpacks it)")
    server = kind(place / "data")
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def victoria(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stores.Server]:
    yield from started(stores.VictoriaMetrics, tmp_path_factory.mktemp("victoria"))


@pytest.fixture(scope="module")
def influxdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stores.Server]:
    yield from started(stores.InfluxDb, tmp_path_factory.mktemp("influxdb"))


def counted(server: stores.Server, wanted: int) -> int:
    """What it says it has; some say so a moment later."""
    deadline = time.monotonic() + 20
    while (found := server.stored()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def ingested(target: str, place: Path, *more: str) -> dict[str, Any]:
    words = ["--target", target, "--hosts", "20", "--streams", "2", "--points-per-stream", str(POINTS // 2)]
    once = ["--repeats", "1", "--warmup", "0", "--no-ceilings", "--no-report", "--out", str(place / "run")]
    done = venturi("run", *words, *once, *more)
    assert done.returncode == 0, done.stderr
    (line,) = (place / "run" / "trials.jsonl").read_text().splitlines()
    record: dict[str, Any] = json.loads(line)
    assert record["outcome"] == "ok" and record["counts"]["rows"] == POINTS
    return record


@pytest.mark.parametrize("way", ["influx", "influx+http", "opentsdb"])
def test_victoria_metrics(victoria: stores.Server, tmp_path: Path, way: str) -> None:
    before = victoria.stored()
    port = victoria.ports[{"influx": "influx", "influx+http": "http", "opentsdb": "opentsdb"}[way]]
    path = "/db" if way == "influx+http" else ""
    record = ingested(f"{way}://127.0.0.1:{port}{path}", tmp_path)
    assert record["verification"]["achieved"] == "acknowledged"
    assert counted(victoria, before + POINTS) == before + POINTS


def test_influxdb(influxdb: stores.Server, tmp_path: Path) -> None:
    record = ingested(f"influx+http://127.0.0.1:{influxdb.ports['http']}/bench", tmp_path)
    assert record["verification"]["achieved"] == "acknowledged"
    assert counted(influxdb, POINTS) == POINTS


def test_a_database_that_is_not_there_is_said(influxdb: stores.Server, tmp_path: Path) -> None:
    target = f"influx+http://127.0.0.1:{influxdb.ports['http']}/nowhere"
    done = venturi("run", "--target", target, "--points-per-stream", "1000", "--out", str(tmp_path / "run"))
    assert done.returncode != 0
    assert "database not found" in done.stderr + done.stdout
