"""Runs that are ended: by signals, a closed terminal, a reader who leaves, a full disk, kill -9."""

from __future__ import annotations

import collections
import fcntl
import io
import json
import os
import pty
import random
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flight import Start
from support.run import SMALL, command, environment, model, venturi
from support.wait import wait_until
from venturi.cli import main, output

QUIET = ("--no-ceilings", "--no-report")
HANGS = ("--executor", "support.model:hang:operation == 'get'", *SMALL, *QUIET)
"""A run that hangs in its second trial, and says so, until it is interrupted."""
GOES_WELL = ("--executor", "support.model", *SMALL, *QUIET)
TRIALS = 12
"""Of SMALL, with warm-ups."""


def started(*arguments: object, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # A terminal that nohup was started in has this signal ignored, and so have its children.
    hears = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)}
    return subprocess.Popen(
        command("run", *arguments, "--out", "r"),
        text=True, cwd=cwd, **(streams | hears | {"env": environment()} | more),
    )  # fmt: skip


def until_it_hangs(run: subprocess.Popen[str]) -> None:
    assert run.stderr is not None
    while "the model hangs" not in (line := run.stderr.readline()):
        assert line, "the run has ended"


def stored(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "trials.jsonl").read_text().splitlines()]


def slots(path: Path) -> collections.Counter[tuple[str, int, bool]]:
    """How often each trial went well."""
    return collections.Counter(
        (line["cell"], line["repeat"], line["warmup"]) for line in stored(path) if line["outcome"] == "ok"
    )


