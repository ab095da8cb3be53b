"""Trials through a real Ray on this machine: measured, verified, merged; and processes that die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.flight import ServerProcess
from support.needs import require
from support.run import command, environment, venturi, venturi_process
from venturi.store.directory import RunDirectory

pytestmark = pytest.mark.slow

MS = 1_000_000


@pytest.fixture(scope="module")
def ray() -> None:
    from importlib.util import find_spec

    # Not imported here: what it demands of those who speak to it is read when it is.
    require(find_spec("ray"), "ray (pip install 'venturi[cluster]')")


@pytest.fixture(scope="module")
def executor(ray: None, core: Any) -> Iterator[Any]:
    """Three loaders on this machine, kept for all tests."""
    require(hasattr(core.Control, "start_at"), "venturi._core with shares")
    from venturi.cluster.ray.ray_executor import RayExecutor
    from venturi.plan.settings import Hosts

    notes.clear()
    before = set(os.environ)
    made = RayExecutor.connect("local", Hosts(), 3, lambda level, text: notes.append(f"{level}: {text}"))
    yield made
    made.close()
    # What the Ray of this process demands is nothing to the clusters of other tests.
    for name in set(os.environ) - before:
        del os.environ[name]


AGAIN = """
import os
{first}
from venturi.cluster.ray.ray_executor import RayExecutor
from venturi.plan.settings import Hosts

for _ in range(2):
    before = set(os.environ)
    RayExecutor.connect("local", Hosts(), 1, print).close()
    for name in set(os.environ) - before:
        del os.environ[name]
print("twice")
"""


@pytest.mark.parametrize("first", ["", "import ray"], ids=["imported-by-venturi", "imported-before"])
def test_a_process_starts_ray_again(ray: None, first: str) -> None:
    """Also where nobody has kept the variables of the first one, and where Ray read none of them."""
    words = [sys.executable, "-c", AGAIN.format(first=first)]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=180, check=False)
    assert done.stdout.endswith("twice\n"), done.stderr


notes: list[str] = []


def spec(server: ServerProcess, **more: Any) -> dict[str, Any]:
    return {
        "trial": f"t{time.monotonic_ns()}",
        "target": f"flight://{server.address}",
        "options": {},
        "operation": "get",
        "data": {"source": "records", "columns": 4, "values": "random", "seed": 1},
        "rows_per_batch": 4096,
        "rows_per_stream": 500_000,
        "streams": 6,
        "threads": 6,
        "loaders": 3,
        "timeout_ns": 20_000 * MS,
        **more,
    }


def run(
    executor: Any, found: dict[str, Any], meanwhile: Callable[[Any], None] | None = None
) -> dict[str, Any]:
    control = executor.control()
    if meanwhile is not None:
        threading.Thread(target=meanwhile, args=(control,), daemon=True).start()
    record: dict[str, Any] = executor.run_trial(json.dumps(found), control)
    return record


@pytest.mark.parametrize("operation", ["get", "put"])
def test_a_trial_of_three_loaders(executor: Any, reference_server: ServerProcess, operation: str) -> None:
    record = run(executor, spec(reference_server, operation=operation))
    assert record["outcome"] == "ok", record["error"]
    assert record["verification"]["achieved"] == "checksum"
    assert record["verification"]["checksum"] == record["verification"]["expected_checksum"]
    assert record["counts"]["rows"] == 3_000_000 == sum(host["rows"] for host in record["hosts"])
    assert [host["streams"] for host in record["hosts"]] == [[0, 2], [2, 2], [4, 2]]
    assert [stream["stream"] for stream in record["streams"]] == list(range(6))
    assert record["latency"]["service"]["count"] == record["counts"]["batches"]
    assert set(record["samples"]) >= {"client", "client:loader-1", "client:loader-2", "client:loader-3"}
    # Each loader is a process with an account of its own; the trial's is their sum.
    used = [host["cpu"]["user_ns"] + host["cpu"]["system_ns"] for host in record["hosts"]]
    assert all(used) and len(set(used)) > 1, used
    assert sum(record["cpu"]["client"].values()) == sum(used)


def test_loaders_of_one_machine_start_at_one_instant(executor: Any, reference_server: ServerProcess) -> None:
    """One machine has one clock. That a thread waits for a CPU only ever adds, so the least of some trials is
    what the start itself costs: barriers of Ray's actors were measured to take up to 6 ms, and loaders that
    begin as they get ready lie hundreds of ms apart."""
    found = [run(executor, spec(reference_server, rows_per_stream=20_000)) for _ in range(5)]
    skews = [record["times"]["start_skew_ns"] for record in found]
    assert 0 < min(skews) < 60 * MS, skews


def test_all_of_them_move_at_once(executor: Any, reference_server: ServerProcess) -> None:
    """By duration: a fixed amount may be through on one loader before another's threads have a CPU."""
    record = run(executor, spec(reference_server, rows_per_stream=None, duration_ns=2_000 * MS))
    assert record["outcome"] == "ok", record["error"]
    times = record["times"]
    assert 0 < times["steady_rows"] <= record["counts"]["rows"]
    assert 0 < times["steady_ns"] <= times["interval_ns"]


