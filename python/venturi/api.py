"""The public Python API: `venturi.run(...)`, `venturi.open(path)`, and the `Run` that both answer.

A `Run` is a view of a run directory. Nothing in it is kept that the directory does not hold.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.common.errors import ExitCode, VenturiError

if TYPE_CHECKING:
    import pyarrow as pa

    from venturi.analysis.advice.warning import Advice
    from venturi.analysis.results import Results
    from venturi.plan.layers import Layer

TABLES = (
    *(
        "trials",
        "cells",
        "samples",
        "ceilings",
        "streams",
        "stages",
        "latency",
        "errors",
        "resources",
        "hosts",
    ),
)


class Run:
    """A finished or running run. Tables are `pyarrow.Table`s in base units (bytes, nanoseconds)."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Raises `StoreError` where there is no run, or one of a newer format."""
        from venturi.store.open import open_run

        self.path = open_run(path).path

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

    def table(self, name: str) -> pa.Table:
        """One of the tables by name. Raises `VenturiError` for an unknown one."""
        if name not in TABLES:
            raise VenturiError(f"there is no table {name!r}", hint=f"choose one of: {', '.join(TABLES)}")
        from venturi.report.tables import write as csv

        return csv.table(self.results, name)

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

    def figure(self, name: str, reference: str | None = None) -> Any:
        """A figure as `plotly.graph_objects.Figure`. `reference` lays published figures over it."""
        from venturi.report.draw import plotly_figures
        from venturi.report.figures import registry as figures

        return plotly_figures.whole(figures.one(self.results, name, reference))

    def report(self, path: str | os.PathLike[str] | None = None, reference: str | None = None) -> Path:
        """Writes the HTML report, by default `report.html` in the run directory, and returns its path.

        Raises `VenturiError` where no `path` is given for published figures: they are no directory.
        """
        from venturi.report.page import page as html

        if path is None and not self.results.directory.saved:
            raise VenturiError(f"{self.name} is no directory", hint="give report() a path")
        return html.write(self.path, path or self.path / "report.html", reference)

    def __repr__(self) -> str:
        from venturi.report.text import summary

        return f"<venturi.Run {self.name}: {'; '.join(summary.headline(self.results))}>"

    def _repr_html_(self) -> str:
        from venturi.report.text import notebook

        return notebook.fragment(self.results)


def open(path: str | os.PathLike[str] = "last") -> Run:
    """Opens a run directory; "last" is the newest below ./venturi-runs. Raises `StoreError`."""
    return Run(path)


def run(
    scenario: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    executor: Any = None,
    **settings: Any,
) -> Run:
    """Measures a scenario and answers the finished run.

    `scenario`: the name of a built-in one, a TOML file, a mapping with the same tables as the file, or None
    for keywords alone. Keywords are keys of `[workload]`, `[target]` or `[run]`; they win over the
    scenario. A list is an axis of the matrix: `venturi.run("quick", streams=[1, 2], repeats=3)`.
    `target="flight://..."` is the target's URL. `out` is the run directory (default
    `venturi-runs/TIME-NAME`). `executor` is for tests.

    Raises `ScenarioError` and `StoreError` (both `VenturiError`). A failed trial raises nothing: it is a
    row of `Run.trials`, and a warning.
    """
    from venturi.engine.executor import CoreExecutor
    from venturi.measure import outcome, runner
    from venturi.measure.observer import QuietObserver
    from venturi.plan.layers import Layer, file_layer
    from venturi.plan.load import load

    layers = []
    if isinstance(scenario, Mapping):
        layers.append(Layer("scenario", scenario))
    elif scenario is not None:
        layers.append(file_layer(os.fspath(scenario)))
    tree = _tree(settings)
    if not layers:
        tree.setdefault("name", "api")
    layers.append(Layer("keyword", tree))
    found = load(layers)
    _check_placement(layers)
    path = Path(out) if out is not None else outcome.default_out(found)
    runner.execute(found, path, executor if executor is not None else CoreExecutor(), QuietObserver())
    return Run(path)


def _check_placement(layers: Sequence[Layer]) -> None:
    """A caller who shares streams among processes is not left with one that has them all. A scenario file
    may say how it is to be shared where that is asked for."""
    from venturi.plan.settings import Hosts

    for layer in layers:
        paths = [("matrix", "loaders"), *(("hosts", key) for key in Hosts.model_fields)]
        given = next((path[-1] for path in paths if layer.text is None and layer.has(path)), None)
        if given is not None:
            raise VenturiError(
                f"{given} is for streams that are placed on several hosts, and venturi.run() runs them all "
                "in this process",
                ExitCode.SCENARIO,
                hint="place them by the command line: venturi run SCENARIO --on auto --loaders 4",
            )


def _tree(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as the tables of a scenario; lists are axes of the matrix."""
    from venturi.plan.values import LIST_VALUES, TABLES

    tree: dict[str, Any] = {}
    known = {key: table for table, model in TABLES.items() for key in model.model_fields}
    for key, value in settings.items():
        if key in ("name", "description", "reference", "places", "matrix"):
            tree[key] = value
        elif key in ("target", "url"):
            tree.setdefault("target", {})["url"] = value
        elif key not in known:
            import difflib

            close = difflib.get_close_matches(key, known, n=1)
            raise VenturiError(
                f"venturi.run() has no setting {key!r}",
                hint=f"did you mean {close[0]}?" if close else f"settings are: {', '.join(sorted(known))}",
            )
        elif isinstance(value, list | tuple | range) and key not in LIST_VALUES:
            tree.setdefault("matrix", {})[key] = list(value)
        else:
            tree.setdefault(known[key], {})[key] = value
    return tree
