"""The run directory: written trial by trial, safe against a crash, read back as tables.

Its layout is docs/format.md. Everything derived (statistics, reports) is made from
here and can be made again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.collector import without_collector
from venturi.errors import StoreError
from venturi.trial import FORMAT_VERSION, shorten_errors

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RunDirectory", "RunWriter", "line_text", "what_is_damaged"]

SCENARIO, ENVIRONMENT = "scenario.toml", "environment.json"
TRIALS, CEILINGS, SAMPLES, LOCK = "trials.jsonl", "ceilings.jsonl", "samples", ".lock"
PREDICTIONS = "predictions.jsonl"
_FULL = (errno.ENOSPC, errno.EDQUOT)


_read: set[Path] = set()
"""The runs that this process has opened, for `what_is_damaged`."""


def what_is_damaged() -> StoreError | None:
    """Whether a run that was read holds what no Venturi writes: asked after a fault, to tell whose it is."""
    from venturi import damage

    for directory in sorted(_read):
        with contextlib.suppress(StoreError):
            found = damage.first(_read_lines(directory / TRIALS)[0])
            if found is not None:
                number, text = found
                return StoreError(
                    f"{directory / TRIALS}:{number + 1}: {text}; the file is damaged",
                    hint="take that line out; if Venturi itself has written it so, please report it: "
                    "VENTURI_DEBUG=1 shows where it fails",
                )
    return None


class RunDirectory:
    """A run on disk, for reading. A run that is still going on can be read too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises StoreError where there is no run, or one of a newer format."""
        self.path = Path(path)
        if not self.path.is_dir():
            raise StoreError(
                f"{self.path}: no such run directory",
                hint="runs are kept in venturi-runs/ unless --out says otherwise",
            )
        if not (self.path / ENVIRONMENT).is_file() and not (self.path / TRIALS).is_file():
            raise StoreError(
                f"{self.path}: not a run directory ({ENVIRONMENT} and {TRIALS} are missing)",
                hint="name the directory that `venturi run` printed",
            )
        _read.add(self.path)
        # Reading the environment checks the format's version before anything else is believed.
        self.environment: dict[str, Any] = self._read_environment()

    @property
    def name(self) -> str:
        """The run's name, by default that of its directory."""
        return str(self.environment.get("run") or self.path.resolve().name)

    @property
    def saved(self) -> bool:
        """Whether it is a directory, in which reports have a place; published figures taken for a run are
        not."""
        return True

    def _read_environment(self) -> dict[str, Any]:
        path = self.path / ENVIRONMENT
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise StoreError(f"{path}: not a JSON object")
        _check_version(found, path)
        return found

    def scenario_text(self) -> str:
        """The resolved scenario as TOML; empty where the run has none."""
        path = self.path / SCENARIO
        try:
            return path.read_text(encoding="utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None

    def records(self) -> list[dict[str, Any]]:
        """The lines of trials.jsonl in the order they were measured, warm-up and failed ones included.

        A torn last line (a crash while it was written) is left out.
        """
        return _read_lines(self.path / TRIALS)[0]

    def ceiling_records(self) -> list[dict[str, Any]]:
        """The lines of ceilings.jsonl."""
        return _read_lines(self.path / CEILINGS)[0]

    def prediction_records(self) -> list[dict[str, Any]]:
        """The lines of predictions.jsonl: what was foretold, to be checked by a trial."""
        return _read_lines(self.path / PREDICTIONS)[0]

    def trials(self) -> pa.Table:
        """One row a trial: parameters, counts, times, outcome; see docs/format.md."""
        from venturi import tables

        return tables.trials(self.records())

    def streams(self) -> pa.Table:
        """One row a stream of a trial."""
        from venturi import tables

        return tables.streams(self.records())

    def latency(self) -> pa.Table:
        """One row a percentile of a trial, service and response time (ns)."""
        from venturi import tables

        return tables.latency(self.records())

    def stages(self) -> pa.Table:
        """One row a stage of one end of a trial (ns, summed over its streams)."""
        from venturi import tables

        return tables.stages(self.records())

    def errors(self) -> pa.Table:
        """One row a kind of error that batches of a trial met (upserts)."""
        from venturi import tables

        return tables.errors(self.records())

    def ceilings(self) -> pa.Table:
        """One row a probe of a physical limit."""
        from venturi import tables

        return tables.ceilings(self.ceiling_records())

    def resources(self) -> pa.Table:
        """One row an end of a trial: what processes and hosts did over its interval."""
        from venturi import tables

        return tables.resources(self.records())

    def hosts(self) -> pa.Table:
        """One row a loader of a trial that ran on several hosts."""
        from venturi import tables

        return tables.hosts(self.records())

    def samples(
        self, trial: str | Iterable[str] | None = None, columns: Iterable[str] | None = None
    ) -> pa.Table:
        """The 100 ms counters, of one trial, of several or of all, with a column `trial`.

        `columns` takes only these, which is far quicker for many trials.
        """
        from venturi import tables

        return tables.samples(self.path / SAMPLES, trial, columns)

    def thread_names(self, trial: str) -> dict[str, list[str]]:
        """Names of the threads of each end, in the order of the samples' `thread_cpu_ns`."""
        from venturi import sampled

        return sampled.thread_names(self.path / SAMPLES, trial)


class RunWriter:
    """A run directory under construction, held by a lock; use as a context manager."""

    def __init__(self, path: Path, lock: int, repaired: list[str]) -> None:
        self.path = path
        self._lock = lock
        # What a resume had to mend, for the user to read.
        self.repaired = repaired

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunWriter:
        """Makes a new run directory. Raises StoreError where one is there already."""
        root = Path(path)
        if (root / TRIALS).exists() or (root / ENVIRONMENT).exists():
            # A run at work in there is the better explanation, so its lock is tried first.
            os.close(_take_lock(root))
            raise StoreError(
                f"{root}: holds a run already",
                hint=f"go on with it by --resume {root}, or choose another directory by --out",
            )
        with _explained(root):
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
            for name in (TRIALS, CEILINGS, PREDICTIONS):
                torn = _repair(directory.path / name)
                if torn:
                    repaired.append(f"{directory.path / name}: cut off a torn last line of {torn} bytes")
            with _explained(directory.path):
                (directory.path / SAMPLES).mkdir(exist_ok=True)
                _remove_unfinished(directory)
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
        document = {"format": FORMAT_VERSION, **environment}
        self._replace(ENVIRONMENT, json.dumps(document, indent=2, ensure_ascii=False) + "\n")

    def append_trial(self, line: Mapping[str, Any]) -> None:
        """Appends a trial; on disk when this returns. Its samples go into a file of their own.

        Raises StoreError where the disk is full; the file is left as it was before.
        """
        kept = {key: value for key, value in line.items() if key != "samples"}
        trouble: StoreError | None = None
        try:
            self._keep_samples(line)
        except StoreError as error:
            # The line itself is far smaller and worth more, so it is tried all the same.
            trouble = error
        self._append(TRIALS, kept)
        if trouble is not None:
            raise trouble

    def append_trials(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Appends many trials at once, all or none: what was imported was never in flight.

        Raises StoreError where the disk is full; the file is left as it was before.
        """
        for line in lines:
            if line.get("samples"):
                self._keep_samples(line)
        whole = "".join(
            line_text({key: value for key, value in line.items() if key != "samples"}) + "\n"
            for line in lines
        )
        self._append_text(TRIALS, whole)

    def append_ceiling(self, line: Mapping[str, Any]) -> None:
        """Appends a probe of a physical limit."""
        self._append(CEILINGS, line)

    def append_prediction(self, line: Mapping[str, Any]) -> None:
        """Appends a queued prediction."""
        self._append(PREDICTIONS, line)

    def _append(self, name: str, line: Mapping[str, Any]) -> None:
        self._append_text(name, line_text(line) + "\n")

    def _append_text(self, name: str, text: str) -> None:
        """Whole lines, in one piece."""
        # A path may hold bytes that are no UTF-8; an escape is what JSON takes for them.
        data = text.encode(errors="backslashreplace")
        path = self.path / name
        with _explained(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            before = os.fstat(descriptor).st_size
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
                os.fsync(descriptor)
            except OSError:
                # Half a line would be a torn one; taking it back needs no space.
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

        from venturi import tables

        path = self.path / SAMPLES / f"{trial}.parquet"
        partial = path.with_suffix(".tmp")
        sink = pa.BufferOutputStream()
        # One row group of numbers that grow: statistics would only take room.
        pq.write_table(
            tables.samples_of(samples),
            sink,
            compression="zstd",
            use_dictionary=["end"],
            write_statistics=False,
        )
        with _explained(path):
            try:
                partial.write_bytes(sink.getvalue())
                partial.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                raise

    def _replace(self, name: str, text: str) -> None:
        """Writes a whole file, so that a crash leaves the old or the new one."""
        path = self.path / name
        partial = path.with_name(path.name + ".tmp")
        with _explained(path):
            try:
                with partial.open("w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                partial.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    partial.unlink(missing_ok=True)
                raise


def line_text(line: Mapping[str, Any]) -> str:
    """A line as it is stored, and as `--json` prints it. What is no finite number, JSON has no word for."""
    try:
        return json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        return json.dumps(_finite(line), ensure_ascii=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, list | tuple) else value


@contextlib.contextmanager
def _explained(path: Path) -> Any:
    """Turns what the operating system says into an error for users."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreError(
                f"{path}: the disk is full; trials stored before are safe",
                hint="make room, then go on with --resume",
            ) from None
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from None


def _take_lock(root: Path) -> int:
    with _explained(root):
        descriptor = os.open(root / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        by = f" (process {holder})" if holder.isdigit() else ""
        raise StoreError(
            f"{root}: another run is writing here{by}",
            hint="wait for it to end, or choose another directory by --out",
        ) from None
    # The number is a help for the reader only; the lock itself dies with its process.
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _check_version(document: Mapping[str, Any], path: Path) -> None:
    version = document.get("format", FORMAT_VERSION)
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise StoreError(
            f"{path}: written in format {version}, this Venturi reads up to {FORMAT_VERSION}",
            hint="install a newer Venturi: pip install --upgrade venturi",
        )


_CHUNK = 1 << 20
"""Bytes of lines that are parsed at once. Within one call the JSON parser keeps one copy of each key, so that
the records of a long run share them."""


def _read_lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines of a file, and how many bytes of a torn last one follow them."""
    lines: list[dict[str, Any]] = []
    number = 0
    try:
        # The collector would look again and again through millions of objects in which there is no cycle.
        with without_collector(), path.open("rb") as file:
            while chunk := file.readlines(_CHUNK):
                found = _parsed(chunk)
                if found is None:
                    return _with_torn_end(path, lines, number, chunk + file.readlines())
                for at, line in enumerate(found, number + 1):
                    _accept(line, path, at)
                lines += found
                number += len(chunk)
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from None
    return lines, 0


class _NoNumber(ValueError):
    """JSON that Python takes and that no number of ours can be."""


def _refuse(name: str) -> Any:
    raise _NoNumber(f"{name} is no number")


_JSON = json.JSONDecoder(parse_constant=_refuse)
_MOST = 2**63


def _parsed(chunk: list[bytes]) -> list[dict[str, Any]] | None:
    """Whole lines as objects; None where any of them is not exactly one object."""
    if not chunk[-1].endswith(b"\n"):
        return None
    try:
        found: list[dict[str, Any]] = _JSON.decode((b"[%b]" % b",".join(chunk)).decode())
    except (ValueError, RecursionError):
        return None
    # Lines that are wrong one by one can make a right list together: "{" and "}", or "{},{}".
    if len(found) != len(chunk) or not all(isinstance(line, dict) for line in found):
        return None
    if not all(line.startswith(b"{") and line.endswith(b"}\n") for line in chunk):
        return None
    return found


def _with_torn_end(
    path: Path, lines: list[dict[str, Any]], number: int, rest: list[bytes]
) -> tuple[list[dict[str, Any]], int]:
    """Goes on line by line; only the very last one may be torn."""
    for at, text in enumerate(rest):
        line: Any = None
        try:
            line = _JSON.decode(text.decode())
        except _NoNumber as error:
            raise StoreError(f"{path}:{number + at + 1}: {error}; the file is damaged") from None
        except (ValueError, RecursionError):
            line = None
        if not isinstance(line, dict) or not text.endswith(b"\n"):
            # After a power cut a line's place may hold zeros: torn as well, if it is the last.
            if at == len(rest) - 1:
                return lines, len(text)
            raise StoreError(f"{path}:{number + at + 1}: not a JSON object; the file is damaged")
        _accept(line, path, number + at + 1)
        lines.append(line)
    return lines, 0


def _accept(line: dict[str, Any], path: Path, number: int) -> None:
    """What every figure is made of is looked at in every line, for wrong counts and times make wrong figures
    without a word; `what_is_damaged` looks at all the rest when something has gone wrong."""
    _check_version(line, path)
    for name in ("counts", "times"):
        group = line.get(name)
        for key, value in group.items() if isinstance(group, dict) else ():
            if value is not None and (type(value) is not int or not -_MOST <= value < _MOST):
                shown = f"{json.dumps(value, default=str):.40}"
                raise StoreError(
                    f"{path}:{number}: {name}.{key} is {shown}, not a whole number of 64 bits; "
                    "the file is damaged"
                )
    if line.get("error") or line.get("errors"):
        shorten_errors(line)


def _remove_unfinished(directory: RunDirectory) -> None:
    """Removes files whose writing was cut off by a kill, and samples whose trial was not stored any more."""
    stored = {f"{line.get('trial')}.parquet" for line in directory.records()}
    for partial in directory.path.glob("*.tmp"):
        partial.unlink(missing_ok=True)
    for file in (directory.path / SAMPLES).iterdir():
        if file.suffix == ".tmp" or (file.suffix == ".parquet" and file.name not in stored):
            file.unlink(missing_ok=True)


def _repair(path: Path) -> int:
    """Cuts off a torn last line; returns its bytes."""
    torn = _read_lines(path)[1]
    if torn:
        with _explained(path), path.open("r+b") as file:
            file.truncate(path.stat().st_size - torn)
            os.fsync(file.fileno())
    return torn