def test_as_much_as_one_process(executor: Any, reference_server: ServerProcess, core: Any) -> None:
    """What all of them moved has the checksum that one process's has."""
    found = spec(reference_server)
    shared = run(executor, found)
    del found["loaders"]
    alone = json.loads(core.run_trial(json.dumps(found | {"trial": "alone"}), core.Control()))
    assert shared["verification"]["checksum"] == alone["verification"]["checksum"]
    assert shared["counts"]["rows"] == alone["counts"]["rows"]
    assert shared["counts"]["payload_bytes"] == alone["counts"]["payload_bytes"]


def test_a_spec_without_loaders_runs_on_one(executor: Any) -> None:
    found = {"trial": "engine", "target": "empty://", "operation": "get", "streams": 2, "threads": 2}
    data = {"source": "records", "columns": 4, "values": "random", "seed": 1}
    record = run(executor, found | {"data": data, "rows_per_batch": 100, "rows_per_stream": 1000})
    assert record["outcome"] == "ok", record["error"]
    assert "hosts" not in record


def test_raw_tcp_of_all_loaders_at_once(executor: Any, reference_server: ServerProcess) -> None:
    asked = {
        "target": f"flight://{reference_server.address}",
        "options": {},
        "direction": "get",
        "streams": 4,
        "duration_ns": 200 * MS,
    }
    answer = json.loads(executor.probe_tcp(json.dumps(asked), executor.control()))
    assert answer["outcome"] == "ok" and answer["bytes"] > 10_000_000


def all_move(executor: Any) -> None:
    """Waits until each loader has counted rows, and the driver has heard of it."""
    until, waiting = time.monotonic() + 60, list(executor._loaders)
    while waiting and time.monotonic() < until:
        found = waiting[0].call("progress").result(20)
        if found.get("phase") == "running" and found["rows"]:
            del waiting[0]
        time.sleep(0.1)
    time.sleep(1.0)


def test_cancelling_ends_all_loaders(executor: Any, reference_server: ServerProcess) -> None:
    def cancel(control: Any) -> None:
        all_move(executor)
        control.cancel()

    began = time.monotonic()
    found = spec(reference_server, rows_per_stream=None, duration_ns=120_000 * MS)
    record = run(executor, found, cancel)
    assert record["outcome"] == "interrupted" and time.monotonic() - began < 100
    assert record["counts"]["rows"] > 0
    assert run(executor, spec(reference_server))["outcome"] == "ok"


def test_a_loader_that_is_killed(executor: Any, reference_server: ServerProcess) -> None:
    victim = executor._loaders[1]

    def kill(control: Any) -> None:
        all_move(executor)
        os.kill(victim.identity["pid"], signal.SIGKILL)

    found = spec(reference_server, rows_per_stream=None, duration_ns=120_000 * MS)
    began = time.monotonic()
    record = run(executor, found, kill)
    assert record["outcome"] == "failed" and time.monotonic() - began < 100
    assert record["error"]["kind"] == "lost"
    assert record["error"]["message"].startswith(f"loader-2 ({victim.address}): is gone (")
    assert "rows counted" in record["error"]["message"]
    # What had been counted is kept, of it and of the others.
    assert all(host["rows"] > 0 for host in record["hosts"])
    assert [host["outcome"] for host in record["hosts"]] == ["interrupted", "failed", "interrupted"]
    # The next trial is clean: another loader has taken its place.
    again = run(executor, spec(reference_server))
    assert again["outcome"] == "ok", again["error"]
    assert any(note.startswith("warning: loader-2 was lost; another runs on") for note in notes)


