"""Directories of servers whose guard was killed together with Venturi: removed by the next start."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

__all__ = ["locked", "sweep"]

# A directory is made a moment before it is locked.
_LEAST_AGE_SECONDS = 60.0
_LOCK = "lock"


def locked(directory: Path) -> int:
    """A descriptor that holds the lock of a new directory; whoever has it open says that it is in use."""
    return _hold(directory, os.O_RDWR | os.O_CREAT | os.O_EXCL)


def _hold(directory: Path, how: int) -> int:
    descriptor = os.open(directory / _LOCK, how | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def sweep(prefix: str) -> None:
    """Removes directories of that prefix, below the system's temporary one, which nobody holds."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            found = directory.lstat()
            if not stat.S_ISDIR(found.st_mode):
                continue
            if time.time() - found.st_ctime < _LEAST_AGE_SECONDS or not _ours(found.st_uid):
                continue
            # A directory without the file is none of ours, whatever it is called.
            descriptor = _hold(directory, os.O_RDWR)
        except OSError:
            continue  # in use, gone by now, or not ours to open
        try:
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(descriptor)


def _ours(owner: int) -> bool:
    return os.geteuid() in (owner, 0)
