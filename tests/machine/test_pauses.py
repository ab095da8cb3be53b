"""An end that did not run: its process is really stopped while a trial runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.flight import ServerProcess, failed, peer_command, serve_command, succeeded
from support.run import ROOT, venturi
from support.trial import lines, started_trial
from venturi.common.errors import ExitCode
from venturi.servers.reference import ReferenceServer

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="Linux tells how long a thread waited for a CPU"),
    pytest.mark.slow,
    pytest.mark.noisy,
]

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
STEP = 0.1
"""What a pause may be told too short by, in seconds (docs/method.md)."""


def trial(
    target: str, seconds: float, stopped: int | None = None, pause: float = 0
) -> tuple[dict[str, Any], float]:
    """The record of a get of so many seconds, and for how long a process was stopped at most meanwhile.

    `stopped` is that process; None: the client. A get of a table lasts as long as the table wants.
    """
    table = "/" in target.split("://")[1]
    spec = {
        "trial": "paused",
        "target": target,
        "options": {},
        "operation": "get",
        "data": {"source": "remote"} if table else {"source": "records", "columns": 4, "seed": 1},
        "rows_per_batch": 4096,
        "streams": 1,
        "threads": 1,
        "duration_ns": None if table else int(seconds * 1e9),
        "timeout_ns": 60_000_000_000,
    }
    client = subprocess.Popen(
        [sys.executable, "-c", TRIAL, json.dumps(spec)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert client.stdout is not None and client.stdout.readline() == "moving\n"
    longest = stop(client.pid if stopped is None else stopped, pause) if pause else 0.0
    record: dict[str, Any] = json.loads(client.communicate(timeout=60)[0])
    return record, longest


def stop(pid: int, seconds: float) -> float:
    begun = time.monotonic()
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(pid, signal.SIGCONT)
    return time.monotonic() - begun


def pauses(record: dict[str, Any], end: str) -> tuple[float, float]:
    process = record["resources"][end]["process"]
    return process["paused_ns"] / 1e9, process["longest_pause_ns"] / 1e9


def undisturbed(
    attempt: Callable[[], tuple[dict[str, Any], float]], *ends: str
) -> tuple[dict[str, Any], float]:
    """The first of three attempts in which these ends, which nobody stops, did not pause: a host may pause
    the whole machine for a moment."""
    found = []
    for _ in range(3):
        made = attempt()
        found.append({end: pauses(made[0], end) for end in ends})
        if not any(paused for paused, _ in found[-1].values()):
            return made
    pytest.fail(f"nobody stopped them: {found}")


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    process = ServerProcess(serve_command())
    yield process
    process.stop()


def test_a_client_that_was_stopped_fails_the_trial(server: ServerProcess) -> None:
    record, stopped = undisturbed(lambda: trial(f"flight://{server.address}", 3.0, None, 1.3), "server")
    paused, longest = pauses(record, "client")
    assert 1.3 - 2 * STEP < longest <= paused < stopped + STEP
    message = failed(record, "paused")
    assert f"the client did not run for {paused:.2f} s of an interval of " in message


def test_a_server_that_was_stopped_fails_the_trial(server: ServerProcess) -> None:
    pid = server.process.pid
    record, stopped = undisturbed(lambda: trial(f"flight://{server.address}", 3.0, pid, 1.3), "client")
    paused, longest = pauses(record, "server")
    assert 1.3 - 2 * STEP < longest <= paused < stopped + STEP
    assert "the server did not run for " in failed(record, "paused")


def test_a_foreign_server_that_was_stopped_is_seen_from_the_client() -> None:
    process = ServerProcess(peer_command())
    try:
        record, longest = trial(f"flight://{process.address}/slow/300", 3.0, process.process.pid, 1.3)
    finally:
        process.stop()
    assert record["resources"]["server"]["by"] == "client"
    paused, _ = pauses(record, "server")
    assert 1.3 - 3 * STEP < paused < longest + STEP
    assert "the server did not run for " in failed(record, "paused")


def test_where_nothing_stops_there_is_no_pause(server: ServerProcess) -> None:
    # More threads than there are CPUs: they wait for each other, which is no pause.
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        record, _ = undisturbed(lambda: trial(f"flight://{server.address}", 2.0), "client", "server")
    finally:
        for process in busy:
            process.kill()
            process.wait()
    succeeded(record)


def test_a_short_pause_is_a_warning(tmp_path: Path) -> None:
    # Of so long a trial a second may be lost before it fails: a tester that is late is no reason to.
    with ReferenceServer() as reference:
        run = started_trial(reference, tmp_path / "r", "--duration", "20s", "--repeats", "1")
        stop(run.pid, 0.35)
        assert run.wait(60) == 0
    (record,) = lines(tmp_path / "r")
    assert record["outcome"] == "ok"
    paused, _ = pauses(record, "client")
    assert paused > 0.1
    shown = venturi("show", tmp_path / "r").stdout
    assert f"the client did not run for {paused:.2f} s of 20" in " ".join(shown.split())


def test_no_verdict_rests_on_a_long_pause(tmp_path: Path) -> None:
    with ReferenceServer() as reference:
        run = started_trial(reference, tmp_path / "r", "--duration", "3s", "--repeats", "1")
        stop(run.pid, 1.3)
        assert run.wait(60) == ExitCode.TRIALS_FAILED
    shown = " ".join(venturi("show", tmp_path / "r").stdout.split())
    assert "1 x paused" in shown and "at its limit" not in shown