def check_goes_on(path: Path, kept: list[str]) -> None:
    """Whether an interrupted run has kept what was measured, and is whole when it was resumed."""
    assert [line["outcome"] for line in stored(path)] == kept
    done = model("--resume", path, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert len(slots(path)) == TRIALS and set(slots(path).values()) == {1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_that_can_go_on(number: signal.Signals, tmp_path: Path) -> None:
    run = started(*HANGS, cwd=tmp_path)
    until_it_hangs(run)
    run.send_signal(number)
    _, errors = run.communicate()
    assert run.returncode == 130, errors
    assert "warning: interrupted; go on with: venturi run --resume r\n" in errors
    check_goes_on(tmp_path / "r", ["ok", "interrupted"])


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    run = started(*HANGS, cwd=tmp_path)
    until_it_hangs(run)
    # Both wait for it when it goes on: the second is heard before what the first one asks for is done.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        run.send_signal(number)
    _, errors = run.communicate()
    assert run.returncode == 130 and "interrupted" not in errors, errors
    check_goes_on(tmp_path / "r", ["ok"])


LIBRARY = """import venturi
from support.model import executor, used
try:
  with used(executor("hang:operation == 'get'")):
    venturi.run(
        target="flight://local", out="r", ceilings="none",
        operation=["get", "put"], streams=[1, 2], rows_per_stream="1M", repeats=2)
except KeyboardInterrupt:
    print("caught")
finally:
    print("finally")
"""


@pytest.mark.parametrize(("signals", "kept"), [(1, ["ok", "interrupted"]), (2, ["ok"])])
def test_a_library_raises_and_ends_no_process(signals: int, kept: list[str], tmp_path: Path) -> None:
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": environment()}
    run = subprocess.Popen([sys.executable, "-c", LIBRARY], text=True, cwd=tmp_path, **pipes)
    until_it_hangs(run)
    for number in (signal.SIGSTOP, *(signal.SIGINT, signal.SIGTERM)[:signals], signal.SIGCONT):
        run.send_signal(number)
    assert run.communicate()[0] == "caught\nfinally\n" and run.returncode == 0
    check_goes_on(tmp_path / "r", kept)


def test_a_closed_terminal_ends_a_run_that_can_go_on(tmp_path: Path) -> None:
    """The system sends it SIGHUP."""
    ours, theirs = pty.openpty()

    def attach() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)

    run = started(*HANGS, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=attach)
    os.close(theirs)
    seen = b""
    while b"the model hangs" not in seen:
        seen += os.read(ours, 4096)
    os.close(ours)
    assert run.wait() == 130
    check_goes_on(tmp_path / "r", ["ok", "interrupted"])


def test_nohup_hears_no_closed_terminal(tmp_path: Path) -> None:
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    run = started(*HANGS, cwd=tmp_path, **ignored)
    until_it_hangs(run)
    status = Path(f"/proc/{run.pid}/status").read_text().split()
    assert int(status[status.index("SigIgn:") + 1], 16) & 1 << signal.SIGHUP - 1
    run.send_signal(signal.SIGINT)
    assert run.communicate() and run.returncode == 130


def test_a_run_goes_on_without_its_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    # Less than a line has room, so there is much to write when the reader leaves.
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    run = started(*GOES_WELL, "--json", cwd=tmp_path, stdout=write)
    os.close(write)
    with open(read) as output:
        assert json.loads(output.readline())["outcome"] == "ok"
    _, errors = run.communicate()
    assert run.returncode == 0 and len(slots(tmp_path / "r")) == TRIALS, errors
    said = [line for line in errors.splitlines() if "its reader has left" in line]
    assert said == ["warning: standard output: its reader has left; the run goes on, and r has its results"]


def test_a_run_goes_on_without_any_reader(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    run = started(*GOES_WELL, cwd=tmp_path, stdout=write, stderr=write)
    os.close(write)
    assert run.wait() == 0 and len(slots(tmp_path / "r")) == TRIALS


FAILS = ("--executor", "support.model:fail=lost:operation == 'put'", *SMALL)


@pytest.mark.parametrize(("arguments", "code"), [(GOES_WELL, 7), (FAILS, 5)])
def test_a_run_goes_on_where_its_output_finds_no_room(
    arguments: tuple[Any, ...], code: int, tmp_path: Path
) -> None:
    with open("/dev/full", "w") as full:
        run = started(*arguments, "--json", cwd=tmp_path, stdout=full)
        _, errors = run.communicate()
    assert run.returncode == code, errors
    assert "warning: standard output: No space left on device; the run goes on, and r has its" in errors
    assert ("error: standard output cannot be written: No space left on device" in errors) == (code == 7)
    assert set(slots(tmp_path / "r").values()) == {1}


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
NO_READER, NO_ROOM = (
    (0, ""),
    (
        7,
        "error: standard output cannot be written: No space left on device\n"
        "hint: make room there, or write elsewhere\n",
    ),
)


def typed(words: str, run: Path) -> list[str]:
    return [str(run) if word == "RUN" else word.replace("/**/", " ") for word in words.split()]


def no_reader() -> int:
    read, write = os.pipe()
    os.close(read)
    return write


@pytest.fixture
def printed(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], tuple[int, str]]:
    """Runs a command of this process whose standard output is a descriptor: its exit code and errors."""

    def run(words: str, descriptor: int) -> tuple[int, str]:
        before, errors = os.dup(1), io.StringIO()
        os.dup2(descriptor, 1)
        os.close(descriptor)
        with monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["venturi", *typed(words, run_directory)])
            stream = open(1, "w", closefd=False)  # noqa: SIM115 - it is never written
            for name, value in {"stdout": stream, "__stdout__": stream, "stderr": errors}.items():
                patch.setattr(f"sys.{name}", value)
            patch.setattr(output, "_output", None)
            try:
                with pytest.raises(SystemExit) as end:
                    main()
            finally:
                os.dup2(before, 1)
                os.close(before)
        return int(end.value.code or 0), errors.getvalue()

    return run


@pytest.mark.parametrize("words", PRINTING)
def test_what_only_prints_ends_quietly_with_its_reader(
    words: str, printed: Callable[[str, int], tuple[int, str]]
) -> None:
    assert printed(words, no_reader()) == NO_READER


