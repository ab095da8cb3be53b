"""Processes of this host, from /proc: which they are, whose they are. Nothing but the standard library."""

from __future__ import annotations

import contextlib
import os

_RENAMED = ("ray::", "ray-dashboard-")
"""How the names begin that Ray's processes give themselves: `ray::DashboardAgent`."""


def boot() -> str:
    return text("/proc/sys/kernel/random/boot_id").strip()


def namespace() -> str:
    return os.readlink("/proc/self/ns/net")


def started(pid: int) -> int | None:
    """When a process was started, in ticks since the system was; None of one that has ended."""
    fields = text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return int(fields[19]) if len(fields) > 19 and fields[0] not in ("Z", "X") else None


def text(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def users(variable: str, value: str, directory: str | None = None) -> list[int]:
    """Processes that have the value as that variable, but for this one.

    With a directory also Ray's that have a file open below it: those that name themselves anew, as
    `ray::IDLE`, overwrite their environment.
    """
    wanted = f"{variable}={value}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = wanted in file.read().split(b"\0")
            if not ours and directory is not None and text(f"/proc/{name}/cmdline").startswith(_RENAMED):
                ours = any(path.startswith(directory + "/") for path in _open_files(name))
        except OSError:
            continue
        if ours and started(int(name)) is not None:
            found.append(int(name))
    return found


def _open_files(pid: str) -> list[str]:
    """Paths of the files that a process has open."""
    paths = []
    for one in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            paths.append(os.readlink(one.path))
    return paths
