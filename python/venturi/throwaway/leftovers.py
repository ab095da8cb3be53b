"""Directories of servers whose guard was killed together with Venturi: removed by the next start."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

__all__ = ["locked", "sweep"]

# A directory is made a moment before it is locked.
_LEAST_AGE_SECONDS = 60.0


def locked(directory: Path) -> int:
    """A descriptor that holds the directory's lock; whoever has it open says that it is in use."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def sweep(prefix: str) -> None:
    """Removes directories of that prefix, below the system's temporary one, which nobody holds."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        try:
            found = directory.lstat()
            if time.time() - found.st_ctime < _LEAST_AGE_SECONDS or not _ours(found.st_uid):
                continue
            descriptor = locked(directory)
        except OSError:
            continue  # in use, gone by now, no directory, or not ours to open
        try:
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(descriptor)


def _ours(owner: int) -> bool:
    return os.geteuid() in (owner, 0)
