"""A `Run`, a view of a run directory; and what reads runs, results of other tools and built-in scenarios."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import DamagedWarning, VenturiError
from venturi.common.texts import log

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.advice import Advice
    from venturi.analysis.cells.summary import Cell
    from venturi.analysis.compare.best import Best
    from venturi.analysis.compare.history import Series
    from venturi.analysis.compare.runs import Comparison
    from venturi.analysis.models.fits import Fits
    from venturi.analysis.models.predict import Prediction
    from venturi.analysis.results import Results
    from venturi.analysis.verdict.types import Finding, Verdict
    from venturi.report.draw import Drawing

__all__ = ["Run", "compare", "history", "import_", "open", "scenarios", "sql"]

TABLES = (
    "trials", "cells", "samples", "ceilings", "streams", "stages", "latency", "errors", "resources", "hosts",
)  # fmt: skip


class Run:
    """A finished or running run. Tables are `pyarrow.Table`s in base units (bytes, nanoseconds)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `StoreError` where there is no run, or one of a newer format."""
        from venturi.store.open import open_run

        self.path = open_run(path).path
        self._tables: dict[str, pa.Table] = {}

    @cached_property
    def results(self) -> Results:
        """Records, cells and warnings as Python objects; read once. `reload` reads again."""
        from venturi.analysis.results import load

        return load(self.path)

    def reload(self) -> Run:
        """The same directory read again, for a run that is still going on."""
        return Run(self.path)

    @property
    def name(self) -> str:
        return self.results.name

    @property
    def environment(self) -> dict[str, Any]:
        """Both ends: software, hardware, kernel settings."""
        return self.results.environment

    @property
    def scenario(self) -> str:
        """The resolved scenario as TOML."""
        return self.results.scenario

    @property
    def warnings(self) -> list[Advice]:
        """What to know before believing the figures."""
        return self.results.advice

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Why each cell is no faster, by the cell's name."""
        return self.results.verdicts

    @property
    def findings(self) -> list[Finding]:
        """What the cells say together, such as where more streams stop paying."""
        return self.results.findings

    @property
    def fits(self) -> Fits:
        """The laws of all that was varied; `fit` for some of it."""
        return self.results.fits

    def fit(self, over: str | None = None, where: str | Sequence[str] = ()) -> Fits:
        """Hockney's line over sizes and scaling laws over streams: along `over` alone where it is given, of
        the cells for which all conditions of `where` hold. Raises `VenturiError` where none is left."""
        from venturi.analysis.models import fits

        cells = self._chosen(where) if where else self.results.cells
        if over is not None and not any(over in cell.parameters for cell in cells):
            names = sorted({name for cell in cells for name in cell.parameters})
            raise VenturiError(f"over={over}: no such parameter", hint=f"parameters are: {', '.join(names)}")
        return fits.build(cells, over)

    def predict(self, repeats: int | None = None, **parameters: Any) -> list[Prediction]:
        """What a cell that was not measured would do, as `run.predict(streams=32)`: one prediction an
        operation, with the 95 % interval of the median of `repeats` (5) new trials (over links: as many as
        these have). A warning tells of an operation that has none; raises `VenturiError` where nothing can be
        predicted, with the reason."""
        from venturi.analysis.models import predict
        from venturi.common.suffixes import parse_count

        wanted, left_out = dict(parameters), list[str]()
        for name, value in parameters.items():
            with contextlib.suppress(ValueError):
                wanted[name] = parse_count(value) if isinstance(value, str) else value
        made = predict.predict(self.results.cells, wanted, repeats or predict.DEFAULT_REPEATS, left_out)
        for reason in left_out:
            warnings.warn(reason, stacklevel=2)
        return made

    def best(
        self,
        within: float = 0.05,
        where: str | Sequence[str] = (),
        every: bool = False,
        p99_ns: float | None = None,
    ) -> list[Best]:
        """Of each workload the fastest setting, and the cheapest at most the share `within` below it.

        Of sizes that differ in nothing else the largest is looked at, or each by itself (`every`). `p99_ns`:
        only cells of which 99 % of the batches surely took no longer.
        """
        from venturi.analysis.compare import best

        _check_share("within", within)
        return best.find(self._chosen(where), within, every, best.cores(self.environment), p99_ns)

    def _chosen(self, where: str | Sequence[str]) -> list[Cell]:
        from venturi.analysis.results import cells_where

        return cells_where(self.results.cells, [where] if isinstance(where, str) else where, str(self.path))

    def compare(
        self,
        base: str | os.PathLike[str] | Run,
        metric: str = "throughput",
        threshold: float = 0.03,
        confidence: float = 0.95,
        force: bool = False,
    ) -> Comparison:
        """This run against `base`, cell by cell; shares for `threshold` (how much slower is too slow) and
        `confidence`. `metric`: throughput, steady, latency-p50, latency-p99, cpu-per-byte.

        Raises `VenturiError` where no cell matches, and for unlike environments unless `force` is given.
        """
        from venturi.analysis.compare import runs

        _check_comparison(metric, threshold=threshold, confidence=confidence)
        other = base if isinstance(base, Run) else Run(base)
        if other.path.resolve() == self.path.resolve():
            raise VenturiError(f"{self.path}: it is compared with itself", hint="compare_by() does that")
        return runs.compare(other.results, self.results, metric, confidence, threshold, force)

    def compare_by(
        self, parameter: str, value: Any = None, metric: str = "throughput", **more: float
    ) -> list[Comparison]:
        """Within this run: the cells with each other value of a parameter against those with `value` (or
        the one that was measured first). `threshold` and `confidence` as for `compare`."""
        from venturi.analysis.compare import runs
        from venturi.analysis.compare.likeness import spelled

        _check_comparison(metric, **more)
        chosen = None if value is None else spelled(value)
        return runs.compare_by(self.results, parameter, chosen, metric, **more)

    def sql(self, query: str) -> pa.Table:
        """What DuckDB answers over this run's tables. Raises `VenturiError` for a query that fails."""
        return _query(query, [self.path])

    def table(self, name: str) -> pa.Table:
        """One of the tables by name, made once. Raises `VenturiError` for an unknown one."""
        if name not in TABLES:
            raise VenturiError(f"there is no table {name!r}", hint=f"choose one of: {', '.join(TABLES)}")
        if name not in self._tables:
            from venturi.report import tables

            self._tables[name] = tables.table(self.results, name)
        return self._tables[name]

    def __iter__(self) -> Iterator[Cell]:
        """Its cells, each with `name`, `parameters`, `throughput`, `records`.

        >>> run = venturi.open("reference:macbook-put")
        >>> fastest = max(run, key=lambda cell: cell.throughput.value)
        >>> print(fastest.parameters["streams"], fastest.throughput)
        8 3,394 MB/s
        """
        return iter(self.results.cells)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The table of cells for polars, DuckDB and others that read Arrow: `polars.DataFrame(run)`."""
        return self.cells.__arrow_c_stream__(requested_schema)

    @property
    def trials(self) -> pa.Table:
        """One row a trial, failed ones and warm-ups included."""
        return self.table("trials")

    @property
    def cells(self) -> pa.Table:
        """One row a cell: medians over its good trials, with `_low` and `_high` of the 95 % interval."""
        return self.table("cells")

    @property
    def samples(self) -> pa.Table:
        """The 100 ms counters of all trials."""
        return self.table("samples")

    @property
    def ceilings(self) -> pa.Table:
        """One row a probe of a physical limit."""
        return self.table("ceilings")

    def to_pandas(self, table: str = "cells") -> Any:
        """A table as a pandas `DataFrame`; needs pandas."""
        try:
            return self.table(table).to_pandas()
        except ImportError:
            raise VenturiError("to_pandas needs pandas", hint="pip install pandas") from None

    @property
    def figures(self) -> list[str]:
        """Names of the figures that this run has the data for."""
        from venturi.report.figures import registry as figures

        return [figure.name for figure in figures.build(self.results)]

    def figure(self, name: str, reference: str | None = None) -> Drawing:
        """A figure, which notebooks show; `save(path)` writes it as SVG or PNG, `spec` is its Vega-Lite.

        `reference` lays published figures over it.
        """
        from venturi.report.draw import Drawing
        from venturi.report.figures import registry as figures

        return Drawing.of(figures.one(self.results, name, reference))

    def report(self, path: str | os.PathLike[str] | None = None, reference: str | None = None) -> Path:
        """Writes the HTML report, by default `report.html` in the run directory, and returns its path.

        Raises `VenturiError` where no `path` is given for published figures: they are no directory.
        """
        from venturi.report.page import page as html_page

        if path is None and not self.results.directory.saved:
            raise VenturiError(f"{self.name} is no directory", hint="give report() a path")
        return html_page.write(self.path, path or self.path / "report.html", reference)

    def __repr__(self) -> str:
        from venturi.report import run

        return f"<venturi.Run {self.name}: {'; '.join(run.headline(self.results))}>"

    def _repr_html_(self) -> str:
        from venturi.report.page import page as html_page

        return html_page.fragment(self.results)


def open(path: str | os.PathLike[str] = "last") -> Run:
    """Opens a run directory; "last" is the newest below ./venturi-runs, "reference:NAME" published figures.
    Raises `StoreError`."""
    return Run(path)


def _check_share(name: str, share: float, least: float = 0.0) -> None:
    if not least <= share < 1:
        raise VenturiError(f"{name}={share:g}: must be a share, at least {least:g} and under 1; 0.05 is 5 %")


def _check_comparison(metric: str, threshold: float = 0.03, confidence: float = 0.95) -> None:
    from venturi.analysis.compare.runs import METRICS

    _check_share("threshold", threshold)
    _check_share("confidence", confidence, 0.5)
    if metric not in METRICS:
        raise VenturiError(f"metric={metric!r}: is not one of {', '.join(METRICS)}")


def _query(query: str, runs: Sequence[str | os.PathLike[str]]) -> pa.Table:
    """SQL over runs, or over a store, with a `DamagedWarning` for each file that is left out."""
    from venturi.store.sql import ask

    table, damaged = ask([os.fspath(run) for run in runs], query)
    for one in damaged:
        text = f"{one.file}: {one.why}; its segment is left out of the answer"
        warnings.warn(DamagedWarning(text), stacklevel=3)
    return table


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

    _check_comparison(metric, threshold=least)
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
    return _query(query, [run.path if isinstance(run, Run) else run for run in runs or ("last",)])


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
