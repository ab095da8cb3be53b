"""The run directory: written trial by trial, safe against a crash, read back as tables.

Its layout is docs/format.md. Everything derived (statistics, reports) is made from
here and can be made again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from venturi.common.errors import StoreError
from venturi.engine.record import Trial
from venturi.store.lines import check_version, damaged, in_words, read_lines, read_trials
from venturi.targets.parameters import PARAMETERS

if TYPE_CHECKING:
    import pyarrow as pa

SCENARIO, ENVIRONMENT = "scenario.toml", "environment.json"
TRIALS, CEILINGS, SAMPLES, LOCK = "trials.jsonl", "ceilings.jsonl", "samples", ".lock"
_INTEGER = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_BOUNDED: dict[Any, Any] = {int: _INTEGER, list[int]: list[_INTEGER]}
"""Types of parameters as a table can hold them."""
_read: set[Path] = set()
"""The runs that this process has opened, for `what_is_damaged`."""


def what_is_damaged() -> StoreError | None:
    """Whether a run that was read holds parameters that no Venturi writes: asked after a fault, to tell whose
    it is. All else is looked at when it is read."""
    for directory in sorted(_read):
        with contextlib.suppress(StoreError):
            for number, trial in enumerate(read_trials(directory / TRIALS), 1):
                for name, value in trial.parameters.items():
                    try:
                        kind = PARAMETERS.get(name, Any)
                        msgspec.convert(value, _BOUNDED.get(kind, kind) | None)
                    except msgspec.ValidationError as error:
                        return damaged(directory / TRIALS, number, in_words(error, f"parameters.{name}"))
    return None


class RunDirectory:
    """A run on disk, for reading. A run that is still going on can be read too."""

    saved = True
    """Whether it is a directory, in which reports have a place; published figures taken for a run are not."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises StoreError where there is no run, or one of a newer format."""
        self.path = Path(path)
        if not self.path.is_dir():
            raise StoreError(
                f"{self.path}: no such run directory",
                hint="runs are kept in venturi-runs/ unless --out says otherwise",
            )
        if not any((self.path / name).is_file() for name in (ENVIRONMENT, TRIALS, SCENARIO)):
            with contextlib.suppress(OSError):
                if all(p.name in (LOCK, SAMPLES) or p.suffix == ".tmp" for p in self.path.iterdir()):
                    raise StoreError(
                        f"{self.path}: the directory is empty: no run was begun in it",
                        hint=f"begin one there: venturi run ... --out {self.path}",
                    )
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

    def _read_environment(self) -> dict[str, Any]:
        path = self.path / ENVIRONMENT
        try:
            found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None
        if not isinstance(found, dict):
            raise StoreError(f"{path}: not a JSON object")
        check_version(found.get("format"), path)
        return found

    def scenario_text(self) -> str:
        """The resolved scenario as TOML; empty where the run has none."""
        path = self.path / SCENARIO
        try:
            return path.read_text(encoding="utf-8") if path.exists() else ""
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{path}: cannot be read: {error}") from None

    def records(self) -> list[Trial]:
        """The trials in the order they were measured, warm-up and failed ones included.

        Of a trial that was run again, the last line counts. A torn last line (a crash while it was written)
        is left out.
        """
        last: dict[tuple[str, int, bool], Trial] = {}
        for trial in self.lines():
            key = (trial.cell, trial.repeat, trial.warmup)
            last.pop(key, None)
            last[key] = trial
        return list(last.values())

    def lines(self) -> list[Trial]:
        """All lines of trials.jsonl, those of interrupted and failed trials that were run again included."""
        return read_trials(self.path / TRIALS)

    def ceiling_records(self) -> list[dict[str, Any]]:
        """The lines of ceilings.jsonl."""
        found = read_lines(self.path / CEILINGS, dict[str, Any])[0]
        for line in found:
            check_version(line.get("format"), self.path / CEILINGS)
        return found

    def table(self, name: str) -> pa.Table:
        """A table of docs/format.md by its name: trials, streams, latency, stages, errors, resources, hosts,
        ceilings or samples."""
        from venturi.store import tables

        if name == "samples":
            return self.samples()
        return tables.TABLES[name](self.ceiling_records() if name == "ceilings" else self.records())

    def samples(
        self, trial: str | Iterable[str] | None = None, columns: Iterable[str] | None = None
    ) -> pa.Table:
        """The 100 ms counters, of one trial, of several or of all, with a column `trial`. `columns` takes
        only these, which is far quicker for many trials."""
        from venturi.store import samples as sampled

        return sampled.samples(self.path / SAMPLES, trial, columns)

    def thread_names(self, trial: str) -> dict[str, list[str]]:
        """Names of the threads of each end, in the order of the samples' `thread_cpu_ns`."""
        from venturi.store import samples as sampled

        return sampled.thread_names(self.path / SAMPLES, trial)


def remove_unfinished(directory: RunDirectory) -> None:
    """Removes files whose writing was cut off by a kill, and samples whose trial was not stored any more."""
    stored = {f"{line.trial}.parquet" for line in directory.lines()}
    for partial in directory.path.glob("*.tmp"):
        partial.unlink(missing_ok=True)
    for file in (directory.path / SAMPLES).iterdir():
        if file.suffix == ".tmp" or (file.suffix == ".parquet" and file.name not in stored):
            file.unlink(missing_ok=True)