@pytest.mark.parametrize("words", [PRINTING[0], PRINTING[9], PRINTING[-2]])
def test_no_room_for_what_is_printed(words: str, printed: Callable[[str, int], tuple[int, str]]) -> None:
    assert printed(words, os.open("/dev/full", os.O_WRONLY)) == NO_ROOM


@pytest.mark.parametrize("kind", ["no reader", "no room", "closed"])
def test_a_process_ends_without_a_word_about_its_buffers(kind: str, run_directory: Path) -> None:
    """What is left in Python's own streams at the end goes nowhere."""
    more: dict[str, Any] = {"stderr": subprocess.PIPE}
    if kind == "closed":
        more = {"preexec_fn": lambda: (os.close(1), os.close(2))}
    else:
        more["stdout"] = no_reader() if kind == "no reader" else os.open("/dev/full", os.O_WRONLY)
    done = subprocess.run(
        command(*typed("show RUN", run_directory)), text=True, env=environment(), check=False, **more
    )
    wanted = {"no reader": NO_READER, "no room": NO_ROOM, "closed": (0, None)}
    assert (done.returncode, done.stderr) == wanted[kind]


# What is killed: blocks that travel from a server that goes on, rows in a file of ours, points in a store.
KILLED = {
    "flight": ("--operation", "get,put", "--streams", "1", "--rows-per-stream", "5k"),
    "sqlite": ("--operation", "upsert", "--streams", "1,2", "--rows-per-stream", "100"),
    "akumuli": ("--streams", "1,2", "--hosts", 10, "--points-per-stream", "1k"),
}


@pytest.mark.usefixtures("core", "servers_in_process")
@pytest.mark.parametrize("kind", KILLED)
def test_a_killed_run_resumes_exactly(kind: str, tmp_path: Path, start_reference_server: Start) -> None:
    """Killed in any moment of its first half; each trial is there once, and nothing else."""
    path, trials = tmp_path / "r", 2 * 2
    lines = random.Random(kind).randint(1, trials // 2)
    at = start_reference_server().address if kind == "flight" else "local"
    words = ("--target", f"{kind}://{at}", *KILLED[kind], "--repeats", 1, "--warmup", 1, "--quiet", *QUIET)
    with started(*words, cwd=tmp_path) as run:
        kept = path / "trials.jsonl"
        wait_until(
            lambda: run.poll() is not None or (kept.exists() and kept.read_bytes().count(b"\n") >= lines)
        )
        run.kill()
        assert run.communicate()[1] == ""
    done = venturi("run", "--resume", path, "--no-report", "--quiet")
    assert done.returncode == 0, done.stderr
    assert len(stored(path)) == len(slots(path)) == trials
    samples = {file.name for file in (path / "samples").iterdir()}
    assert samples <= {f"{line['trial']}.parquet" for line in stored(path)}
    assert {file.name for file in path.iterdir()} <= {
        *("scenario.toml", "environment.json", "trials.jsonl", "ceilings.jsonl", "samples", ".lock"),
    }  # fmt: skip


def test_a_run_that_was_killed_as_it_began_is_begun_again(tmp_path: Path) -> None:
    path, begun = tmp_path / "r", tmp_path / "begun"
    (path / "samples").mkdir(parents=True)
    (path / ".lock").touch()
    (path / "environment.json.tmp").write_text("{")
    empty = model("--resume", path)
    assert empty.returncode == 7 and f"begin one there: venturi run ... --out {path}\n" in empty.stderr
    done = model(*SMALL, *QUIET, "--quiet", "--out", path)
    assert done.returncode == 0 and len(slots(path)) == TRIALS, done.stderr
    assert not (path / "environment.json.tmp").exists()
    begun.mkdir()
    (path / "scenario.toml").rename(begun / "scenario.toml")
    done = model("--resume", begun, "--no-report", "--quiet")
    assert done.returncode == 0 and len(slots(begun)) == TRIALS, done.stderr
    assert json.loads((begun / "environment.json").read_text())["client"]
