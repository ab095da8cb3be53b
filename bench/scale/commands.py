"""What a command takes: wall clock, CPU seconds, memory."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LIMIT_SECONDS = 600.0
"""A command that takes longer is ended."""


@dataclass(frozen=True)
class Taken:
    """What one call took. CPU seconds are of the process and of all that it started and waited for."""

    seconds: float
    cpu_seconds: float
    peak_bytes: float
    """The largest sum over it and all that it started, looked at every 20 ms, or what the kernel counted for
    the largest of them if that is more."""

    def as_json(self) -> dict[str, float]:
        return asdict(self)


def venturi(words: Sequence[str]) -> Taken:
    """Runs `venturi WORDS` to its end. Raises RuntimeError where it fails or does not end."""
    line = [sys.executable, "-m", "venturi", *words]
    said = f"venturi {' '.join(words)}"
    began = time.monotonic()
    peak = 0
    # A user's Python keeps what it has compiled; what keeps it from that here would be measured as ours.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, env=environment) as child:
        # The pidfd is ready the moment the child ends: to look every 20 ms would lengthen a short command.
        ended = os.pidfd_open(child.pid)
        try:
            while not _ready(ended, 0.02):
                peak = max(peak, _resident(child.pid))
                if time.monotonic() - began > LIMIT_SECONDS:
                    child.kill()
                    raise RuntimeError(f"{said} did not end within {LIMIT_SECONDS:.0f} s")
        finally:
            os.close(ended)
        seconds = time.monotonic() - began
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{said} ended with status {child.returncode}")
    return Taken(seconds, used.ru_utime + used.ru_stime, max(peak, used.ru_maxrss * 1024))


def _ready(descriptor: int, seconds: float) -> bool:
    return bool(select.select([descriptor], [], [], seconds)[0])


def _resident(pid: int) -> int:
    """Resident bytes of a process and all that it started."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_resident(int(child)) for child in children)
