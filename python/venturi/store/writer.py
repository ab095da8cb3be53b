"""Writes a run directory; one process at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from venturi.common.credentials import without_named
from venturi.common.errors import StoreError
from venturi.common.processes import is_ending
from venturi.engine.spec import FORMAT_VERSION
from venturi.store.directory import (
    CEILINGS,
    ENVIRONMENT,
    LOCK,
    SAMPLES,
    SCENARIO,
    TRIALS,
    RunDirectory,
    remove_unfinished,
)
from venturi.store.lines import explained, line_text, read_lines

_LEFT_SECONDS = 10.0
_POLL_SECONDS = 0.02


class RunWriter:
    """A run directory under construction, held by a lock; use as a context manager."""

    def __init__(self, path: Path, lock: int, repaired: list[str]) -> None:
        self.path = path
        self._lock = lock
        # What a resume repaired, for the user to read.
        self.repaired = repaired

    @staticmethod
    def check(path: str | os.PathLike[str]) -> None:
        """Raises StoreError where a run is there already, or there can be no directory."""
        root = Path(path)
        try:
            str(root).encode()
        except UnicodeEncodeError:
            # Other programs' libraries, which write and read parts of a run, take no such path.
            raise StoreError(
                f"{str(root).encode(errors='backslashreplace').decode()}: the name is not UTF-8",
                hint="choose another directory by --out",
            ) from None
        if (root / TRIALS).exists() or (root / ENVIRONMENT).exists():
            # The lock first: "a run is writing here" explains more than "exists".
            os.close(_take_lock(root))
            raise StoreError(
                f"{root}: holds a run already",
                hint=f"go on with it by --resume {root}, or choose another directory by --out",
            )
        with explained(root):
            parent = next(place for place in (root, *root.absolute().parents) if place.exists())
            if not parent.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not os.access(parent, os.W_OK | os.X_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunWriter:
        """Makes a new run directory. Raises StoreError where one is there already."""
        cls.check(path)
        root = Path(path)
        with explained(root):
            (root / SAMPLES).mkdir(parents=True, exist_ok=True)
        lock = _take_lock(root)
        return cls(root, lock, [])

    @classmethod
    def resume(cls, path: str | os.PathLike[str]) -> RunWriter:
        """Opens a run to go on with it; a torn last line is cut off and reported in `repaired`."""
        directory = RunDirectory(path)
        lock = _take_lock(directory.path)
        try:
            repaired = []
            for name in (TRIALS, CEILINGS):
                torn = _repair(directory.path / name)
                if torn:
                    repaired.append(f"{directory.path / name}: cut off a torn last line of {torn} bytes")
            with explained(directory.path):
                (directory.path / SAMPLES).mkdir(exist_ok=True)
                remove_unfinished(directory)
        except BaseException:
            os.close(lock)
            raise
        return cls(directory.path, lock, repaired)

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the lock."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def read(self) -> RunDirectory:
        """The same directory, for reading."""
        return RunDirectory(self.path)

    def write_scenario(self, toml: str) -> None:
        """Stores the resolved scenario."""
        self._replace(SCENARIO, toml)

    def write_environment(self, environment: Mapping[str, Any]) -> None:
        """Stores the environment of both ends; the format's version is added."""
        document = {"format": FORMAT_VERSION, **without_named(environment)}
        self._replace(ENVIRONMENT, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    @staticmethod
    def get_ready() -> None:
        """Imports what samples are written with, which the first trial would wait for."""
        from venturi.store import samples  # noqa: F401

    def append_trial(self, line: Mapping[str, Any]) -> None:
        """Appends a trial; on disk when this returns. Its samples go into a file of their own. Raises
        StoreError where the disk is full; the file is left as it was before."""
        kept = {key: value for key, value in line.items() if key != "samples"}
        trouble: StoreError | None = None
        try:
            self._keep_samples(line)
        except StoreError as error:
            # The line is far smaller and worth more, so it is written even so.
            trouble = error
        self._append(TRIALS, kept)
        if trouble is not None:
            raise trouble

    def append_trials(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Appends many trials at once, all or none: what was imported was never in flight. Raises StoreError
        where the disk is full; the file is left as it was before."""
        for line in lines:
            if line.get("samples"):
                self._keep_samples(line)
        text = "".join(
            line_text({key: value for key, value in line.items() if key != "samples"}) + "\n"
            for line in lines
        )
        self._append_text(TRIALS, text)

    def append_ceiling(self, line: Mapping[str, Any]) -> None:
        """Appends a probe of a physical limit."""
        self._append(CEILINGS, without_named(line))

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        self._append_text(name, line_text(line) + "\n")

    def _append_text(self, name: str, text: str) -> None:
        """Whole lines, in one piece."""
        # A path may hold bytes that are no UTF-8; an escape is what JSON takes for them.
        data = text.encode(errors="backslashreplace")
        path = self.path / name
        with explained(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            before = os.fstat(descriptor).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError:
                # Half a line would be torn; truncating it needs no space.
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, before)
                raise
            finally:
                os.close(descriptor)

    def _keep_samples(self, line: Mapping[str, Any]) -> None:
        """The samples of a line into a file of their own, where it has any."""
        samples = line.get("samples")
        if samples and any((samples.get(end) or {}).get("t_ns") for end in ("client", "server")):
            self._write_samples(str(line["trial"]), samples)

    def _write_samples(self, trial: str, samples: Mapping[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from venturi.store.samples import samples_of

        path = self.path / SAMPLES / f"{trial}.parquet"
        sink, table = pa.BufferOutputStream(), samples_of(samples)
        # One row group of growing numbers: statistics would only take space. Of a short trial zstd makes
        # little less than snappy, and takes as long as all else to begin each column.
        pq.write_table(
            table,
            sink,
            compression="zstd" if table.num_rows > 1000 else "snappy",
            use_dictionary=["end"],
            write_statistics=False,
        )
        with _replaced(path) as partial:
            partial.write_bytes(sink.getvalue())

    def _replace(self, name: str, text: str) -> None:
        """Writes a whole file, so that a crash leaves the old or the new one."""
        with _replaced(self.path / name) as partial, partial.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


def _take_lock(root: Path) -> int:
    """Takes the lock, which ends with its process. Raises StoreError while another run has it. What a run has
    just forked holds its lock too, for a moment longer than a run that was killed."""
    with explained(root):
        descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    until = time.monotonic() + _LEFT_SECONDS
    while not _is_locked(descriptor):
        holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        if not holder.isdigit() or not is_ending(int(holder)) or time.monotonic() > until:
            os.close(descriptor)
            by = f" (process {holder})" if holder.isdigit() else ""
            raise StoreError(
                f"{root}: another run is writing here{by}",
                hint="wait for it to end, or choose another directory by --out",
            )
        time.sleep(_POLL_SECONDS)
    # The process id only informs the reader.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _is_locked(descriptor: int) -> bool:
    """Tries to lock an open file; whether it did."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _repair(path: Path) -> int:
    """Cuts off a torn last line; returns its bytes."""
    torn = read_lines(path, dict)[1]
    if torn:
        with explained(path), path.open("r+b") as file:
            file.truncate(path.stat().st_size - torn)
            os.fsync(file.fileno())
    return torn


@contextlib.contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """A file to write, which replaces `path` when it is whole and is removed when that fails."""
    partial = path.with_name(path.name + ".tmp")
    with explained(path):
        try:
            yield partial
            partial.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
