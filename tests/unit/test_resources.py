"""What processes and hosts did while a trial ran: which figures there are, and the tables that have them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from support.flight import ServerProcess, peer_command, run_trial, serve_command, succeeded
from support.run import ROOT
from support.synthetic import make_run
from venturi.engine.record import trial_of
from venturi.store import samples as sampled
from venturi.store.directory import RunDirectory
from venturi.store.writer import RunWriter

RECORDS: dict[str, Any] = {"data": {"source": "records", "columns": 4, "seed": 1}, "rows_per_batch": 4096}
pytestmark = [
    pytest.mark.usefixtures("core"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux tells these figures"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    process = ServerProcess(serve_command())
    yield f"flight://{process.address}"
    process.stop()


def cpu(process: dict[str, Any]) -> int:
    return int(process["user_ns"] + process["system_ns"])


def test_streams_of_one_connection_have_one_socket(address: str) -> None:
    spec = {"streams": 4, "rows_per_stream": 200_000, "options": {"connections": "shared"}, **RECORDS}
    record = succeeded(run_trial(address, "get", **spec))
    for end in ("client", "server"):
        assert record["resources"][end]["sockets"]["count"] == 1
        assert len(record["samples"][end]["socket_cwnd_bytes"]) == 1


def test_a_trial_shorter_than_the_interval(address: str) -> None:
    record = succeeded(run_trial(address, rows_per_stream=50_000, sample_interval_ns=10**10, **RECORDS))
    for end in ("client", "server"):
        found = record["resources"][end]
        assert found["window_ns"] > 0
        assert found["process"] is not None
        assert found["host"] is None or found["window_ns"] >= 10**8
        assert len(record["samples"][end]["t_ns"]) >= 2


def test_without_samples_there_are_none(address: str) -> None:
    record = succeeded(run_trial(address, rows_per_stream=50_000, sample_interval_ns=0, **RECORDS))
    assert record["samples"] is None and record["resources"] is None


def test_set_up_in_the_interval_is_sampled_too(address: str) -> None:
    record = succeeded(run_trial(address, rows_per_stream=2_000_000, include_setup=True, **RECORDS))
    for end in ("client", "server"):
        assert cpu(record["resources"][end]["process"]) > 0
    assert record["samples"]["client"]["t_ns"][0] <= 0


def test_a_foreign_server_on_this_host_is_seen_from_the_client() -> None:
    process = ServerProcess(peer_command())
    try:
        record = succeeded(run_trial(f"flight://{process.address}/slow/40"))
    finally:
        process.stop()
    found = record["resources"]["server"]
    assert found["by"] == "client"
    assert record["target"]["pid"] == process.process.pid
    assert record["cpu"]["server"] is not None
    assert found["host"] == record["resources"]["client"]["host"]
    assert found["process"]["rss_max_bytes"] > 10**7


def test_samples_are_stored_and_read_back(address: str, tmp_path: Path) -> None:
    record = succeeded(run_trial(address, streams=2, duration_ns=300_000_000, **RECORDS))
    with RunWriter.create(tmp_path / "r") as writer:
        writer.write_environment({"run": "r"})
        writer.append_trial({**record, "format": 1, "kind": "trial", "trial": "t", "run": "r"})
    run = RunDirectory(tmp_path / "r")
    table = run.samples("t")
    assert table.column_names[:2] == ["trial", "end"]
    client = table.filter(pc.equal(table["end"], "client"))
    assert client["t_ns"].to_pylist() == record["samples"]["client"]["t_ns"]
    streams = record["samples"]["client"]["streams"]
    assert client["streams"].to_pylist() == [list(row) for row in zip(*streams, strict=True)]
    assert client["payload_bytes"].to_pylist() == [sum(row) for row in zip(*streams, strict=True)]
    served = table.filter(pc.equal(table["end"], "server"))
    assert served["payload_bytes"].null_count == served.num_rows > 0
    assert run.thread_names("t") == {
        end: record["samples"][end]["thread_names"] for end in ("client", "server")
    }
    assert run.samples(["t"], ["t_ns"]).column_names == ["trial", "t_ns"]
    assert run.samples("nothing").num_rows == 0
    rows = run.table("resources").to_pylist()
    assert [row["end"] for row in rows] == ["client", "server"]
    assert rows[0]["user_ns"] == record["resources"]["client"]["process"]["user_ns"]
    assert rows[1]["host_busy_share"] == record["resources"]["server"]["host"]["busy_share"]


def test_files_of_older_versions_are_read(tmp_path: Path) -> None:
    modelled = make_run(tmp_path / "run", repeats=1)
    numbers = {"t_ns": [1, 2], "rows": [3, 4], "payload_bytes": [5, 6], "streams": [[5], [6]]}
    old = pa.table({**numbers, "client_cpu_ns": [7, 8], "host_busy_ns": [9, 10]})
    pq.write_table(old, modelled / "samples" / "older.parquet")
    run = RunDirectory(modelled)
    alone = run.samples("older")
    assert alone["end"].to_pylist() == ["client", "client"]
    assert alone["client_cpu_ns"].to_pylist() == [7, 8]
    assert alone["user_ns"].null_count == 2
    assert run.samples().num_rows > 2
    assert run.thread_names("older") == {"client": [], "server": []}


def test_records_without_resources_have_no_rows() -> None:
    assert list(sampled.resource_rows(trial_of({"resources": None}))) == []
    bare = {"resources": {"client": {"by": "self", "window_ns": 5}, "server": None}}
    (row,) = sampled.resource_rows(trial_of(bare))
    assert row["window_ns"] == 5 and row["host_busy_share"] is None


# ---- client and server together stay small, however many rows pass through them


Start = Callable[..., ServerProcess]

ROWS = 20_000_000
ROWS_PER_BATCH = 4096
SOURCE = ROWS_PER_BATCH * 32  # one batch, sent again and again
LIMIT = 300_000_000

CLIENT = """
import json, os, sys
from venturi import _core
record = json.loads(_core.run_trial(sys.argv[1], _core.Control()))
print(json.dumps({"outcome": record["outcome"], "error": record["error"],
                  "rows": record["counts"]["rows"], "pid": os.getpid()}), flush=True)
sys.stdin.read()
"""


def peak(pid: int) -> int:
    """The most memory that a process ever had resident, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no VmHWM of process {pid}")


@pytest.mark.parametrize("operation", ["get", "put"])
def test_memory_does_not_grow_with_the_rows(start_reference_server: Start, operation: str) -> None:
    server = start_reference_server()
    spec = {
        "trial": "t", "target": f"flight://{server.address}", "operation": operation,
        "data": {"source": "records"}, "rows_per_batch": ROWS_PER_BATCH, "rows_per_stream": ROWS,
        "streams": 1, "threads": 1,
    }  # fmt: skip
    command = [sys.executable, "-c", CLIENT, json.dumps(spec)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as client:
        assert client.stdout is not None
        done = json.loads(client.stdout.readline())
        peaks = {"client": peak(client.pid), "server": peak(server.process.pid)}
        client.communicate()
    assert (done["outcome"], done["rows"]) == ("ok", ROWS), done
    assert sum(peaks.values()) < LIMIT + SOURCE, peaks
