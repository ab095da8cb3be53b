"""Real runs that are ended: by signals, a closed terminal, a reader who leaves, a full disk, kill -9."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import pty
import random
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.run import SMALL, command, environment, model, venturi, venturi_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("core")]

KILLS = int(os.environ.get("VENTURI_KILLS", "6"))
QUIET = ("--no-ceilings", "--no-report")
# Trials of half a second: a signal that comes after the first finds another one at work.
HALVES = ("--target", "flight://local", "--operation", "get", "--duration", "500ms", *QUIET)
# So many of them that a tester who is late by seconds still comes before the last.
LONG = (*HALVES, "--repeats", 12)
TRIALS = 13
"""Of LONG, with its warm-up."""
SHORT = ("--target", "sqlite://local", "--rows-per-stream", "2k", "--streams", 1, "--warmup", 0, *QUIET)


def started(*arguments: object, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A terminal that nohup was started in has this signal ignored, and so have its children.
    hears = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    return subprocess.Popen(
        command("run", *arguments), text=True, cwd=cwd, **(streams | hears | {"env": environment()} | more)
    )


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


def slots(path: Path) -> collections.Counter[tuple[str, int, bool]]:
    """How often each trial went well."""
    return collections.Counter(
        (line["cell"], line["repeat"], line["warmup"]) for line in stored(path) if line["outcome"] == "ok"
    )


def until_first(run: subprocess.Popen[str]) -> None:
    """Waits until the first trial has ended."""
    assert run.stderr is not None
    line = run.stderr.readline()
    while not line.startswith("[1/"):
        assert line, "the run has ended"
        line = run.stderr.readline()


def check_goes_on(path: Path, errors: str) -> None:
    """Whether an interrupted run says so, has kept what was measured, and is whole when it was resumed."""
    assert f"warning: interrupted; go on with: venturi run --resume {path.name}\n" in errors
    lines = stored(path)
    assert 1 <= len(lines) < TRIALS and {line["outcome"] for line in lines[:-1]} <= {"ok"}
    done = venturi("run", "--resume", path, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert len(slots(path)) == TRIALS and set(slots(path).values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_that_can_go_on(number: signal.Signals, tmp_path: Path) -> None:
    run = started(*LONG, "--out", "r", cwd=tmp_path)
    until_first(run)
    run.send_signal(number)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    check_goes_on(tmp_path / "r", errors)


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    run = started(*LONG, "--out", "r", cwd=tmp_path)
    until_first(run)
    # Both wait for it when it goes on: the second is heard before what the first one asks for is done.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        run.send_signal(number)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130 and "interrupted" not in errors, errors
    kept = [line["outcome"] for line in stored(tmp_path / "r")]
    assert set(kept) == {"ok"} and len(kept) < TRIALS
    done = venturi("run", "--resume", tmp_path / "r", "--no-report", "--quiet")
    assert done.returncode == 0 and len(slots(tmp_path / "r")) == TRIALS, done.stderr
    assert set(slots(tmp_path / "r").values()) == {1}


def test_a_closed_terminal_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()

    def attach() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    run = started(
        *LONG, "--out", "r", cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=attach
    )
    os.close(theirs)
    kept = tmp_path / "r" / "trials.jsonl"
    seen = b""
    while not (kept.exists() and kept.read_bytes().endswith(b"\n")):
        with contextlib.suppress(OSError):
            seen += os.read(ours, 4096)
        assert run.poll() is None, seen.decode()
    os.close(ours)
    assert run.wait(timeout=60) == 130
    assert stored(tmp_path / "r")[0]["outcome"] == "ok" and len(stored(tmp_path / "r")) < TRIALS
    done = venturi("run", "--resume", tmp_path / "r", "--no-report", "--quiet")
    assert done.returncode == 0 and len(slots(tmp_path / "r")) == TRIALS, done.stderr


def test_nohup_hears_no_closed_terminal(tmp_path: Path) -> None:
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    run = started(*HALVES, "--repeats", 4, "--out", "r", cwd=tmp_path, **ignored)
    until_first(run)
    run.send_signal(signal.SIGHUP)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 0 and len(slots(tmp_path / "r")) == 5, errors


def test_a_run_goes_on_without_its_reader(tmp_path: Path) -> None:
    run = started(*SHORT, "--repeats", 40, "--json", "--out", "r", cwd=tmp_path)
    assert run.stdout is not None and run.stderr is not None
    assert json.loads(run.stdout.readline())["outcome"] == "ok"
    run.stdout.close()
    errors = run.stderr.read()
    assert run.wait(timeout=60) == 0, errors
    assert len(slots(tmp_path / "r")) == 40
    said = [line for line in errors.splitlines() if "its reader has left" in line]
    assert said == [
        "warning: standard output: its reader has left; the run goes on, and r has its results"
    ], errors


def test_a_run_goes_on_without_any_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    run = started(*SHORT, "--repeats", 5, "--out", "r", cwd=tmp_path, stdout=write, stderr=write)
    os.close(write)
    assert run.wait(timeout=60) == 0 and len(slots(tmp_path / "r")) == 5


FAILS = ("--executor", "support.model:fail=lost:operation == 'put'", *SMALL)


@pytest.mark.parametrize(("arguments", "code"), [((*SHORT, "--repeats", 2), 7), (FAILS, 5)])
def test_a_run_goes_on_where_its_output_finds_no_room(
    arguments: tuple[Any, ...], code: int, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        run = started(*arguments, "--json", "--out", "r", cwd=tmp_path, stdout=full)
        _, errors = run.communicate(timeout=60)
    assert run.returncode == code, errors
    assert "warning: standard output: No space left on device; the run goes on, and r has its" in errors
    assert ("error: standard output cannot be written: No space left on device" in errors) == (code == 7)
    assert all(count == 1 for count in slots(tmp_path / "r").values()) and slots(tmp_path / "r")


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("printed") / "r"
    assert model("--out", path, *SMALL, "--quiet").returncode == 0
    return path


PRINTING = (
    "show RUN", "show RUN --format json", "show RUN --format csv", "show RUN --cell best", "best RUN",
    "compare RUN --by streams", "fit RUN", "predict reference:macbook-get --streams 4", "scenarios",
    "sql RUN select*from/**/trials", "scenarios show quick", "run quick --dry-run", "--help", "--version",
)  # fmt: skip


def printing(words: str, run: Path, stdout: Any, **more: Any) -> subprocess.CompletedProcess[str]:
    arguments = [str(run) if word == "RUN" else word.replace("/**/", " ") for word in words.split()]
    return subprocess.run(
        command(*arguments), stdout=stdout, stderr=subprocess.PIPE, text=True, check=False,
        env=environment(), cwd=run.parent, timeout=120, **more,
    )  # fmt: skip


@pytest.mark.parametrize("words", PRINTING)
def test_what_only_prints_ends_quietly_with_its_reader(words: str, run_directory: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = printing(words, run_directory, write)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("words", [PRINTING[0], PRINTING[9], PRINTING[-2]])
def test_no_room_for_what_is_printed(words: str, run_directory: Path) -> None:
    with open("/dev/full", "w") as full:
        done = printing(words, run_directory, full)
    assert done.returncode == 7 and done.stderr == (
        "error: standard output cannot be written: No space left on device\n"
        "hint: make room there, or write elsewhere\n"
    )


def test_closed_standard_streams_are_no_fault(run_directory: Path) -> None:
    done = printing("show RUN", run_directory, None, preexec_fn=lambda: (os.close(1), os.close(2)))
    assert done.returncode == 0


# What is killed: blocks that travel, rows in a file of ours, points in a store of ours.
KILLED = (
    ("--target", "flight://local", "--operation", "get,put", "--streams", "1,2", "--rows-per-stream", "50k"),
    ("--target", "sqlite://local", "--operation", "upsert", "--streams", "1,2", "--rows-per-stream", "2k"),
    ("--target", "akumuli://local", "--streams", "1,2", "--hosts", 10, "--points-per-stream", "20k"),
)
EACH = ("--repeats", 2, "--warmup", 1, "--no-ceilings", "--no-report", "--quiet")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories go."""
    made = tmp_path / "temporary"
    made.mkdir()
    monkeypatch.setenv("TMPDIR", str(made))
    yield made


