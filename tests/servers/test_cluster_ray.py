"""Trials through a real Ray on this machine: measured, verified, merged, ended.

Loaders that are late, silent, frozen or cancelled are in tests/unit/test_cluster_lineup.py, without Ray.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.flight import ServerProcess, gets, trial_spec
from support.link import alive, tree
from support.needs import require
from support.run import command, environment, venturi, venturi_process
from support.wait import wait_until
from venturi.store.directory import RunDirectory

LONG_NS = 600_000_000_000
AGAIN = """
import os
{first}
from venturi.cluster.ray_executor import RayExecutor
from venturi.plan.settings import Hosts

for _ in range({times}):
    before = set(os.environ)
    RayExecutor.connect("local", Hosts(), 1, print).close()
    for name in set(os.environ) - before:
        del os.environ[name]
print("again and again")
"""


@pytest.fixture(scope="module")
def ray() -> None:
    from importlib.util import find_spec

    # Not imported here: what it demands of those who speak to it is read when it is.
    require(find_spec("ray"), "ray (pip install 'venturi[cluster]')")


class Rays:
    """Three loaders on this machine, and what was noted of them."""

    def __init__(self) -> None:
        from venturi.cluster.ray_executor import RayExecutor
        from venturi.plan.settings import Hosts

        self.notes: list[str] = []
        self.executor = RayExecutor.connect("local", Hosts(), 3, self._note)

    def _note(self, level: str, text: str) -> None:
        self.notes.append(f"{level}: {text}")

    def run(self, spec: dict[str, Any], control: Any = None) -> dict[str, Any]:
        control = control or self.executor.control()
        record: dict[str, Any] = self.executor.run_trial(json.dumps(spec), control)
        return record


@pytest.fixture(scope="module")
def rays(ray: None, core: Any) -> Iterator[Rays]:
    before = set(os.environ)
    made = Rays()
    yield made
    made.executor.close()
    # What the Ray of this process demands is nothing to the clusters of other tests.
    for name in set(os.environ) - before:
        del os.environ[name]


@pytest.mark.parametrize(
    ("first", "times"), [("", 2), ("import ray", 1)], ids=["imported-by-venturi", "imported-before"]
)
def test_a_process_starts_ray_again(ray: None, first: str, times: int) -> None:
    """Also if nobody has kept the variables of the first one, or Ray was imported before they were set."""
    words = [sys.executable, "-c", AGAIN.format(first=first, times=times)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout.endswith("again and again\n"), done.stderr


def spec(server: ServerProcess, **more: Any) -> dict[str, Any]:
    data = {"source": "records", "columns": 4, "values": "random", "seed": 1}
    usual = {"data": data, "rows_per_batch": 4096, "rows_per_stream": 100_000, "streams": 6, "loaders": 3}
    return trial_spec(f"flight://{server.address}", **{**usual, "timeout_ns": LONG_NS, **more})


def test_trials_of_three_loaders(rays: Rays, reference_server: ServerProcess) -> None:
    for operation in ("get", "put"):
        record = rays.run(spec(reference_server, operation=operation))
        assert record["outcome"] == "ok", record["error"]
        assert record["verification"]["achieved"] == "checksum"
        assert record["counts"]["rows"] == 600_000 == sum(host["rows"] for host in record["hosts"])
        assert [host["streams"] for host in record["hosts"]] == [[0, 2], [2, 2], [4, 2]]
        assert [stream["stream"] for stream in record["streams"]] == list(range(6))
        assert set(record["samples"]) >= {"client", "client:loader-1", "client:loader-2", "client:loader-3"}
        # Each loader is a process with an account of its own; the trial's is their sum.
        used = [host["cpu"]["user_ns"] + host["cpu"]["system_ns"] for host in record["hosts"]]
        assert all(used) and len(set(used)) > 1, used
        assert sum(record["cpu"]["client"].values()) == sum(used)
    # A spec without loaders runs whole on one of them.
    whole = spec(reference_server, streams=2) | {"target": "empty://"}
    del whole["loaders"]
    record = rays.run(whole)
    assert record["outcome"] == "ok" and "hosts" not in record, record["error"]
    # Raw TCP of all of them at once.
    asked = {
        **{"target": f"flight://{reference_server.address}", "options": {}, "direction": "get"},
        **{"streams": 4, "duration_ns": 200_000_000},
    }
    answer = json.loads(rays.executor.probe_tcp(json.dumps(asked), rays.executor.control()))
    assert answer["outcome"] == "ok" and answer["bytes"] > 0


def test_a_loader_that_is_killed(rays: Rays, reference_server: ServerProcess) -> None:
    """What had been counted is kept; in the next trial another loader is in its place."""
    assert rays.run(spec(reference_server))["outcome"] == "ok"
    victim, control = rays.executor._loaders[1], rays.executor.control()

    def kill() -> None:
        wait_until(lambda: control.progress()["rows"])
        os.kill(victim.identity["pid"], signal.SIGKILL)

    threading.Thread(target=kill).start()
    record = rays.run(spec(reference_server, rows_per_stream=None, duration_ns=LONG_NS), control)
    assert (record["outcome"], record["error"]["kind"]) == ("failed", "lost"), record["error"]
    assert record["error"]["message"].startswith(f"loader-2 ({victim.address}): is gone (")
    assert "rows counted" in record["error"]["message"]
    assert record["counts"]["rows"] == sum(host["rows"] for host in record["hosts"]) > 0
    first, killed, last = (host["outcome"] for host in record["hosts"])
    # The server may tell the others of the end before we do.
    assert killed == "failed" and {first, last} <= {"interrupted", "failed"}
    again = rays.run(spec(reference_server))
    assert again["outcome"] == "ok", again["error"]
    assert any(note.startswith("warning: loader-2 was lost; another runs on") for note in rays.notes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(
    ray: None, reference_server: ServerProcess, tmp_path: Path, number: int
) -> None:
    out, before = tmp_path / "run", gets(reference_server.address)
    words = command(
        *("run", "--target", f"flight://{reference_server.address}", "--streams", 2, "--loaders", 2),
        *("--duration", "600s", "--on", "local", "--no-ceilings", "--warmup", 0, "--repeats", 1),
        *("--no-report", "--out", out),
    )
    driver = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL)
    try:

        def moving() -> bool:
            assert driver.poll() is None
            # The first get of each stream warms it up, before the start; the second one is the trial's.
            return gets(reference_server.address) == before + 4

        wait_until(moving)
        family = tree(driver.pid)
        assert sum("ray::RayLoader" in line for line in family.values()) == 2, family
        driver.send_signal(number)
        code = driver.wait()
    finally:
        driver.kill()
    wait_until(lambda: not alive([*family]), lambda: [family[pid] for pid in family if alive([pid])])
    assert not [*Path(tempfile.gettempdir()).glob(f"ray/session_*_{driver.pid}")]
    if number == signal.SIGINT:
        assert code == 130
        (line,) = RunDirectory(out).records()
        assert line["outcome"] == "interrupted" and line["parameters"]["on"] == "ray"


def test_a_run_by_the_command(ray: None, core: Any, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = venturi_process(
        *("run", "--target", "flight://local", "--streams", "2", "--loaders", "1,2", "--on", "local"),
        *("--rows-per-stream", "100k", "--repeats", "1", "--warmup", "0", "--no-ceilings", "--out", out),
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    records = RunDirectory(out).records()
    assert sorted(line["parameters"]["loaders"] for line in records) == [1, 2]
    assert all(len(line["hosts"]) == line["parameters"]["loaders"] for line in records)
    assert RunDirectory(out).table("hosts").num_rows == 3
    assert set(RunDirectory(out).environment["hosts"]) == {"loader-1", "loader-2"}
    shown = venturi("show", out, "--cell", "loaders=2")
    assert "loader-2" in shown.stdout and "share" in shown.stdout
    again = venturi("run", "--resume", out)
    assert again.returncode != 0 and "was begun on ray: say where again" in again.stderr
