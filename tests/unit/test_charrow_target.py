"""Trials over charrow before our own server, by TCP and through shared memory; before a stranger's server
that tells the truth about its memory or lies; and as runs of the command line."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import socket
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.charrow import plain, served
from support.charrow_peer import BLOCK, HELLO, Partition, number, sized
from support.charrow_peer_server import NewServer
from support.flight import mixed, run_trial, succeeded, write_ipc
from support.read import ONCE, ran
from support.run import venturi
from support.wait import wait_until
from venturi.common.runtime import load_core
from venturi.store.directory import RunDirectory

FREED, FILLED = 2, 16


class RingServer(NewServer):
    """A stranger's that hands blocks out through shared memory. It lies as `lie` says:

    `none`: it knows of no rings; `no file`: it hands none out; `plain`: a pipe; `large`: twice what was asked
    for; `dies`: in the middle of block 3 it hangs up. Rust's own tests hold what else a ring may lie.
    """

    def __init__(self, path: Path, batches: Sequence[pa.RecordBatch], lie: str | None = None) -> None:
        self._path, self.lie = path, lie
        self.freed = 0
        self._sent = 0
        self._rings: weakref.WeakKeyDictionary[Partition, _Ring] = weakref.WeakKeyDictionary()
        super().__init__(batches)

    def _listen(self) -> tuple[socket.socket, str]:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen()
        return listener, str(self._path)

    def _hello(self, peer: Partition, said: Mapping[str, str], parameters: Mapping[str, str]) -> None:
        wanted = int(parameters.get("ring", 0))
        if not wanted or self.lie == "none":
            super()._hello(peer, said, parameters)
            return
        told = 2 * wanted if self.lie == "large" else wanted
        self._rings[peer] = ring = _Ring(told, self.lie)
        lines = "\n".join(f"{key}={value}" for key, value in {**said, "ring": told}.items())
        files = [] if self.lie == "no file" else [ring.file]
        socket.send_fds(peer.socket, [number(HELLO) + sized(lines)], files)

    def _flag(self, peer: Partition) -> int:
        while (flag := peer.number()) == FREED:
            self._free(peer)
        return flag

    def _free(self, peer: Partition) -> None:
        count, ring = peer.number(), self._rings[peer]
        assert 0 < count <= ring.used
        ring.used -= count
        self.freed += count

    def _block(self, peer: Partition, payload: bytes) -> None:
        ring = self._rings[peer]
        at = self._sent
        self._sent += 1
        header = 8 + int.from_bytes(payload[4:8], "little")
        peer.send(number(BLOCK) + number(len(payload)) + payload[:header])
        body = payload[header:]
        while body:
            while ring.used == ring.length:
                assert peer.number() == FREED
                self._free(peer)
            room = min(ring.length - ring.used, 9000)
            piece, body = body[:room], body[room:]
            ring.write(piece)
            peer.send(number(FILLED) + number(len(piece)))
            if at == 3 and self.lie == "dies":
                raise EOFError


class _Ring:
    def __init__(self, length: int, lie: str | None) -> None:
        self.length, self.used, self._at = length, 0, 0
        if lie == "plain":
            self.file, other = os.pipe()
            os.close(other)
            return
        self.file = os.memfd_create("stranger", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.file, length)
        fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        self._memory = mmap.mmap(self.file, length)

    def write(self, piece: bytes) -> None:
        first = min(len(piece), self.length - self._at)
        self._memory[self._at : self._at + first] = piece[:first]
        self._memory[: len(piece) - first] = piece[first:]
        self._at = (self._at + len(piece)) % self.length
        self.used += len(piece)

    def __del__(self) -> None:
        os.close(self.file)


pytestmark = pytest.mark.usefixtures("core")
ROWS = 120_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("charrow-target")
    table = pa.table({"n": pa.array(range(ROWS), pa.int64()), "t": [f"row {i}" for i in range(ROWS)]})
    for name, rows in (("numbers", table), ("mixed", plain(mixed(3000)))):
        with pa.ipc.new_file(folder / f"{name}.arrow", rows.schema) as writer:
            writer.write_table(rows, max_chunksize=1000)
    tables = {name: folder / f"{name}.arrow" for name in ("numbers", "mixed")}
    with served(tables, environment={"cores": {"usable": 2}}) as address:
        yield f"charrow://{address}"


def get(url: str, text: str | None = None, **changes: Any) -> dict[str, Any]:
    options = changes.pop("options", {}) | ({"query": text} if text is not None else {})
    data = {"source": "remote"} if text is not None else {"source": "records", "columns": 4, "seed": 1}
    return run_trial(url, options=options, **{"data": data, **changes})


@pytest.mark.parametrize("options", [{"compression": "lz4"}, {"compression": "zstd"}, {"checksum": True}])
def test_blocks_may_be_compressed_and_summed(server: str, options: dict[str, Any]) -> None:
    record = succeeded(get(server, "SELECT * FROM mixed", streams=3, options=options))
    assert record["counts"]["rows"] == 3000 and record["verification"]["achieved"] == "checksum"
    if "compression" in options:
        plain = succeeded(get(server, "SELECT * FROM numbers"))["counts"]
        packed = succeeded(get(server, "SELECT * FROM numbers", options=options))["counts"]
        assert packed["payload_bytes"] == plain["payload_bytes"]
        assert packed["wire_bytes"] < 0.8 * plain["wire_bytes"]


def test_pools_and_stages_of_both_ends_are_in_the_record(server: str) -> None:
    options = {"encoders": 2, "decoders": 3}
    text = "SELECT * FROM state_rows(rows = 400000)"
    record = succeeded(get(server, text, streams=2, options=options))
    decoders, encoders = record["pools"]["client"]["decoders"], record["pools"]["server"]["encoders"]
    assert (decoders["threads"], encoders["threads"]) == (3, 2)
    for pool in (decoders, encoders):
        assert 0 < pool["busy_ns"] <= pool["time_ns"]
    assert record["workers"]["client"]["workers"] == 2 + 3
    assert record["workers"]["server"]["workers"] == 2 + 2
    assert record["stages"]["server"]["encode"] > 0 and record["stages"]["client"]["receive"] > 0
    for end in ("client", "server"):
        whole = record["workers"][end]["time_ns"]
        assert sum(record["stages"][end].values()) == pytest.approx(whole, rel=0.05)
    assert record["cpu"]["server"]["user_ns"] > 0 and record["target"]["software"].startswith("venturi ")


def test_a_block_over_the_limit_is_refused(server: str) -> None:
    record = get(server, "SELECT * FROM numbers", options={"max_block_bytes": 2000})
    assert record["outcome"] == "failed" and "block" in record["error"]["message"]


@pytest.mark.usefixtures("servers_in_process")
def test_a_run_with_a_server_of_our_own(tmp_path: Path) -> None:
    out = tmp_path / "run"
    axes = ["--streams", "2", "--encoders", "1,2", "--decoders", "0,1", "--data", "states"]
    lines = ran(out, "--target", "charrow://local", *axes, "--rows-per-stream", "20k", *ONCE, "--repeats", 2)
    assert len(lines) == 8 and all(line["outcome"] == "ok" for line in lines)
    assert json.loads((out / "environment.json").read_text())["server"]["cores"]["usable"] > 0
    shown = venturi("show", out)
    assert shown.returncode == 0 and "partitions" in shown.stdout, shown.stdout
    best = venturi("best", out)
    assert best.returncode == 0 and "encoders:" in best.stdout and "partition" in best.stdout


@pytest.mark.usefixtures("servers_in_process")
def test_a_file_over_charrow_is_moved_once_whatever_the_partitions(tmp_path: Path) -> None:
    words = ("--streams", "1,3", "--rows-per-batch", "1000,5000", "--data", "builtin:birdstrikes", *ONCE)
    for line in ran(tmp_path / "run", "--target", "charrow://local", *words):
        assert (line["outcome"], line["counts"]["rows"]) == ("ok", 10_000)
        assert line["counts"]["batches"] == 10_000 / line["parameters"]["rows_per_batch"]
        assert line["verification"]["achieved"] == "checksum"


def test_raw_tcp_is_measured_through_the_same_server(server: str) -> None:
    from venturi import _core

    spec = {"target": server, "options": {}, "direction": "get", "streams": 1,
            "duration_ns": 50_000_000}  # fmt: skip
    answer = json.loads(_core.probe_tcp(json.dumps(spec), _core.Control()))
    assert answer["outcome"] == "ok" and answer["bytes"] > 0, answer


def test_the_server_tells_its_environment(server: str) -> None:
    from venturi import _core

    answer = _core.server_environment(server, "{}")
    assert json.loads(answer)["cores"]["usable"] > 0


# ---- through shared memory


SHARED_ROWS = 40_000
RING = {"ring_bytes": 65536}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server in this process."""
    place = tmp_path_factory.mktemp("charrow-shm")
    write_ipc(plain(mixed(30_000)), place / "mixed.arrow")
    with served({"mixed": place / "mixed.arrow"}, unix=str(place / "s")) as path:
        yield f"charrow+shm://{path}"


