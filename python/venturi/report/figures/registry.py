"""The figures of a run by name, as data. `report.draw` draws them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.common.errors import VenturiError
from venturi.common.texts import meant
from venturi.report.figures import curves, latency, models, pipeline, roofline, timeline
from venturi.report.figures.figure import Figure
from venturi.report.summary import marked

BUILDERS: dict[str, Callable[[Results, str | None], Figure | None]] = {
    "throughput-streams": lambda results, ref: curves.over(results, "throughput-streams", "streams", ref),
    "box-size": latency.box_per_size,
    "throughput-size": lambda results, ref: curves.over(results, "throughput-size", curves.SIZE, ref),
    "throughput-batch": lambda results, ref: curves.over(results, "throughput-batch", "rows_per_batch", ref),
    "throughput-hosts": curves.over_hosts,
    "throughput-encoders": lambda results, ref: curves.over(results, "throughput-encoders", "encoders", ref),
    "throughput-delay": lambda results, _: models.over_links(results, "delay"),
    "throughput-link-rate": lambda results, _: models.over_links(results, "rate"),
    "throughput-loss": lambda results, _: models.over_links(results, "loss"),
    "convergence": lambda results, _: models.convergence(results),
    "flows": lambda results, _: pipeline.flow_figure(results),
    "roofline": lambda results, _: roofline.roofline(results),
    "model-scaling": lambda results, _: models.scaling(results),
    "model-hockney": lambda results, _: models.hockney(results),
    "timeline": lambda results, _: timeline.timeline(results),
    "stages": lambda results, _: pipeline.stages(results),
    "latency": lambda results, _: latency.latency(results),
}
"""In the order of the report. Each answers None where the run holds nothing to draw."""

OF_ONE_CELL: dict[str, Callable[[Results, Cell | None], Figure | None]] = {
    "timeline": timeline.timeline,
    "stages": pipeline.stages,
    "flows": pipeline.flow_figure,
}


def build(results: Results, reference: str | None = None, without: Collection[str] = ()) -> list[Figure]:
    """Every figure that this run has the data for, but those named by `without`."""
    makers = [make for name, make in BUILDERS.items() if name not in without]
    return [_marked(results, f) for make in makers if (f := make(results, reference)) is not None]


def _marked(results: Results, figure: Figure) -> Figure:
    return replace(figure, title=f"{figure.title}{marked(results.environment)}")


def one(results: Results, name: str, reference: str | None = None, cell: Cell | None = None) -> Figure:
    """The figure of this name; those `OF_ONE_CELL` of this cell.

    Raises `VenturiError` for an unknown name, or where there is nothing to draw.
    """
    if name not in BUILDERS:
        raise VenturiError(
            f"there is no figure {name!r}",
            hint=meant(name, BUILDERS, f"choose one of: {', '.join(BUILDERS)}"),
        )
    if cell is not None and name not in OF_ONE_CELL:
        raise VenturiError(
            f"the figure {name} is of all cells", hint=f"--cell goes with: {', '.join(OF_ONE_CELL)}"
        )
    figure = OF_ONE_CELL[name](results, cell) if name in OF_ONE_CELL else BUILDERS[name](results, reference)
    if figure is None:
        drawn = ", ".join(f.name for f in build(results, reference)) or "none"
        raise VenturiError(
            f"this run has no data for the figure {name!r}", hint=f"figures it has data for: {drawn}"
        )
    return _marked(results, figure)
