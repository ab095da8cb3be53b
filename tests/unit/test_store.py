"""The run directory: what is written, what survives a crash, what is refused."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.synthetic import cells, lines, make_run
from venturi.common import hdr
from venturi.common.errors import ExitCode, StoreError
from venturi.engine.record import trial_of
from venturi.store import directory as store
from venturi.store import tables
from venturi.store.directory import RunDirectory
from venturi.store.writer import RunWriter


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_run(tmp_path / "r", cells(("get",), (2,), rows=(100_000,)), repeats=3, warmup=0)


def another(run: Path) -> dict[str, Any]:
    """The line of one more trial."""
    return lines(run)[0] | {"trial": "another", "repeat": 3, "order": 3}


def test_tables(run: Path) -> None:
    directory = RunDirectory(run)
    trials = directory.table("trials")
    assert trials.num_rows == 3 and trials["order"].to_pylist() == [0, 1, 2]
    assert trials["payload_bytes"].to_pylist() == [100_000 * 32 * 2] * 3
    assert directory.table("streams").num_rows == 6
    assert set(directory.table("stages")["end"].to_pylist()) == {"client", "server"}
    assert all(5e9 < rate < 6e9 for rate in directory.table("ceilings")["bytes_per_second"].to_pylist())
    samples = directory.samples()
    assert samples.column_names[0] == "trial" and len(set(samples["trial"].to_pylist())) == 3
    assert "samples" not in lines(run)[0]
    # A percentile needs batches beyond it, in SQL as in `show`.
    line = lines(run)[0] | {"order": None}
    line["latency"]["service"]["count"] = 245
    (one,) = tables.trials([trial_of(line)]).to_pylist()
    assert one["service_p99_ns"] > 0 and one["service_p999_ns"] is one["order"] is None
    assert 99.9 not in tables.latency([trial_of(line)])["percentile"].to_pylist()


def test_an_empty_run_has_tables_with_the_same_columns(run: Path, tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "empty") as writer:
        writer.write_environment({"run": "empty"})
    empty, full = RunDirectory(tmp_path / "empty"), RunDirectory(run)
    for name in ("trials", "streams", "latency", "stages", "resources", "ceilings", "samples"):
        assert empty.table(name).schema == full.table(name).schema


@pytest.mark.parametrize("torn", [b'{"format":1,"outco', b'{"format":1}', b"\0\0\0", b"\0\0\n", b"{\n"])
def test_a_torn_last_line_is_repaired_on_resume(run: Path, torn: bytes) -> None:
    before = (run / "trials.jsonl").read_bytes()
    with (run / "trials.jsonl").open("ab") as file:
        file.write(torn)
    assert len(RunDirectory(run).records()) == 3
    with RunWriter.resume(run) as writer:
        assert writer.repaired == [f"{run / 'trials.jsonl'}: cut off a torn last line of {len(torn)} bytes"]
        assert (run / "trials.jsonl").read_bytes() == before
        writer.append_trial(another(run))
    assert len(RunDirectory(run).records()) == 4


@pytest.mark.parametrize(
    ("part", "instead", "said"),
    [
        (".+", "garbage", "not JSON: invalid character"),
        ('"interval_ns":[0-9]+', '"interval_ns":0', "times.interval_ns is 0 in a good trial"),
        ('"interval_ns":[0-9]+', '"interval_ns":-5', "times.interval_ns: expected a whole number from 0 on"),
        ('"user_ns":[0-9]+', '"user_ns":"many"', "cpu.client.user_ns: expected .*, got text"),
        ("}$", ',"hosts":[{"streams":[0]}]}', "hosts.0..streams: expected a list of length 2"),
        ("^", "", "trial [0-9a-f]{16} is in line 1 already"),
    ],
)
def test_damage_in_the_middle_is_an_error(part: str, instead: str, said: str, run: Path) -> None:
    path = run / "trials.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, re.sub(part, instead, first), *rest]) + "\n")
    with pytest.raises(StoreError, match=rf"trials.jsonl:2: {said}.*; the file is damaged"):
        RunDirectory(run).records()


def test_a_resume_takes_away_what_a_kill_left_half_written(run: Path) -> None:
    samples = {path.name for path in (run / "samples").iterdir()}
    assert len(samples) == 3
    (run / "environment.json.tmp").write_text("{")
    (run / "samples" / "0123.tmp").write_bytes(b"PAR1")
    (run / "samples" / "0123456789abcdef.parquet").write_bytes(b"PAR1")
    (run / "notes.txt").write_text("mine")
    with RunWriter.resume(run) as resumed:
        assert resumed.repaired == []
    assert {path.name for path in (run / "samples").iterdir()} == samples
    assert not list(run.glob("*.tmp")) and (run / "notes.txt").exists()


def test_what_is_no_number_is_written_as_null(run: Path, tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "other") as writer:
        writer.append_trial({**another(run), "extra": [float("nan"), {"x": float("inf")}, 1.5]})
        (found,) = lines(tmp_path / "other")
    assert found["extra"] == [None, {"x": None}, 1.5]


def test_two_runs_in_one_directory_are_refused(run: Path) -> None:
    with RunWriter.resume(run):
        for open_it in (RunWriter.resume, RunWriter.create):
            with pytest.raises(StoreError, match=f"another run is writing here \\(process {os.getpid()}\\)"):
                open_it(run)
    with pytest.raises(StoreError, match="holds a run already"):
        RunWriter.create(run)


def test_what_a_killed_run_had_forked_is_waited_for(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    held = os.open(run / store.LOCK, os.O_RDWR | os.O_CREAT)
    os.pwrite(held, f"{gone.pid}\n".encode(), 0)
    fcntl.flock(held, fcntl.LOCK_EX)
    monkeypatch.setattr("venturi.store.writer.time.sleep", lambda seconds: os.close(held))
    with RunWriter.resume(run) as resumed:
        assert resumed.repaired == []


@pytest.mark.parametrize("name", ["environment.json", "trials.jsonl"])
def test_a_newer_format_is_refused(run: Path, name: str) -> None:
    path = run / name
    path.write_text(re.sub(r'"format":( ?)1', r'"format":\g<1>2', path.read_text()))
    with pytest.raises(StoreError, match="written in format 2, this Venturi reads up to 1") as caught:
        RunDirectory(run).records()
    assert caught.value.exit_code == ExitCode.STORE


def test_a_full_disk_leaves_the_file_as_it_was(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (run / "trials.jsonl").read_bytes()
    write = os.write

    def half(descriptor: int, data: Any) -> int:
        if len(data) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, bytes(data)[: len(data) // 2])

    with RunWriter.resume(run) as writer:
        monkeypatch.setattr(store.os, "write", half)
        with pytest.raises(StoreError, match=r"trials.jsonl: the disk is full") as caught:
            writer.append_trial(another(run))
        monkeypatch.undo()
    assert caught.value.exit_code == ExitCode.STORE and caught.value.hint
    assert (run / "trials.jsonl").read_bytes() == before


def test_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such run directory"):
        RunDirectory(tmp_path / "nothing")
    with pytest.raises(StoreError, match=r"x\\udcff: the name is not UTF-8"):
        RunWriter.check(tmp_path / "x\udcff")
    with pytest.raises(StoreError, match="no run was begun in it"):
        RunDirectory(tmp_path)


def test_histograms_read_back() -> None:
    counts = {1: 3, 2047: 1, 2048: 5, 1_000_000: 70_000, 123_456_789: 1, 2**40: 2}
    found = hdr.decode(hdr.encode(counts))
    assert sum(found.values()) == sum(counts.values())
    for (value, count), (read, read_count) in zip(sorted(counts.items()), sorted(found.items()), strict=True):
        assert count == read_count and value <= read <= value * 1.001
    for text in ("", "AAAA", "!", hdr.encode(counts)[:40]):
        with pytest.raises(ValueError):
            hdr.decode(text)
