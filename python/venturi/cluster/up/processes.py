"""Processes of this host, from /proc: which they are, whose they are. Nothing but the standard library."""

from __future__ import annotations

import os


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


def carrying(variable: str, value: str) -> list[int]:
    """All that have the variable with that value in their environment, but for this one."""
    wanted = f"{variable}={value}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                ours = wanted in file.read().split(b"\0")
        except OSError:
            continue
        if ours and started(int(name)) is not None:
            found.append(int(name))
    return found
