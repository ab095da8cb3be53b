"""Ends a Ray that was started for a run, and removes its files, once the run's process has ended: of one that
was killed Ray leaves two agents, for a minute, and its directory, for ever.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

from venturi.cluster.node import users

_VARIABLE = "VENTURI_RAY"
_GRACE_SECONDS = 10.0
_POLL_SECONDS = 0.05


class RayGuard:
    """Until `close`, or the end of this process."""

    def __init__(self) -> None:
        self._mark = secrets.token_hex(8)
        self._guard = subprocess.Popen(
            [sys.executable, "-m", __name__, self._mark, str(os.getpid())],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is this process' to hear
        )

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What is started in the block, and by that, is ended by the guard."""
        os.environ[_VARIABLE] = self._mark
        try:
            yield
        finally:
            del os.environ[_VARIABLE]

    def close(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()


def main(mark: str, driver: str) -> None:
    sys.stdin.read()
    until = time.monotonic() + _GRACE_SECONDS
    while (left := users(_VARIABLE, mark)) and time.monotonic() < until:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    # Where Ray puts its directories, whose names end with the driver's number.
    place = os.path.join(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")
    for directory in glob.glob(os.path.join(glob.escape(place), f"session_*_{driver}")):
        shutil.rmtree(directory, ignore_errors=True)
    latest = os.path.join(place, "session_latest")
    if not os.path.exists(latest):
        with contextlib.suppress(OSError):
            os.unlink(latest)
    with contextlib.suppress(OSError):
        os.rmdir(place)


if __name__ == "__main__":
    main(*sys.argv[1:])
