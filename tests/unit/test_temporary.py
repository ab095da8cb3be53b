"""Temporary directories: what a SIGKILL leaves goes with the next start, and nothing else."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.run import ROOT, command, environment, model, venturi
from support.wait import wait_until
from venturi.common import temporary

PACKAGE = ROOT / "python" / "venturi"
RUN = ("--streams", 1, "--duration", "60s", "--repeats", 1, "--warmup", 0, "--no-ceilings", "--no-report")
FREE = [word for name in ("port", "opentsdb", "influx", "http") for word in (f"--{name}", 0)]
GUARDED = """
import os, signal
from venturi.common import temporary
from venturi.servers.throwaway.guarded import Guarded
held = temporary.make("mariadb")
guarded = Guarded(held.path, hold=[held.descriptor])
guarded.serve(["sleep", "1000"], held.path / "server.log", signal.SIGTERM, 1.0, dict(os.environ))
signal.pause()
"""


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


# Who makes such a directory, and what is in it when it is in use.
MAKERS: dict[str, tuple[list[str], str]] = {
    "run": (command("run", "--target", "sqlite://local", *RUN), "venturi-files-*/venturi.sqlite"),
    "server": (command("serve", "timeseries", *FREE), "venturi-store-*/*"),
    "guard": (python(GUARDED), "venturi-mariadb-*/server.log"),
}
KINDS = {"data", "files", "jars", "loader", "ray", "server", "socket", "spark", "store"}
"""What is made, but for the directories of throw-away servers, which have the servers' names."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for temporary ones, which the accounts that servers run as can enter."""
    with tempfile.TemporaryDirectory(prefix="sweep-") as name:
        os.chmod(name, 0o1777)
        yield Path(name)


def is_free(lock: Path) -> bool:
    """Whether nobody holds a directory any more."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def guards_of(pid: int) -> list[int]:
    """The guards of throw-away servers among the children of a process."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if b"guard.py" in Path(f"/proc/{child}/cmdline").read_bytes()]


