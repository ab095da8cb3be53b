"""Processes of this host, from /proc: which use its CPUs, and whether one is ending."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from dataclasses import dataclass
from pathlib import Path

_PR_GET_PDEATHSIG = 2
_PF_EXITING = 0x4  # include/linux/sched.h

Ticks = dict[tuple[int, int], tuple[str, int]]
"""By pid and start time, which together no other process has had: name, and ticks of CPU time."""


@dataclass(frozen=True)
class Busy:
    """A process, and how many cores it used."""

    pid: int
    name: str
    cores: float


def ticks() -> Ticks:
    """CPU time of every process that can be seen from here; empty if the system has no /proc."""
    found: Ticks = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            text = (entry / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # It ended meanwhile.
        # The name stands in brackets and may hold any character, brackets and spaces too (proc_pid_stat(5)).
        head, _, rest = text.rpartition(")")
        fields = rest.split()
        if len(fields) < 20:
            continue
        started, spent = int(fields[19]), int(fields[11]) + int(fields[12])
        found[int(entry.name), started] = (head.partition("(")[2], spent)
    return found


def busiest(before: Ticks, after: Ticks, seconds: float, least: float = 0.05) -> list[Busy]:
    """Those that used at least so many cores between two readings, the busiest first, without this process.
    What began in between counts whole; what ended in between is not seen."""
    per_core = os.sysconf("SC_CLK_TCK") * seconds
    used = [
        Busy(pid, name, (spent - before.get((pid, started), (name, 0))[1]) / per_core)
        for (pid, started), (name, spent) in after.items()
        if pid != os.getpid()
    ]
    return sorted((one for one in used if one.cores >= least), key=lambda one: -one.cores)


def children(pid: int) -> list[int]:
    """The processes whose parent is this one."""
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            # A name may hold anything, and ends with the last bracket.
            if entry.name.isdecimal():
                stat = Path(entry.path, "stat").read_text(errors="replace")
                if int(stat.rpartition(")")[2].split()[1]) == pid:
                    found.append(int(entry.name))
    return found


def is_ending(pid: int) -> bool:
    """Whether a process has ended or begun to. The kernel closes its connections on the way out, and only
    later tells whoever waits for the process: a peer may know of the end before the parent does. False
    where the system has no /proc."""
    if not Path("/proc/self/task").is_dir():
        return False
    try:
        threads = [thread / "stat" for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return True
    return all(map(_thread_is_ending, threads))


def _thread_is_ending(stat: Path) -> bool:
    try:
        fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return True
    return fields[0] in "ZX" or bool(int(fields[6]) & _PF_EXITING)


def await_end_with_parent() -> None:
    """Waits for the signal of the parent's end, if this process is to end with its parent and that is ending.
    What the parent had started is gone by then, which is no failure to be kept."""
    try:
        prctl, number = ctypes.CDLL(None).prctl, ctypes.c_int()
    except (OSError, AttributeError):
        return  # no Linux: nobody ends with its parent
    prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0)
    if number.value and is_ending(os.getppid()):
        signal.pause()
