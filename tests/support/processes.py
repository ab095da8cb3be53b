"""Other processes: what Linux says of them, and their ends."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path


def fields(pid: int) -> list[str]:
    """What /proc/PID/stat says behind the name: the state, the parent's id and so on. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def command_line(pid: int) -> str:
    """Raises OSError."""
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def cpu_seconds(pid: int) -> float:
    """User and system time of all its threads. Raises OSError."""
    return sum(map(int, fields(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def killed(pid: int) -> None:
    """Kills a process and waits until it is dead, of which its parent need not have heard by then."""
    end = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([end], [], [])
    os.close(end)
