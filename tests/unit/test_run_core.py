"""`venturi run` with the real engine and servers of our own, from the command to the run directory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from importlib import resources
from pathlib import Path

import jsonschema
import pytest

from support.run import command, environment, venturi
from support.trial import gone, lines, started_trial, until_gone
from venturi.common.errors import ExitCode, VenturiError
from venturi.servers.reference import ReferenceServer

pytestmark = [pytest.mark.usefixtures("core"), pytest.mark.slow]

SMALL = ("--rows-per-stream", "200k", "--repeats", "1", "--no-report", "--quiet")


def affinities(pid: int) -> set[str]:
    """On which CPUs the threads of the trial in this process may run."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            if (task / "comm").read_text().startswith("client-"):
                status = (task / "status").read_text()
                found.add(re.search(r"Cpus_allowed_list:\s*(\S+)", status)[1])  # type: ignore[index]
    return found


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system pins no threads")
def test_pinned_threads_keep_to_their_cpu(tmp_path: Path) -> None:
    for cpu in (max(os.sched_getaffinity(0)), min(os.sched_getaffinity(0))):
        with ReferenceServer() as server:
            pinned = ("--duration", "20s", "--repeats", "1", "--pin", cpu)
            process = started_trial(server, tmp_path / str(cpu), *pinned)
            try:
                assert affinities(process.pid) == {str(cpu)}
            finally:
                process.kill()
                process.communicate()


def test_quick_ends_well_and_follows_the_schema(tmp_path: Path) -> None:
    # One number of streams, because each more has probes of its own, which take a second each.
    fewer = ("--scale", "0.02", "--streams", "4", "--no-report", "--quiet")
    done = venturi("run", "quick", *fewer, "--out", tmp_path / "r")
    assert (done.returncode, done.stderr) == (0, "")
    trials = lines(tmp_path / "r")
    assert len(trials) == 4 * 4 and {trial["outcome"] for trial in trials} == {"ok"}
    schema = json.loads((resources.files("venturi") / "schema" / "trial.schema.json").read_text())
    for trial in trials:
        jsonschema.Draft202012Validator(schema).validate(trial)
        p, counts = trial["parameters"], trial["counts"]
        assert counts["rows"] == p["rows_per_stream"] * p["streams"]
        assert trial["target"]["reference"] and trial["verification"]["achieved"] == "checksum"
    ceilings = lines(tmp_path / "r", "ceilings.jsonl")
    assert {line["outcome"] for line in ceilings} == {"ok"} and min(line["bytes"] for line in ceilings) > 0
    found = json.loads((tmp_path / "r" / "environment.json").read_text())
    assert found["server"]["kernel"] == found["client"]["kernel"]
    assert found["command"] == ["venturi", "run", "quick", *fewer, "--out", str(tmp_path / "r")]


def test_every_reference_server_describes_its_host(tmp_path: Path) -> None:
    places = []
    with ReferenceServer() as server:
        for place, url in (("here", "flight://local"), ("there", f"flight://{server.address}/t")):
            places += ["--place", f"{place}={url}"]
        headers = ("--header", "x-a=hush", "--set", "target.headers.x-b=hush")
        done = venturi(
            "run", *places, *SMALL, *headers, "--no-ceilings", "--operation", "put", "--out", tmp_path / "r"
        )
    assert (done.returncode, done.stderr) == (0, "")
    text = (tmp_path / "r" / "environment.json").read_text()
    found = json.loads(text)
    assert list(found["servers"]) == ["here", "there"] and found["server"] == found["servers"]["here"]
    assert found["servers"]["there"]["software"]["venturi"] == found["client"]["software"]["venturi"]
    assert "hush" not in text and "x-a=***" in text and "target.headers.x-b=***" in text


def test_a_server_starts_and_ends_with_its_input() -> None:
    with ReferenceServer() as server:
        assert server.running and server.address.startswith("127.0.0.1:") and server.pid is not None
        pid = server.pid
    assert gone(pid)


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(VenturiError, match="the server flight did not start: --memory: 'x'") as caught:
        ReferenceServer("--memory", "x").start()
    assert caught.value.exit_code == ExitCode.UNREACHABLE


def test_a_port_in_use_is_a_clear_line() -> None:
    with ReferenceServer() as server:
        done = venturi("serve", "flight", "--port", server.address.rsplit(":", 1)[1])
    assert done.returncode == 4 and done.stderr.startswith("error: cannot listen on 127.0.0.1:")
    assert done.stderr.count("\n") == 1


def test_no_server_is_left_after_kill_9(tmp_path: Path) -> None:
    process = subprocess.Popen(
        command("run", "--duration", "60s", "--out", tmp_path / "r", "--no-report"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 30
    found: list[str] = []
    while not found and time.monotonic() < deadline:
        found = children.read_text().split()
    process.kill()
    process.wait()
    assert found and all(until_gone(int(pid)) for pid in found)


def test_ctrl_c_keeps_the_trial_that_ran(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with ReferenceServer() as server:
        process = started_trial(server, path, "--duration", "60s")
        time.sleep(0.5)  # what the server has begun to send comes in
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    (trial,) = lines(path)
    assert trial["outcome"] == "interrupted" and trial["error"]["kind"] == "cancelled"
    assert trial["counts"]["payload_bytes"] > 0


def test_a_put_and_a_get_of_a_users_table(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{i},row {i}\n" for i in range(50)))
    done = venturi(
        *("run", "--operation", "get,put", "--data", "t.csv", "--rows-per-batch", "100", "--streams", "1,2"),
        *("--out", "r", "--no-ceilings", *SMALL),
        cwd=tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert {trial["outcome"] for trial in lines(tmp_path / "r")} == {"ok"}