def rings() -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:venturi-ring" in line]


def until_there_are_none() -> None:
    wait_until(lambda: not rings(), rings)


@pytest.mark.parametrize("more", [{}, {"compression": "lz4"}, {"compression": "zstd"}, {"checksum": True}])
@pytest.mark.parametrize(("streams", "decoders", "ring"), [(1, 0, {}), (3, 2, RING)])
def test_what_came_is_what_was_sent(
    shared: str, more: dict[str, Any], streams: int, decoders: int, ring: dict[str, int]
) -> None:
    options = {**more, **ring, "decoders": decoders, "encoders": 2}
    for text in ("SELECT * FROM mixed", "SELECT * FROM state_rows(rows = 40000)", None):
        rows = {} if text else {"rows_per_stream": 90_000}
        record = succeeded(get(shared, text, streams=streams, options=options, **rows))
        assert record["verification"]["achieved"] == "checksum"
        assert record["verification"]["checksum"] == record["verification"]["expected_checksum"]
        assert record["resources"]["same_machine"] is True
        if not more:
            assert record["counts"]["wire_bytes"] > record["counts"]["payload_bytes"]
    until_there_are_none()


def test_a_duration_ends_an_endless_query(shared: str) -> None:
    record = succeeded(get(shared, None, streams=2, duration_ns=300_000_000))
    assert record["counts"]["rows"] > 0 and record["verification"]["achieved"] == "checksum"


