"""An end that did not run: its process is really stopped while a trial runs.

Twin: crates/base/src/meter/pauses.rs, for what a reader of /proc makes of it; tests/unit/test_verdict.py, for
what is said of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from support.flight import ServerProcess, failed, peer_command, succeeded, trial_spec
from support.run import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how long a thread waited")

# Says when the trial moves, and its record at the end.
TRIAL = """
import json, sys, threading, time
from venturi import _core
control, records = _core.Control(), []
run = lambda: records.append(_core.run_trial(sys.argv[1], control))
trial = threading.Thread(target=run)
trial.start()
while not control.progress()["batches"] and trial.is_alive():
    time.sleep(0.01)
print("moving", flush=True)
trial.join()
print(records[0], flush=True)
"""
PAUSE, STEP = 1.3, 0.1
"""How long a process is stopped, and what a pause may be told too short by, in seconds (docs/method.md)."""


def trial(target: str, stopped: int | None = None) -> tuple[dict[str, Any], float]:
    """The record of a get of three seconds in which a process is stopped, and for how long it was.

    `stopped` is that process, 0 the client. A get of a table lasts as long as the table wants.
    """
    table = "/" in target.split("://")[1]
    ours = {"data": {"source": "records", "columns": 4, "seed": 1}, "duration_ns": 3_000_000_000}
    given = {"rows_per_batch": 4096, "timeout_ns": 60_000_000_000}
    spec = trial_spec(target, **given, **({} if table else ours))
    client = subprocess.Popen(
        [sys.executable, "-c", TRIAL, json.dumps(spec)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert client.stdout is not None and client.stdout.readline() == "moving\n"
    longest = stop(stopped or client.pid) if stopped is not None else 0.0
    record: dict[str, Any] = json.loads(client.communicate()[0])
    return record, longest


def stop(pid: int) -> float:
    begun = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(PAUSE)
    finally:
        os.kill(pid, signal.SIGCONT)
    return time.monotonic() - begun


@pytest.mark.parametrize("end", ["client", "server"])
def test_an_end_that_was_stopped_fails_the_trial(reference_server: ServerProcess, end: str) -> None:
    pid = 0 if end == "client" else reference_server.process.pid
    record, stopped = trial(f"flight://{reference_server.address}", pid)
    process = record["resources"][end]["process"]
    paused, longest = process["paused_ns"] / 1e9, process["longest_pause_ns"] / 1e9
    assert PAUSE - 2 * STEP < longest <= paused and longest < stopped + STEP
    assert f"the {end} did not run for {paused:.2f} s of an interval of " in failed(record, "paused")


def test_a_foreign_server_that_was_stopped_is_seen_from_the_client() -> None:
    with ServerProcess(peer_command()) as server:
        record, longest = trial(f"flight://{server.address}/slow/300", server.process.pid)
    found = record["resources"]["server"]
    assert found["by"] == "client"
    assert PAUSE - 3 * STEP < found["process"]["paused_ns"] / 1e9 < longest + STEP
    assert "the server did not run for " in failed(record, "paused")


def test_where_nothing_stops_there_is_no_pause(reference_server: ServerProcess) -> None:
    # More threads than there are CPUs: they wait for each other, which is no pause.
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        record, _ = trial(f"flight://{reference_server.address}")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    succeeded(record)
