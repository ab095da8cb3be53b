"""What a command takes: wall clock, CPU seconds, memory."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench import Line

LIMIT_SECONDS = 600.0
"""A command that takes longer is ended."""


def venturi(words: Sequence[str]) -> Line:
    """Runs `venturi WORDS` to its end: seconds, CPU seconds of it and all that it waited for, and the largest
    sum of their memory, looked at every 20 ms. Raises RuntimeError if it fails."""
    # A user's Python keeps what it has compiled.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command, name = [sys.executable, "-m", "venturi", *words], f"venturi {' '.join(words)}"
    began, peak = time.monotonic(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as child:
        # The pidfd is ready the moment the child ends: to look every 20 ms would lengthen a short command.
        ended = os.pidfd_open(child.pid)
        try:
            while not select.select([ended], [], [], 0.02)[0]:
                peak = max(peak, _resident(child.pid))
                if time.monotonic() - began > LIMIT_SECONDS:
                    child.kill()
        finally:
            os.close(ended)
        seconds = time.monotonic() - began
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"{name} ended with status {child.returncode}")
    peak = max(peak, used.ru_maxrss * 1024)
    return {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_bytes": peak}


def _resident(pid: int) -> int:
    """Resident bytes of a process and all that it started."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(_resident(int(child)) for child in children)