def test_a_reader_leaves_in_the_middle(shared: str) -> None:
    endless = "SELECT * FROM records(block_rows = 50000)"
    text = "SELECT * FROM records(rows = 100000, block_rows = 30000)"
    read = load_core().charrow_reader
    assert sum(map(len, pa.RecordBatchReader.from_stream(read(shared, text, "{}")))) == 100_000
    reader = pa.RecordBatchReader.from_stream(read(shared, endless, json.dumps(RING)))
    assert len(reader.read_next_batch()) == 50_000
    assert rings()
    del reader
    until_there_are_none()
    assert succeeded(get(shared, text))["counts"]["rows"] == 100_000


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
    table = pa.table(
        {"n": pa.array(range(SHARED_ROWS), pa.int64()), "t": [f"row {i}" for i in range(SHARED_ROWS)]}
    )
    return table.to_batches(max_chunksize=5000)


@pytest.mark.parametrize("streams", [1, 3])
def test_a_stranger_that_keeps_to_the_protocol(tmp_path: Path, streams: int) -> None:
    with RingServer(tmp_path / "s", batches()) as stranger:
        url = f"charrow+shm://{stranger.address}"
        record = succeeded(get(url, "SELECT 1", streams=streams, options=RING, verify="count"))
        assert record["counts"]["rows"] == SHARED_ROWS
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


@pytest.mark.usefixtures("short_probes")
def test_a_run(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("--ring", "64Ki,1Mi", "--rows-per-stream", "400k", "--streams", "1", *ONCE[:-1])
    trials = ran(out, "--target", "charrow+shm://local", *words)
    assert {trial["parameters"]["ring"] for trial in trials} == {65536, 1 << 20}
    assert all(trial["outcome"] == "ok" for trial in trials)
    probed = {line["kind"] for line in RunDirectory(out).ceiling_records()}
    assert "memory" in probed <= {"memory", "engine"}
    assert "  memory copy" in venturi("show", out, "--cell", "best").stdout
    done = venturi("ceilings", "charrow+shm:///run/s")
    assert done.returncode == 2 and "memory copy is its limit" in done.stderr