def next_start(out: Path) -> None:
    """A run that makes no directory."""
    words = ("--operation", "get", "--rows-per-stream", "10k", "--repeats", 1, "--no-report", "--out", out)
    done = model(*words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("maker", MAKERS)
def test_what_a_kill_leaves_goes_with_the_next_start(
    maker: str, place: Path, tmp_path: Path, core: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr("tempfile.tempdir", str(place))
    words, there = MAKERS[maker]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        guards: list[int] = []
        try:
            if "serve" in words:
                assert process.stdout.readline().startswith("serving "), process.stderr.read()
            wait_until(lambda: list(place.glob(there)) or process.poll() is not None)
            assert process.poll() is None, process.stderr.read()
            (held,) = (path for path in place.glob("venturi-*") if list(place.glob(there)))
            next_start(tmp_path / "beside")
            assert held.is_dir() and list(place.glob(there)), "a live process has lost its directory"
            guards = guards_of(process.pid)
            # Both at one instant: neither cleans up after the other.
            for guard in guards:
                os.kill(guard, signal.SIGSTOP)
        finally:
            process.kill()
            for guard in guards:
                os.kill(guard, signal.SIGKILL)
    lock = place / f".{held.name}.lock"
    assert held.is_dir() and lock.is_file()
    wait_until(lambda: is_free(lock), lambda: "somebody holds it still")
    next_start(tmp_path / "after")
    assert list(place.iterdir()) == []


def test_nobody_makes_others() -> None:
    made = set()
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        made |= set(re.findall(r'temporary\.make\("(\w+)"', text))
        # A file in its final place's directory, and one in the directory of a server.
        allowed = {"temporary.py": 0, "machine_cache.py": 1, "chdb_http.py": 1}.get(path.name, 0)
        assert len(re.findall(r"mkdtemp|mkstemp\(|TemporaryDirectory\(|NamedTemp", text)) <= allowed, path
    assert made == KINDS


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def left(kind: str) -> Path:
    """A directory whose holder has gone."""
    held = temporary.make(kind)
    (held.path / "inner").mkdir()
    (held.path / "inner" / "file").write_text("x")
    os.close(held.descriptor)
    return held.path


def test_it_is_ours_alone_and_goes(root: Path) -> None:
    with temporary.make("data") as path:
        assert path.stat().st_mode & 0o777 == 0o700 and path.parent == root
        (path / "file").write_text("x")
        temporary.sweep()
        assert (path / "file").exists()
    assert list(root.iterdir()) == []


def test_a_child_that_inherits_it_holds_it(root: Path) -> None:
    held = temporary.make("store")
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[held.descriptor]
    ) as child:
        os.close(held.descriptor)
        temporary.sweep()
        assert held.path.is_dir()
        child.communicate(b"\n")
    temporary.sweep()
    assert list(root.iterdir()) == []


def test_links_are_not_followed(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    precious = tmp_path_factory.mktemp("precious")
    (precious / "file").write_text("x")
    inside = left("data")
    (inside / "link").symlink_to(precious)
    # In the directory's place, and in the lock's.
    replaced = left("store")
    os.rename(replaced, root / "moved")
    replaced.symlink_to(precious)
    (root / ".venturi-files-00000000.lock").symlink_to(precious / "file")
    (root / "venturi-files-00000000").mkdir()
    temporary.sweep()
    assert (precious / "file").read_text() == "x" and replaced.is_symlink()
    assert not inside.exists() and (root / "moved" / "inner" / "file").exists()
    assert (root / "venturi-files-00000000").is_dir()


def test_directories_of_others_stay(root: Path) -> None:
    # Made by somebody else under the name of one that has gone.
    other = left("data")
    os.rename(other, root / "moved")
    other.mkdir()
    (other / "file").write_text("x")
    # Called like ours, without a lock; and a lock of another user's.
    (root / "venturi-data-0123abcd").mkdir()
    (root / "venturi-runs").mkdir()
    foreign = None
    if os.geteuid() == 0:
        foreign = left("store")
        os.chown(root / f".{foreign.name}.lock", 12345, 12345)
        os.chown(foreign, 12345, 12345)
    temporary.sweep()
    assert (other / "file").exists() and (root / "venturi-runs").is_dir()
    assert (root / "venturi-data-0123abcd").is_dir() and (foreign is None or (foreign / "inner").is_dir())


def test_a_kill_between_the_steps_of_making_one(root: Path) -> None:
    (root / ".venturi-data-00000001.lock").touch(0o600)
    (root / ".venturi-data-00000002.lock").touch(0o600)
    (root / "venturi-data-00000002").mkdir(0o700)
    # Nothing of ours has anything in it before its lock says which one it is.
    (root / ".venturi-data-00000003.lock").touch(0o600)
    (root / "venturi-data-00000003").mkdir(0o700)
    (root / "venturi-data-00000003" / "file").touch()
    temporary.sweep()
    names = sorted(path.name for path in root.iterdir() if not path.name.startswith("."))
    assert names == ["venturi-data-00000003"]


MANY = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from venturi.common import temporary
for number in range(50):
    with temporary.make("data") as path:
        (path / "file").write_text("x")
        temporary.sweep()
        assert (path / "file").read_text() == "x"
    if number % 3 == 0:
        os.close(temporary.make("store").descriptor)
"""


def test_many_at_once(root: Path) -> None:
    """Whoever makes one never loses it to somebody who sweeps at that moment."""
    each = [
        subprocess.Popen([sys.executable, "-c", MANY, str(root)], env=environment(), stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in each:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said.decode()
    temporary.sweep()
    assert list(root.iterdir()) == []


def test_no_place_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    monkeypatch.setattr("tempfile.tempdir", "/proc/1/task")
    done = venturi("run", "--target", "empty://", "--operation", "put", "--data", "rows.csv", cwd=tmp_path)
    assert done.returncode == 7 and done.stderr.startswith("error: no temporary directory can be made: ")
    assert "hint: point the variable TMPDIR" in done.stderr
