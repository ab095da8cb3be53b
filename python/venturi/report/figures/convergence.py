"""The figure of a workload run in several places, such as near and far from its server."""

from __future__ import annotations

from venturi.analysis.models.splits import Convergence
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.common.units import Quantity, count, plural
from venturi.report.figures import palette
from venturi.report.figures.figure import MB, Figure, Panel, Series
from venturi.report.names import setting

__all__ = ["convergence_name", "figure"]


def convergence_name(one: Convergence) -> str:
    return labels.plain(", ".join(filter(None, (one.operation, setting(one.where)))))


def figure(results: Results) -> Figure | None:
    """What was predicted of one amount over streams, and what was measured; None where nothing was."""
    found = [one for one in results.convergences if one.predicted]
    if not found:
        return None
    panels = [_panel(one) for one in found[:4]]
    told = [f"{convergence_name(one)}: {_at(one)}" for one in found[:4]]
    text = "; ".join(told)
    ticks = sorted(
        {n for one in found for n in (*one.predicted, *(s.streams for s in one.splits), *_ends(one))}
    )
    return Figure(
        "convergence",
        text[:1].upper() + text[1:],
        f"{' and '.join(dict.fromkeys(count(one.rows) for one in found))} rows in all, divided over the "
        "streams. Predicted: from the other sizes of the sweep, with the 95 % prediction interval. Line: the "
        "same for any number of streams; dashed: its highest rate. Measured: medians with their interval.",
        "streams",
        "throughput (payload), MB/s",
        panels,
        x_ticks=ticks if len(ticks) <= 12 else None,
    )


def _ends(one: Convergence) -> list[int]:
    """How far the line for any number of streams is drawn."""
    most = 1.5 * max(one.predicted, default=0)
    return [max((n for n in one.limit.curve if n <= most), default=1)] if one.limit is not None else []


def _at(one: Convergence) -> str:
    return f"{count(one.rows)} rows converge at {one.limit.rate}" if one.limit else f"no limit: {one.refused}"


def _panel(one: Convergence) -> Panel:
    def drawn(name: str, points: dict[int, Quantity], colour: str) -> Series:
        return Series(
            name,
            [float(n) for n in points],
            [_mb(q.value) for q in points.values()],
            colour,
            "points",
            low=[_mb(q.low) for q in points.values()],
            high=[_mb(q.high) for q in points.values()],
            notes=[f"{name}, {plural(n, 'stream')}: {q}" for n, q in points.items()],
        )

    series = []
    if one.limit is not None:
        curve = {n: v for n, v in one.limit.curve.items() if n <= _ends(one)[0]}
        at = [float(n) for n in curve]
        series.append(Series("any number", at, [_mb(v) for v in curve.values()], "$c0/0.6", markers=False))
        level, ends = [_mb(one.limit.rate.value)] * 2, [at[0], at[-1]]
        series.append(Series("highest", ends, level, "$ceiling", dash="dash", markers=False))
    series.append(drawn("predicted", one.predicted, palette.series_colour(0)))
    measured = {s.streams: s.measured for s in one.splits}
    series.append(drawn("measured", measured, palette.series_colour(1)))
    return Panel(convergence_name(one), series)


def _mb(value: float | None) -> float | None:
    return None if value is None else value / MB