def all_free(place: Path) -> bool:
    """Whether the last process of the killed runs has gone."""
    for lock in place.glob(".*.lock"):
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    return True


def finished(run: subprocess.Popen[str], what: str) -> None:
    """Waits for a run that is to end well; a machine with much else to do is given its time."""
    _, errors = run.communicate(timeout=600)
    assert run.returncode == 0, f"{what}: {errors}"


def test_kills_of_real_runs_resume_exactly(tmp_path: Path, place: Path) -> None:
    """At random moments from the start to the end of a run; each trial is there once, and nothing else."""
    moments = random.Random(20261122)
    whole: dict[int, tuple[float, set[tuple[str, int, bool]]]] = {}
    for number, words in enumerate(KILLED):
        began = time.monotonic()
        finished(started(*words, *EACH, "--out", f"whole-{number}", cwd=tmp_path), f"whole-{number}")
        wanted = slots(tmp_path / f"whole-{number}")
        assert set(wanted.values()) == {1}
        whole[number] = (time.monotonic() - began, set(wanted))
    early = 0
    for kill in range(KILLS):
        number = kill % len(KILLED)
        seconds, trials = whole[number]
        path = tmp_path / f"killed-{kill}"
        run = started(*KILLED[number], *EACH, "--out", path.name, cwd=tmp_path)
        with contextlib.suppress(subprocess.TimeoutExpired):
            run.wait(moments.uniform(0.0, seconds))
        run.kill()
        run.communicate()
        # Before it had a name the run is to be begun again; from then on it goes on.
        named = (path / "environment.json").exists()
        how = ("--resume", path, "--no-report", "--quiet")
        again = how if named else (*KILLED[number], *EACH, "--out", path)
        finished(started(*again, cwd=tmp_path), f"kill {kill}")
        early += not named
        assert slots(path) == dict.fromkeys(trials, 1), f"kill {kill}"
        lines = stored(path)
        assert len(lines) == len(trials), f"kill {kill}: {[line['outcome'] for line in lines]}"
        samples = {file.name for file in (path / "samples").iterdir()}
        assert samples <= {f"{line['trial']}.parquet" for line in lines}
        assert {file.name for file in path.iterdir()} <= {
            *("scenario.toml", "environment.json", "trials.jsonl", "ceilings.jsonl", "samples", ".lock"),
        }  # fmt: skip
    deadline = time.monotonic() + 60
    while not all_free(place):
        assert time.monotonic() < deadline, list(place.iterdir())
        time.sleep(0.05)
    assert (
        venturi_process(
            "run", "--executor", "support.model", "--out", tmp_path / "next", *SMALL, "--quiet"
        ).returncode
        == 0
    )
    left = list(place.iterdir())
    print(
        f"{KILLS} of {KILLS} kills resumed exactly, {early} of them before the run had a name; "
        f"{len(left)} files left"
    )
    assert left == []