def test_a_loader_that_is_frozen(executor: Any, reference_server: ServerProcess) -> None:
    """Frozen for less than the time-out it has paused; for longer it is lost."""
    # Whoever a test before has lost is replaced by now.
    assert run(executor, spec(reference_server))["outcome"] == "ok"
    victim = executor._loaders[2]

    def freeze(seconds: float) -> Callable[[Any], None]:
        def meanwhile(control: Any) -> None:
            all_move(executor)
            os.kill(victim.identity["pid"], signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(victim.identity["pid"], signal.SIGCONT)

        return meanwhile

    # On a busy machine a short trial may be over before all of them are seen to move.
    for duration_ms in (4_000, 12_000, 36_000):
        found = spec(reference_server, rows_per_stream=None, duration_ns=duration_ms * MS)
        record = run(executor, found, freeze(1.5))
        if record["outcome"] != "ok":
            break
    assert (record["outcome"], (record["error"] or {}).get("kind")) == ("failed", "paused"), record["error"]
    assert record["error"]["message"].startswith("loader-3 ")
    long = spec(reference_server, rows_per_stream=None, duration_ns=30_000 * MS, timeout_ns=4_000 * MS)
    record = run(executor, long, freeze(12.0))
    assert record["outcome"] == "failed"
    assert (
        "loader-3" in record["error"]["message"] and "has not answered for 4 s" in record["error"]["message"]
    )
    again = run(executor, spec(reference_server))
    assert again["outcome"] == "ok", again["error"]


def _descendants(pid: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    queue = [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


def _left(pids: set[int], seconds: float) -> set[int]:
    """Those that still run after that time; a zombie runs no more."""
    deadline = time.monotonic() + seconds
    while True:
        alive = set()
        for pid in pids:
            try:
                if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    alive.add(pid)
            except OSError:
                continue
        if not alive or time.monotonic() > deadline:
            return alive
        time.sleep(0.2)


def _words(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:120]
    except OSError:
        return ""


LONG = (
    "--target",
    "flight://local",
    "--streams",
    "2",
    "--loaders",
    "2",
    "--duration",
    "40s",
    "--on",
    "local",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_run_that_is_ended(ray: None, core: Any, tmp_path: Path, number: int) -> None:
    require(hasattr(core.Control, "start_at"), "venturi._core with shares")
    out = tmp_path / "run"
    words = command(
        "run", *LONG, "--no-ceilings", "--warmup", "0", "--repeats", "1", "--no-report", "--out", out
    )
    driver = subprocess.Popen(words, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 150
        while not _streams_connected(out):
            assert driver.poll() is None, driver.stderr and driver.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        time.sleep(4)
        family = _descendants(driver.pid)
        words_of = {pid: _words(pid) for pid in family}
        assert len(family) > 4, family
        driver.send_signal(number)
        code = driver.wait(90)
    finally:
        driver.kill()
    # What measures and serves goes at once; after a kill -9 Ray's own agents take up to a minute to see it.
    soon = [words_of[pid] for pid in _left(family, 20)]
    assert all(words.startswith(("ray::RuntimeEnvAgent", "ray::DashboardAgent")) for words in soon), soon
    assert number == signal.SIGKILL or not soon
    assert not [words_of[pid] for pid in _left(family, 100)]
    if number == signal.SIGINT:
        assert code == 130
        (line,) = RunDirectory(out).records()
        assert line["outcome"] == "interrupted" and line["parameters"]["on"] == "ray"


def _streams_connected(out: Path) -> bool:
    """The environment is written when servers run, just before the first trial."""
    path = out / "environment.json"
    return path.exists() and '"hosts"' in path.read_text()


def test_a_run_by_the_command(ray: None, core: Any, tmp_path: Path) -> None:
    require(hasattr(core.Control, "start_at"), "venturi._core with shares")
    out = tmp_path / "run"
    done = venturi_process(
        *("run", "--target", "flight://local", "--streams", "2", "--loaders", "1,2", "--on", "local"),
        *("--rows-per-stream", "1M", "--repeats", "2", "--warmup", "0", "--out", out),
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    records = RunDirectory(out).records()
    assert sorted(line["parameters"]["loaders"] for line in records) == [1, 1, 2, 2]
    assert all(len(line["hosts"]) == line["parameters"]["loaders"] for line in records)
    assert RunDirectory(out).hosts().num_rows == 6
    assert set(RunDirectory(out).environment["hosts"]) == {"loader-1", "loader-2"}
    shown = venturi("show", out, "--cell", "loaders=2")
    assert "loader-2" in shown.stdout and "share" in shown.stdout
    again = venturi("run", "--resume", out)
    assert again.returncode != 0 and "was begun on ray: say where again" in again.stderr
