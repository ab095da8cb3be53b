"""Bottlenecks made to measure, beside those of paths and hosts: processes that burn CPUs, a slow disk, locks
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from support.flight import ServerProcess
from support.needs import require
from support.path import Group, group_in, required
from support.run import helper

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
    made = ServerProcess(helper("slow_sink", how, microseconds))
    try:
        yield made
    finally:
        made.stop()
