"""Links of the laboratory for tests: what independent tools measure over one, and what is left behind."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.needs import require
from support.processes import command_line, fields
from support.run import command, environment
from support.wait import wait_until
from venturi.common.errors import VenturiError
from venturi.netlab.laboratory import Laboratory
from venturi.netlab.network import Hosts, address

SERVER = address("server")
IPERF_PORT = 5201
_INTERFACES = {*Hosts().middle, "switch"}
_IPERF_SECONDS = 60.0


@contextlib.contextmanager
def laboratory() -> Iterator[Laboratory]:
    """Skips the test where this host can make none."""
    try:
        made = Laboratory()
    except VenturiError as error:
        require(False, f"network namespaces ({error.message})")
        raise
    with contextlib.closing(made):
        yield made


@pytest.fixture(scope="module", autouse=True)
def host_has_namespaces() -> None:
    """For modules that import it: all of their tests need network namespaces."""
    with laboratory():
        pass


def inside(lab: Laboratory, end: str, *words: object) -> list[str]:
    """A command that runs at this end."""
    return [*lab.within(end), *map(str, words)]


def ping(lab: Laboratory, count: int, seconds: float) -> list[float]:
    """Round trips in ms of `count` packets, one each so many seconds; of those that came back."""
    require(shutil.which("ping"), "ping (tools/install-servers)")
    words = inside(lab, "client", "ping", "-n", "-c", count, "-i", seconds, "-W", 2, SERVER)
    done = subprocess.run(words, capture_output=True, text=True, timeout=count * seconds + 30, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert f"{count} packets transmitted" in done.stdout
    return [float(time) for time in re.findall(r"time=([\d.]+) ms", done.stdout)]


def listening(within: Sequence[str], port: int) -> None:
    """Waits until somebody listens on this port there."""

    def found() -> bool:
        tables = subprocess.run([*within, "cat", "/proc/self/net/tcp", "/proc/self/net/tcp6"],
                                capture_output=True, text=True, check=True).stdout  # fmt: skip
        return re.search(rf":{port:04X} [0:]+ 0A ", tables) is not None

    wait_until(found)


def iperf3(lab: Laboratory, *options: object) -> dict[str, Any]:
    """What iperf3 tells at its end, of a test from client to server; `--reverse` turns it round."""
    require(shutil.which("iperf3"), "iperf3 (tools/install-servers)")
    words = inside(lab, "client", "iperf3", "--client", SERVER, "--json", *options)
    # Somebody else's program may be started twice: it begins a test of datagrams with one that it does not
    # send again, and without it the two would wait for each other.
    for last in (False, True):
        serving = inside(lab, "server", "iperf3", "--server", "--one-off", "--json")
        with subprocess.Popen(serving, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                listening(lab.within("server"), IPERF_PORT)
                done = subprocess.run(
                    words, capture_output=True, text=True, timeout=_IPERF_SECONDS, check=False
                )
            except subprocess.TimeoutExpired:
                if last:
                    raise
                continue
            finally:
                server.kill()
        told = json.loads(done.stdout)
        assert "error" not in told, told["error"]
        return dict(told["end"])
    raise AssertionError


def tree(pid: int) -> dict[int, str]:
    """Processes that descend from this one, and itself: their command lines. Those whose parent has ended
    before are none of them."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdecimal():
                parents[int(entry.name)] = int(fields(int(entry.name))[1])
    found: dict[int, str] = {}
    todo = [pid]
    while todo:
        one = todo.pop()
        with contextlib.suppress(OSError):
            found[one] = command_line(one)
            todo += [child for child, parent in parents.items() if parent == one]
    return found


def alive(pids: Sequence[int]) -> list[int]:
    """Of these processes, those that are neither gone nor waiting to be noticed."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            if fields(pid)[0] not in "ZX":
                found.append(pid)
    return found


def gone(pids: Sequence[int]) -> None:
    """Waits until none of these processes lives."""
    wait_until(lambda: not alive(pids), lambda: alive(pids))


def networks(pids: Sequence[int]) -> dict[int, int]:
    """Network namespaces of these processes, but for this one's: their numbers, which nobody else is given as
    long as the descriptor is open that stands beside."""
    own, found = os.stat("/proc/self/ns/net").st_ino, dict[int, int]()
    for pid in pids:
        with contextlib.suppress(OSError):
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            number = os.fstat(descriptor).st_ino
            if number == own or number in found:
                os.close(descriptor)
            else:
                found[number] = descriptor
    return found


def _within(spaces: Container[int]) -> list[int]:
    """Processes in any of these namespaces."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdecimal() and (entry / "ns" / "net").stat().st_ino in spaces:
                found.append(int(entry.name))
    return found


def nothing_left(pids: Sequence[int], spaces: dict[int, int]) -> None:
    """Waits until none of these processes lives, and nobody at all is in one of these namespaces, which go
    with the last one in them; and sees that no interface has got into this one."""
    gone(pids)
    wait_until(lambda: not _within(spaces), lambda: [tree(pid) for pid in _within(spaces)])
    for descriptor in spaces.values():
        os.close(descriptor)
    assert not {path.name for path in Path("/sys/class/net").iterdir()} & _INTERFACES


def only_the_first(out: Path) -> None:
    """Leaves one trial of a run, however many there are by now."""
    path = out / "trials.jsonl"
    if path.exists():
        path.write_text(path.read_text().splitlines(keepends=True)[0])


def started(*arguments: object, cwd: Path, **more: Any) -> subprocess.Popen[str]:
    """`venturi ARGUMENTS`, which may be killed."""
    given = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given |= {"text": True, "env": environment(), **more}
    return subprocess.Popen(command(*arguments), cwd=cwd, **given)


def until(pid: int, text: str) -> int:
    """Waits for a process below this one with that text in its command line; its id."""

    def found() -> int | None:
        assert alive([pid]), f"{text} never ran below {pid}"
        return next((one for one, line in tree(pid).items() if one != pid and text in line), None)

    return wait_until(found) or 0


def for_others() -> tuple[list[str], dict[str, str]]:
    """What a command begins with that runs `venturi` as somebody who is not root, and its environment. That
    is by a Python which others may read: ours, or the system's of the same version."""
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    variables = environment()
    variables["PYTHONPATH"] += os.pathsep + sysconfig.get_path("purelib")
    for python in (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"):
        # A program that has been somebody else's from its beginning reads this one.
        words = [*become, "sh", "-c", f"exec {shlex.quote(python)} -c 'import venturi._core, pyarrow'"]
        if not subprocess.run(words, env=variables, capture_output=True, check=False, cwd="/").returncode:
            return [*become, python, "-m", "venturi"], variables
    require(False, "a Python with Venturi that others than root may read")
    raise AssertionError
