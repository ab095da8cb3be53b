"""`venturi run` from end to end against pyarrow.flight and C++ servers, and its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from support.flight import ServerProcess, mixed
from support.run import ROOT

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

Start = Callable[..., ServerProcess]


def venturi(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "venturi", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )


def run(tmp_path: Path, *arguments: object, expect: int = 0, **environment: str) -> list[dict[str, Any]]:
    """The trials of a small run."""
    out = tmp_path / "run"
    done = venturi(
        "run",
        "--out",
        out,
        "--repeats",
        2,
        "--warmup",
        0,
        "--no-report",
        "--quiet",
        *arguments,
        **environment,
    )
    assert done.returncode == expect, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in (out / "trials.jsonl").read_text().splitlines()]


def test_get_a_path_from_pyarrow(tmp_path: Path, pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/endpoints/4"
    trials = run(tmp_path, "--target", target, "--operation", "get", "--data", "remote", "--streams", "1,2")
    assert [trial["outcome"] for trial in trials] == ["ok"] * 4
    assert {trial["counts"]["rows"] for trial in trials} == {1000}


def test_put_a_parquet_file_to_pyarrow(tmp_path: Path, pyarrow_server: ServerProcess) -> None:
    table = mixed(300).drop_columns(["lasts", "nothing"])  # Parquet keeps no duration of pyarrow's
    path = tmp_path / "mixed.parquet"
    pq.write_table(table, path)
    target = f"flight://{pyarrow_server.address}/from-run"
    trials = run(
        tmp_path, "--target", target, "--operation", "put", "--data", path,
        "--rows-per-stream", "1k", "--rows-per-batch", 100, "--streams", 2,
    )  # fmt: skip
    assert [(trial["outcome"], trial["counts"]["rows"]) for trial in trials] == [("ok", 2000)] * 2


def test_a_mid_stream_error_is_a_failed_trial(tmp_path: Path, pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/breaks/3"
    trials = run(tmp_path, "--target", target, "--operation", "get", "--data", "remote", expect=5)
    assert {(trial["outcome"], trial["error"]["kind"]) for trial in trials} == {("failed", "server")}


def test_a_wrong_row_count_fails_verification(tmp_path: Path, pyarrow_server: ServerProcess) -> None:
    target = f"flight://{pyarrow_server.address}/wrong-count/500"
    trials = run(tmp_path, "--target", target, "--operation", "get", "--data", "remote", expect=6)
    assert {trial["error"]["kind"] for trial in trials} == {"verification"}


def test_nobody_listens(tmp_path: Path) -> None:
    done = venturi(
        "run", "--out", tmp_path / "run", "--target", "flight://127.0.0.1:1", "--operation", "get",
        "--rows-per-stream", 1000, "--repeats", 1, "--timeout", "2s", "--no-report",
    )  # fmt: skip
    assert done.returncode == 4
    assert "127.0.0.1:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_secret_is_nowhere_in_the_run(tmp_path: Path, start_pyarrow_server: Start) -> None:
    server = start_pyarrow_server("--user", "ada", "--password", "s3cret-word")
    target = f"flight://{server.address}/mixed"
    arguments = ("--target", target, "--operation", "get", "--data", "remote", "--user", "ada")
    run(tmp_path, *arguments, "--password-env", "PASSWORD", PASSWORD="s3cret-word")
    for path in (tmp_path / "run").rglob("*"):
        assert path.is_dir() or b"s3cret-word" not in path.read_bytes(), path


# ---- Arrow C++ ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def peers() -> dict[str, Path]:
    """The bench's C++ peers; stock Arrow C++ is the implementation behind most Flight servers."""
    from support.needs import require

    build = [sys.executable, "-m", "bench.flight.build"]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=300)
    require(done.returncode == 0, f"a C++20 compiler or Arrow C++ ({done.stderr.strip()[-200:]})")
    return {Path(line).name: Path(line) for line in done.stdout.split()}


@pytest.mark.parametrize("operation", ["get", "put"])
def test_run_against_arrow_cpp(tmp_path: Path, peers: dict[str, Path], operation: str) -> None:
    server = ServerProcess([str(peers["peer_server"]), "--exit-with-parent"])
    try:
        trials = run(
            tmp_path, "--target", f"flight://{server.address}", "--operation", operation,
            "--rows-per-stream", 200_001, "--rows-per-batch", 4096, "--streams", "1,3",
        )  # fmt: skip
    finally:
        server.stop()
    assert [trial["outcome"] for trial in trials] == ["ok"] * 4
    for trial in trials:
        assert trial["counts"]["rows"] == 200_001 * trial["parameters"]["streams"]
        assert trial["target"]["protocol"] == "perf"


@pytest.mark.parametrize("operation", ["get", "put"])
@pytest.mark.parametrize("streams", [1, 4])
def test_arrow_cpp_measures_the_reference_server(
    peers: dict[str, Path], reference_server: ServerProcess, operation: str, streams: int
) -> None:
    done = subprocess.run(
        [
            str(peers["peer_client"]), "--address", reference_server.address, "--operation", operation,
            "--streams", str(streams), "--rows-per-stream", "500001", "--rows-per-batch", "4096",
        ],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert measured["rows"] == 500_001 * streams
    assert measured["batches"] == 123 * streams
    assert measured["bytes"] == measured["rows"] * 32
