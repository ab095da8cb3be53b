"""What reads runs, and results of other tools."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from venturi.api.result import Run, asked

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.compare.runs import Comparison

__all__ = ["compare", "import_", "sql"]


def compare(base: str | os.PathLike[str] | Run, run: str | os.PathLike[str] | Run, **more: Any) -> Comparison:
    """A run against a base, cell by cell; keywords are those of `Run.compare`."""
    return (run if isinstance(run, Run) else Run(run)).compare(base, **more)


def sql(query: str, *runs: str | os.PathLike[str] | Run) -> pa.Table:
    """What DuckDB answers over the tables of one or many runs, or over the points of one store of time
    series, by its directory.

    Raises `VenturiError` for a query that fails. A damaged file of a store is left out of the answer, with a
    `DamagedWarning`.
    """
    return asked(query, [run.path if isinstance(run, Run) else run for run in runs or ("last",)])


def import_(
    *files: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    format: str = "auto",
    name: str | None = None,
    **parameters: Any,
) -> Run:
    """Results of other tools as a run. `out`: a new directory, or an imported run to add to; by default below
    `venturi-runs`. `parameters` are put into every trial: what the files do not tell.

    Raises `VenturiError` for a file that is of no known format, malformed (with its line), or there already.
    """
    from venturi.store.importers.files import import_files

    path, _, _ = import_files(files, out, format, name, parameters)
    return Run(path)
