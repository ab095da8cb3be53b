"""Temporary directories, of every kind that Venturi makes: made, removed and swept in this one place.

Beside a directory `venturi-KIND-XXXXXXXX` lies a file `.venturi-KIND-XXXXXXXX.lock`, on which whoever uses
the directory holds a lock (flock). A lock ends with its last holder, however that ends, so a free lock means
that the directory was left behind, by a SIGKILL for instance. Whoever starts next removes it.

The lock is taken before its directory is made and goes after it: at no instant is there a directory without
one, so neither ages nor process ids have to be guessed at. The file says which directory is meant, by device
and inode: another one of that name, or a symbolic link, is never touched.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from venturi.common.errors import StoreError

_LOCK = re.compile(r"\.(venturi-[a-z0-9]+-[0-9a-f]{8})\.lock")
_ATTEMPTS = 100
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


class LockedTempDir:
    """A directory of ours until `remove`; use as a context manager, or keep it. `descriptor` holds the lock:
    a process that is to keep the directory when this one is gone inherits it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def remove(self) -> None:
        """Removes it with all that is in it. What cannot be removed now is left to the next sweep."""
        if self.descriptor < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        if not os.path.lexists(self.path):
            _lock_of(self.path).unlink(missing_ok=True)
        os.close(self.descriptor)
        self.descriptor = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def make(kind: str, root: Path | None = None) -> LockedTempDir:
    """A new directory `venturi-KIND-...` that only we may enter, below `root` or the system's temporary one;
    first removes what others left behind there. Raises StoreError if there is no place for it."""
    sweep(root)
    try:
        root = _absolute(root)
        for _ in range(_ATTEMPTS):
            path = root / f"venturi-{kind}-{secrets.token_hex(4)}"
            # Neither a name that is taken, nor a lock that a sweep was quicker to take.
            with contextlib.suppress(FileExistsError, BlockingIOError):
                return _made(path)
    except OSError as error:
        raise StoreError(
            f"no temporary directory can be made: {error.strerror or error}",
            hint="point the variable TMPDIR to a directory with room",
        ) from None
    raise StoreError(f"{root}: no temporary directory can be made: every name is taken")


def sweep(root: Path | None = None) -> None:
    """Removes the temporary directories of this user, of all kinds, that nobody holds any more."""
    with contextlib.suppress(OSError):
        for name in os.listdir(root := _absolute(root)):
            if _LOCK.fullmatch(name):
                with contextlib.suppress(OSError):  # in use, gone by now, or not ours to open
                    _remove_unheld(root / name)


def _absolute(root: Path | None) -> Path:
    return Path(os.path.abspath(root if root is not None else tempfile.gettempdir()))


def _lock_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.lock")


def _made(path: Path) -> LockedTempDir:
    descriptor = _held(_lock_of(path), os.O_CREAT | os.O_EXCL)
    try:
        path.mkdir(mode=0o700)
        os.write(descriptor, _identity(path.lstat()))
    except BaseException:
        with contextlib.suppress(OSError):
            _lock_of(path).unlink()
        os.close(descriptor)
        raise
    return LockedTempDir(path, descriptor)


def _held(lock: Path, how: int) -> int:
    """A descriptor with the lock. Raises BlockingIOError if another has it, or has just removed it."""
    descriptor = os.open(lock, how | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Some network file systems have no locks: there it can be made, and is never swept.
            if error.errno not in _NO_LOCKS or not how & os.O_CREAT:
                raise
        found = os.fstat(descriptor)
        if not os.path.samestat(found, lock.lstat()):
            raise BlockingIOError
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError
    except FileNotFoundError:
        os.close(descriptor)
        raise BlockingIOError from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _identity(found: os.stat_result) -> bytes:
    return b"%d %d\n" % (found.st_dev, found.st_ino)


def _remove_unheld(lock: Path) -> None:
    descriptor = _held(lock, 0)
    try:
        found = _LOCK.fullmatch(lock.name)
        assert found is not None
        path = lock.with_name(found[1])
        with contextlib.suppress(FileNotFoundError):
            status, noted = path.lstat(), os.pread(descriptor, 64, 0)
            if noted == _identity(status):
                shutil.rmtree(path)
            elif not noted and status.st_uid == os.geteuid():
                # Killed between the two steps of making it: empty, and rmdir takes nothing else.
                path.rmdir()
        lock.unlink()
    finally:
        os.close(descriptor)
