"""What reads runs, results of other tools, and the scenarios that are built in."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.api.result import Run, asked, check_comparison
from venturi.common.texts import log

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.compare.history import Series
    from venturi.analysis.compare.runs import Comparison

__all__ = ["compare", "history", "import_", "scenarios", "sql"]


def compare(base: str | os.PathLike[str] | Run, run: str | os.PathLike[str] | Run, **more: Any) -> Comparison:
    """A run against a base, cell by cell; keywords are those of `Run.compare`."""
    return (run if isinstance(run, Run) else Run(run)).compare(base, **more)


def history(
    directory: str | os.PathLike[str] = "venturi-runs",
    *,
    where: str | Sequence[str] = (),
    metric: str = "throughput",
    least: float = 0.02,
) -> list[Series]:
    """Cells over the runs of a directory, oldest first: each with `cell`, `points` and `changes`
    of at least the share `least`. `metric` is one of `Run.compare`.

    Raises `VenturiError` if no two runs of one machine have a cell in common.
    """
    from venturi.analysis.compare.history import followed

    check_comparison(metric, threshold=least)
    conditions = [where] if isinstance(where, str) else where
    return followed(Path(directory), metric, least, conditions, log)


def scenarios() -> dict[str, dict[str, Any]]:
    """The built-in scenarios by their names, each with the tables of its file; `run` takes one, also changed.

    >>> quick = venturi.scenarios()["quick"]
    >>> sorted(quick)
    ['description', 'matrix', 'name', 'run', 'target', 'workload']
    """
    from venturi.common import toml_text
    from venturi.plan.layers import builtin_names, builtin_text

    return {name: toml_text.parse(builtin_text(name), name) for name in builtin_names()}


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
