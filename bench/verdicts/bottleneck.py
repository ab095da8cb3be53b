"""Bottlenecks made to measure: CPU quotas, processes that burn CPUs, a relay that delays, a slow disk, locks
that another connection holds, a store that takes its time. All end with the `with`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.flight import ServerProcess
from support.needs import require
from support.run import helper


def at_once() -> list[str]:
    """What a command begins with whose processes are to be woken on time although others keep the cores busy.

    For trials that wait nearly all the time: there, being woken late looks like a longer path.
    """
    return ["chrt", "--rr", "1"] if os.geteuid() == 0 and shutil.which("chrt") else []


@contextlib.contextmanager
def relay(port: int, milliseconds: float) -> Iterator[int]:
    """The port of a TCP relay to `port` that delays each byte by so much in each direction."""
    made = ServerProcess(helper("delay_relay", port, milliseconds))
    try:
        yield made.port
    finally:
        made.stop()


class Group:
    """A control group: processes move in and out."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        # The shell is in the group before it becomes the command.
        self.inside = ["sh", "-c", f'echo $$ > {directory}/cgroup.procs && exec "$@"', "sh"]
        """What a command begins with that is to run there."""

    def take(self, pid: int) -> None:
        (self.directory / "cgroup.procs").write_text(str(pid))

    def release(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            (self.directory.parent / "cgroup.procs").write_text(str(pid))


@contextlib.contextmanager
def group_in(hierarchy: Path, limits: dict[str, str]) -> Iterator[Group]:
    made = Group(hierarchy / f"venturi-test-{uuid.uuid4().hex[:8]}")
    try:
        made.directory.mkdir()
    except OSError as error:
        require(False, f"a control group below {hierarchy} ({error})")
    try:
        try:
            for name, value in limits.items():
                (made.directory / name).write_text(value)
        except OSError as error:
            require(False, f"limits of a control group below {hierarchy} ({error})")
        yield made
    finally:
        for _ in range(50):
            try:
                made.directory.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def controller(name: str) -> tuple[int, Path] | None:
    """The version of control groups that has this controller here, and where; None where neither has."""
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        if kind == "cgroup" and name in options.split(","):
            return 1, Path(place)
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind = line.split()[:3]
        if kind == "cgroup2" and name in (Path(place) / "cgroup.controllers").read_text().split():
            return 2, Path(place)
    return None


def required(name: str) -> tuple[int, Path]:
    found = controller(name)
    require(found, f"a control group's controller {name!r}")
    assert found is not None
    return found


@contextlib.contextmanager
def cpu_group(cores: float) -> Iterator[Group]:
    """Processes that together may have `cores` of CPU time."""
    version, hierarchy = required("cpu")
    limit = str(int(cores * 100_000))
    old, new = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": limit}, {"cpu.max": f"{limit} 100000"}
    with group_in(hierarchy, old if version == 1 else new) as made:
        yield made


@contextlib.contextmanager
def quota(pid: int, cores: float) -> Iterator[None]:
    """The process may have `cores` of CPU time meanwhile."""
    with cpu_group(cores) as group:
        group.take(pid)
        try:
            yield
        finally:
            group.release(pid)


_BURN = "import os\nwhile os.getppid() == {parent}: sum(range(100_000))"


@contextlib.contextmanager
def burners(count: int, within: list[str] | None = None) -> Iterator[None]:
    """So many processes that do nothing but use a CPU."""
    words = [*(within or []), sys.executable, "-c", _BURN.format(parent=os.getpid())]
    running = [subprocess.Popen(words) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


def on_cpus(*cpus: int) -> list[str]:
    """What a command begins with that may use these CPUs alone."""
    require(shutil.which("taskset"), "taskset")
    return ["taskset", "-c", ",".join(map(str, cpus))]


@dataclass(frozen=True)
class SlowDisk:
    """A file system on a disk of its own; what runs in its group writes to it no faster than the disk is."""

    directory: Path
    group: Group


@contextlib.contextmanager
def slow_disk(place: Path, bytes_per_second: int) -> Iterator[SlowDisk]:
    """A loop device with a file system, whose file a control group (blkio, version 1 or 2) writes no faster.

    Of the loop device requests are on their way all that time, as of a slow disk; the throttle is below it.
    No journal: a thread of the kernel's, which is in no group, would write it.
    """
    require(os.geteuid() == 0 and shutil.which("losetup") and shutil.which("mkfs.ext4"), "root and losetup")
    found = required("blkio") if os.path.isdir("/sys/fs/cgroup/blkio") else required("io")
    version, hierarchy = found
    image, mounted = place / "slow-disk.img", place / "slow-disk"
    with open(image, "wb") as file:
        file.truncate(4 << 30)
    mounted.mkdir()
    make = ["mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "lazy_itable_init=0", str(image)]
    subprocess.run(make, check=True, capture_output=True)
    device = os.stat(image).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    limits = (
        {"blkio.throttle.write_bps_device": f"{number} {bytes_per_second}"}
        if version == 1
        else {"io.max": f"{number} wbps={bytes_per_second}"}
    )
    with contextlib.ExitStack() as ends:
        group: Group = ends.enter_context(group_in(hierarchy, limits))
        words = ["losetup", "--direct-io=on", "-f", "--show", str(image)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        require(done.returncode == 0, f"a loop device ({done.stderr.strip()})")
        loop = done.stdout.strip()
        ends.callback(subprocess.run, ["losetup", "-d", loop], check=False, capture_output=True)
        subprocess.run(["mount", loop, str(mounted)], check=True, capture_output=True)
        ends.callback(_unmount, mounted)
        # Databases give up root's account.
        mounted.chmod(0o777)
        yield SlowDisk(mounted, group)
    image.unlink()


def _unmount(mounted: Path) -> None:
    """Whoever had files open there has been ended, and may take a moment."""
    for _ in range(100):
        done = subprocess.run(["umount", str(mounted)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(done.stderr)


@contextlib.contextmanager
def by_turns(
    lock: Callable[[], object], unlock: Callable[[], object], held: float, free: float
) -> Iterator[None]:
    """Takes the lock again and again, for `held` seconds with `free` between."""
    ending = threading.Event()
    failure: list[Exception] = []

    def turn() -> None:
        try:
            while not ending.is_set():
                lock()
                ending.wait(held)
                unlock()
                ending.wait(free)
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        if failure:
            raise failure[0]


@contextlib.contextmanager
def sqlite_locked(file: Path, held: float, free: float) -> Iterator[None]:
    """Another connection is the one writer of an SQLite file, most of the time."""
    with contextlib.closing(
        sqlite3.connect(file, isolation_level=None, timeout=20, check_same_thread=False)
    ) as connection:
        # It stays with the file; who sets it again has to wait for nobody.
        connection.execute("PRAGMA journal_mode = WAL")
        # SQLite would sleep for up to 100 ms between two tries, and a busy writer leaves it no gap as long.
        connection.execute("PRAGMA busy_timeout = 0")

        def lock() -> None:
            while True:
                with contextlib.suppress(sqlite3.OperationalError):
                    connection.execute("BEGIN IMMEDIATE")
                    return

        with by_turns(lock, lambda: connection.execute("ROLLBACK"), held, free):
            yield


@contextlib.contextmanager
def slow_sink(how: str, microseconds: int) -> Iterator[ServerProcess]:
    """A stranger's store of time series that `sleeps` or `burns` so long for each 64 KiB that it reads."""
    made = ServerProcess([sys.executable, "-m", "bench.verdicts.slow_sink", how, str(microseconds)])
    try:
        yield made
    finally:
        made.stop()
