"""Charrow through shared memory: trials and readers against our own server, and before a stranger's that
tells the truth or lies about it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.charrow import served
from support.charrow_peer_ring import RingServer
from support.flight import mixed, run_trial, succeeded, write_ipc
from support.measured import ONCE, measured
from support.run import venturi
from support.wait import wait_until
from venturi.common.core import load_core
from venturi.store.directory import RunDirectory

pytestmark = pytest.mark.usefixtures("core")
ROWS = 40_000
RING = {"ring_bytes": 65536}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server in this process."""
    place = tmp_path_factory.mktemp("charrow-shm")
    table = mixed(30_000)
    at = table.schema.get_field_index("colour")
    write_ipc(table.set_column(at, "colour", table["colour"].cast(pa.string())), place / "mixed.arrow")
    with served({"mixed": place / "mixed.arrow"}, unix=str(place / "s")) as path:
        yield f"charrow+shm://{path}"


def rings() -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:venturi-ring" in line]


def until_there_are_none() -> None:
    wait_until(lambda: not rings(), rings)


def get(url: str, text: str | None = None, **changes: Any) -> dict[str, Any]:
    options = changes.pop("options", {}) | ({"query": text} if text is not None else {})
    data = {"source": "remote"} if text is not None else {"source": "records", "columns": 4, "seed": 1}
    return run_trial(url, options=options, **{"data": data, **changes})


@pytest.mark.parametrize("more", [{}, {"compression": "lz4"}, {"compression": "zstd"}, {"checksum": True}])
@pytest.mark.parametrize(("streams", "decoders", "ring"), [(1, 0, {}), (3, 2, RING)])
def test_what_came_is_what_was_sent(
    server: str, more: dict[str, Any], streams: int, decoders: int, ring: dict[str, int]
) -> None:
    options = {**more, **ring, "decoders": decoders, "encoders": 2}
    for text in ("SELECT * FROM mixed", "SELECT * FROM state_rows(rows = 40000)", None):
        rows = {} if text else {"rows_per_stream": 90_000}
        record = succeeded(get(server, text, streams=streams, options=options, **rows))
        assert record["verification"]["achieved"] == "checksum"
        assert record["verification"]["checksum"] == record["verification"]["expected_checksum"]
        assert record["resources"]["same_machine"] is True
        if not more:
            assert record["counts"]["wire_bytes"] > record["counts"]["payload_bytes"]
    until_there_are_none()


def test_a_duration_ends_an_endless_query(server: str) -> None:
    record = succeeded(get(server, None, streams=2, duration_ns=300_000_000))
    assert record["counts"]["rows"] > 0 and record["verification"]["achieved"] == "checksum"


def test_a_reader_leaves_in_the_middle(server: str) -> None:
    endless = "SELECT * FROM records(block_rows = 50000)"
    text = "SELECT * FROM records(rows = 100000, block_rows = 30000)"
    read = load_core().charrow_reader
    assert sum(map(len, pa.RecordBatchReader.from_stream(read(server, text, "{}")))) == 100_000
    reader = pa.RecordBatchReader.from_stream(read(server, endless, json.dumps(RING)))
    assert len(reader.read_next_batch()) == 50_000
    assert rings()
    del reader
    until_there_are_none()
    assert succeeded(get(server, text))["counts"]["rows"] == 100_000


def test_a_server_without_room_for_a_ring_says_so(tmp_path: Path) -> None:
    with served(unix=str(tmp_path / "small"), ring_memory_bytes=150_000) as path:
        said = get(f"charrow+shm://{path}", rows_per_stream=1000)["error"]["message"]
        assert "over 150000 (--ring-memory)" in said
        succeeded(get(f"charrow+shm://{path}", rows_per_stream=1000, options=RING))
    with served(unix=str(tmp_path / "none"), ring_memory_bytes=0) as path:
        said = get(f"charrow+shm://{path}", rows_per_stream=1000)["error"]["message"]
        assert "offers no shared memory" in said and "charrow+unix://" in said


# ---- a stranger's server


def batches() -> list[pa.RecordBatch]:
    table = pa.table({"n": pa.array(range(ROWS), pa.int64()), "t": [f"row {i}" for i in range(ROWS)]})
    return table.to_batches(max_chunksize=5000)


@pytest.mark.parametrize("streams", [1, 3])
def test_a_stranger_that_keeps_to_the_protocol(tmp_path: Path, streams: int) -> None:
    with RingServer(tmp_path / "s", batches()) as stranger:
        url = f"charrow+shm://{stranger.address}"
        record = succeeded(get(url, "SELECT 1", streams=streams, options=RING, verify="count"))
        assert record["counts"]["rows"] == ROWS
        assert stranger.freed > 65536


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("none", "offers no shared memory"),
        ("no file", "speaks of shared memory, and brings none"),
        ("plain", "no memory that can be sealed"),
        ("large", "a ring of 65536 bytes was asked for"),
        ("dies", "closed the connection"),
    ],
)
def test_a_stranger_that_lies_is_an_error(tmp_path: Path, lie: str, said: str) -> None:
    with RingServer(tmp_path / "s", batches(), lie) as stranger:
        record = get(f"charrow+shm://{stranger.address}", "SELECT 1", options=RING, verify="count")
        assert record["outcome"] == "failed" and said in record["error"]["message"], record["error"]


# ---- a run


def test_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--ring", "64Ki,1Mi", "--rows-per-stream", "400k", "--streams", "1", *ONCE[:-1])
    trials = measured(out, "charrow+shm://local", *words)
    assert {trial["parameters"]["ring"] for trial in trials} == {65536, 1 << 20}
    assert all(trial["outcome"] == "ok" for trial in trials)
    probed = {line["kind"] for line in RunDirectory(out).ceiling_records()}
    assert "memory" in probed <= {"memory", "engine"}
    assert "  memory copy" in venturi("show", out, "--cell", "best").stdout
    done = venturi("ceilings", "charrow+shm:///run/s")
    assert done.returncode == 2 and "memory copy is its limit" in done.stderr
