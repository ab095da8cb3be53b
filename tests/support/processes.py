"""Other processes: their ends."""

from __future__ import annotations

import os
import select
import signal


def killed(pid: int) -> None:
    """Kills a process and waits until it is dead, of which its parent need not have heard by then."""
    end = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([end], [], [])
    os.close(end)
