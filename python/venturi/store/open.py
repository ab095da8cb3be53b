"""Which run is meant: by its path, its name, `last` or `reference:NAME`."""

from __future__ import annotations

import os
from pathlib import Path

from venturi.common.errors import StoreError
from venturi.store.directory import RunDirectory

RUNS = Path("venturi-runs")
"""Where `venturi run` puts runs unless told otherwise."""
LAST = "last"
REFERENCE = "reference:"
"""Before the name of a published set that is taken as a run."""


def find_run(path: str | os.PathLike[str]) -> Path:
    """The run directory meant by `path`; "last" is the newest one below ./venturi-runs. A directory that is
    really called "last" wins. Raises `StoreError` where there is none."""
    found = Path(path)
    if str(path) != LAST or found.is_dir():
        return found
    runs = [p for p in RUNS.iterdir() if p.is_dir() and _written(p)] if RUNS.is_dir() else []
    if not runs:
        raise StoreError(
            f"there is no last run: {RUNS}/ holds none",
            hint="make one with `venturi run quick`, or name a directory",
        )
    return max(runs, key=lambda p: (_written(p), p.name))


def _written(path: Path) -> int:
    """When a run was last written to (ns); 0 for what is no run. Not the directory's own time, which a report
    saved beside the data would change."""
    times = [p.stat().st_mtime_ns for n in ("trials.jsonl", "environment.json") if (p := path / n).is_file()]
    return max(times, default=0)


def open_run(path: str | os.PathLike[str]) -> RunDirectory:
    """What `path` names: a run directory, "last", or published figures as a run, `reference:NAME`. Raises
    `StoreError` where there is no run or its format is newer, `VenturiError` for a reference that does not
    exist."""
    name = os.fspath(path)
    if name.startswith(REFERENCE) and not Path(name).is_dir():
        from venturi.store.reference import ReferenceRun

        return ReferenceRun(name)
    return RunDirectory(find_run(path))
