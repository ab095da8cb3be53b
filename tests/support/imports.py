"""Samples of foreign files, true to their formats, and what the tests of importers share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.run import DATA
from venturi.analysis.results import Results, load
from venturi.store.importers import files

SAMPLES = DATA / "import"
FORMATS = {
    path.name: next(f for f in files.FORMATS if path.name.startswith(f.replace("-", "_")))
    for path in sorted(SAMPLES.iterdir())
}


def imported(out: Path, *names: str, **settings: Any) -> Results:
    """The samples of these names as a run."""
    files.import_files([SAMPLES / name for name in names], out, settings=settings)
    return load(out)
