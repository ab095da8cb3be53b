"""Figures of fitted laws: scaling over streams, time over size, one amount over more and more streams; and
throughput over the delay, rate and losses of links.

A panel of links holds those that differ in one respect only: what is drawn over delay has one rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import grouped
from venturi.analysis.models import fit_words
from venturi.analysis.models import over_links as law_over_links
from venturi.analysis.models.fits import AxisFit, Fits, SizeFit
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.models.splits import Convergence
from venturi.analysis.results import Results, evenly
from venturi.analysis.statistics.curve import Shape
from venturi.analysis.statistics.intervals import median_interval
from venturi.common import links
from venturi.common.units import Quantity, count, percent, pick_unit, plural
from venturi.report.document import begun
from venturi.report.figures import figure
from venturi.report.figures.figure import BYTES, MB, Claim, Figure, Panel, Series, line
from venturi.report.summary import setting

MOST_PANELS = 4
"""Fits drawn and told in one report; `venturi fit RUN --all` has every one."""
MOST_SIZES = 6
CURVE_POINTS = 60


def telling_sizes(found: Fits) -> list[SizeFit]:
    """The fits over sizes, the first and last of each operation and some between."""
    return evenly([s for s in found.sizes if s.fit is not None], MOST_SIZES)


def _scale(unit: str) -> tuple[float, str]:
    return (MB, "throughput (payload), MB/s") if unit == "B/s" else (1e6, f"M{unit}")


def scaling(results: Results) -> Figure | None:
    """Throughput over an axis: medians with margins, the chosen law with its band, knee and peak. None
    where no law was fitted."""
    # Rows per batch and the like have figures of their own; a level axis has nothing to show.
    chosen = [one for one in results.fits.main if one.fit is not None and not one.level]
    if not chosen:
        return None
    axis, unit = chosen[0].axis, chosen[0].unit
    shown = [one for one in chosen if one.axis == axis and one.unit == unit][:MOST_PANELS]
    factor, y_label = _scale(unit)
    panels = [_scaling_panel(one, factor) for one in shown]
    findings, claims = [], []
    for one in shown:
        if one.fit is not None:
            shape, at = (one.curve.shape, one.curve.at) if one.curve is not None else (Shape.UNDECIDED, None)
            claim = figure.shape_text(shape, one.axis, fit_words.several(one.axis, at))
            law = f"law: {one.fit.chosen.title}, {fit_words.knee(one)}"
            findings.append(f"{one.operation} {claim} ({law})")
        if one.curve is not None:
            names = tuple(cell.name for cell in one.cells)
            claims.append(Claim(one.axis, names, one.curve.shape, one.curve.at))
    points = {n for one in shown for n in one.medians}
    return Figure(
        "model-scaling",
        begun("; ".join(findings)),
        "Points: medians, bars how far they may lie off the law. Line: the law chosen by AICc, dotted its "
        "95 % band; knee: 90 % of the peak within the measured range.",
        axis,
        y_label,
        panels,
        x_scale="log" if max(points) / min(points) > 64 else "linear",
        x_ticks=figure.ticks(points),
        claims=tuple(claims),
    )


def _scaling_panel(one: AxisFit, factor: float) -> Panel:
    fit = one.fit
    assert fit is not None
    x = [float(v) for v in fit.points.x]
    # What the error bars are made of: the standard error of each median around the law.
    half = [1.96 * float(s) for s in fit.sigma]
    y = [math.exp(float(v)) / factor for v in fit.points.y]
    grid = _between(x[0], x[-1])
    colour = figure.series_colour(0)
    series = [
        Series(
            "measured",
            x,
            y,
            colour,
            "points",
            low=[v * math.exp(-h) for v, h in zip(y, half, strict=True)],
            high=[v * math.exp(h) for v, h in zip(y, half, strict=True)],
        ),
        line("law", _divided(grid, fit.chosen.at(grid), factor), colour),
        *(line("95 % of the law", _divided(grid, end, factor), colour, "dot") for end in fit.band(grid)),
    ]
    marks = ({} if one.knee is None else {"knee": one.knee.median}) | {"peak": fit.peak_at}
    for i, (name, n) in enumerate(marks.items()):
        at = float(fit.chosen.at([n])[0]) / factor
        notes = [f"{name} at {fit_words.several(one.axis, n)}"]
        series.append(Series(name, [n], [at], figure.series_colour(2 + i), "points", notes=notes))
    return Panel(fit_words.head(one), series)


def _divided(x: list[float], y: Iterable[Any], factor: float) -> Iterable[tuple[float, float]]:
    return zip(x, (float(v) / factor for v in y), strict=True)


def _between(low: float, high: float) -> list[float]:
    """Points of a curve, even on a linear axis and dense enough on a logarithmic one."""
    step = (high - low) / CURVE_POINTS
    even = [low + i * step for i in range(CURVE_POINTS + 1)]
    ratio = (high / low) ** (1 / CURVE_POINTS)
    return sorted({*even, *(low * ratio**i for i in range(CURVE_POINTS + 1))} | {low, high})


def hockney(results: Results) -> Figure | None:
    """Time over payload with the line of each parallelism; None where none was fitted."""
    by_operation = grouped(telling_sizes(results.fits), lambda one: one.operation)
    if not by_operation:
        return None
    panels, findings = [], []
    rows = False
    for operation, members in by_operation.items():
        panel = Panel(operation)
        for i, one in enumerate(members):
            assert one.fit is not None
            rows, counted = one.fit.unit != "B", one.fit.unit
            panel.series += _size_series(one, figure.series_colour(i))
        panels.append(panel)
        best = max(members, key=lambda s: s.fit.b if s.fit else 0.0)
        assert best.fit is not None
        findings.append(f"{operation}: {_line_text(best)}")
    return Figure(
        "model-hockney",
        begun("; ".join(findings)),
        "Points: median times of each size. Lines: t = a + n/b, start-up a and asymptotic rate b, fitted on "
        "relative errors; half of b is reached at n_half = a b.",
        counted if rows else "payload, MB",
        "time, ms",
        panels,
        x_scale="log",
        y_scale="log",
        y_from_zero=False,
    )


def _line_text(one: SizeFit) -> str:
    assert one.fit is not None
    q = one.fit.quantities()
    half = q["n_half"].text(pick_unit(q["n_half"].unit, [q["n_half"].value, q["n_half"].high]))
    return f"{q['b']} at most, half of it at {half}, {percent(one.fit.r_squared, 1)} of the variance"


def _size_series(one: SizeFit, colour: str) -> list[Series]:
    fit = one.fit
    assert fit is not None
    factor = MB if fit.unit == "B" else 1.0
    name = fit_words.setting(one.where) or one.operation
    x = [float(v) for v in fit.points.x]
    grid = _between(x[0], x[-1])
    notes: list[Any] = [f"{name}: {fit.text()}"] * len(x)
    times = [math.exp(float(v)) / 1e6 for v in fit.points.y]
    return [
        Series(name, [v / factor for v in x], times, colour, "points", notes=notes),
        line(name, _divided([v / factor for v in grid], fit.at(grid), 1e6), colour),
    ]


def convergence_name(one: Convergence) -> str:
    return wording.plain(", ".join(filter(None, (one.operation, setting(one.where)))))


def convergence(results: Results) -> Figure | None:
    """What was predicted of one amount over streams, and what was measured; None where nothing was."""
    found = [one for one in results.convergences if one.predicted]
    if not found:
        return None
    panels = [_convergence_panel(one) for one in found[:4]]
    findings = [f"{convergence_name(one)}: {_at(one)}" for one in found[:4]]
    at = [n for one in found for n in (*one.predicted, *(s.streams for s in one.splits), *_ends(one))]
    return Figure(
        "convergence",
        begun("; ".join(findings)),
        f"{' and '.join(dict.fromkeys(count(one.rows) for one in found))} rows in all, divided over the "
        "streams. Predicted: from the other sizes of the sweep, with the 95 % prediction interval. Line: the "
        "same for any number of streams; dashed: its highest rate. Measured: medians with their interval.",
        "streams",
        "throughput (payload), MB/s",
        panels,
        x_ticks=figure.ticks(at),
    )


def _ends(one: Convergence) -> list[int]:
    """How far the line for any number of streams is drawn."""
    most = 1.5 * max(one.predicted, default=0)
    return [max((n for n in one.limit.curve if n <= most), default=1)] if one.limit is not None else []


def _at(one: Convergence) -> str:
    return f"{count(one.rows)} rows converge at {one.limit.rate}" if one.limit else f"no limit: {one.refused}"


def _convergence_panel(one: Convergence) -> Panel:
    def drawn(name: str, points: dict[int, Quantity], colour: str) -> Series:
        notes = [f"{name}, {plural(n, 'stream')}: {q}" for n, q in points.items()]
        return BYTES.medians(name, map(float, points), points.values(), colour, notes=notes)

    series = []
    if one.limit is not None:
        curve = [(float(n), BYTES(v)) for n, v in one.limit.curve.items() if n <= _ends(one)[0]]
        series.append(line("any number", curve, "$c0/0.6"))
        level = [(n, BYTES(one.limit.rate.value)) for n, _ in (curve[0], curve[-1])]
        series.append(line("highest", level, "$ceiling", "dash"))
    series.append(drawn("predicted", one.predicted, figure.series_colour(0)))
    measured = {s.streams: s.measured for s in one.splits}
    series.append(drawn("measured", measured, figure.series_colour(1)))
    return Panel(convergence_name(one), series)


_LINK_FIGURES = {"delay": "throughput-delay", "rate": "throughput-link-rate", "loss": "throughput-loss"}
MOST_LINK_PANELS = 4
MOST_LINES = 6
_MOST_TOLD = 2
"""Sentences of a title: crossings first, else what a line does between its ends."""
_X = {
    "delay": "round trip of the link, ms",
    "rate": "rate of the link, Mbit/s",
    "loss": "packets that the link loses, %",
}
_LINK_CAPTION = (
    "Points: medians of the trials over each link, with 95 % intervals. Lines: the law, fitted to all links "
    "of a setting, those of other panels too."
)
_WIDE = 20
"""A ratio of the ends of an axis from which on it is logarithmic."""


def over_links(results: Results, along: str) -> Figure | None:
    """Over `delay`, `rate` or `loss`; None where no two links differ in that alone."""
    made = results.link_fits
    found: list[tuple[tuple[str, list[str]], list[LinkFit]]] = []
    for one in made:
        for points in law_over_links.lines(one, along):
            texts = [text for _, text in points]
            # A link is on one line: settings that share one share all but those whose trials failed.
            for (operation, line_texts), fits in found:
                if operation == one.operation and set(line_texts) & set(texts):
                    line_texts += [text for text in texts if text not in line_texts]
                    line_texts.sort(key=lambda text: _link_value(text, one.way, along))
                    fits.append(one)
                    break
            else:
                found.append(((one.operation, texts), [one]))
    chosen = sorted(found, key=lambda item: -len(item[0][1]))[:MOST_LINK_PANELS]
    if not chosen:
        return None
    unit = chosen[0][1][0].unit
    chosen = [(key, fits) for key, fits in chosen if fits[0].unit == unit]
    passed = [c for c in results.link_crossings if c.along == along]
    panels, findings, crossed = [], [], []
    for (operation, texts), fits in chosen:
        shown = fits[:MOST_LINES]
        crossings = [c for c in passed if c.text in texts and c.below in shown and c.above in shown]
        panels.append(_link_panel(operation, texts, shown, along, crossings))
        crossed += [fit_words.crossing_sentence(c) for c in crossings]
        findings.append(_ends_of_line(shown[0], texts, along))
    values = [x for panel in panels for series in panel.series for x in series.x]
    low, high = min(values), max(values)
    wide = low > 0 and high > _WIDE * low
    at = [_link_value(t, fits[0].way, along) for (_, texts), fits in chosen for t in texts]
    return Figure(
        _LINK_FIGURES[along],
        begun("; ".join((crossed or findings)[:_MOST_TOLD])),
        f"{_LINK_CAPTION} Crossing: where one setting passes another." if crossed else _LINK_CAPTION,
        _X[along],
        _link_scale(unit)[1],
        panels,
        x_scale="log" if wide else "linear",
        y_scale="log" if wide and along == "rate" else "linear",
        y_from_zero=not (wide and along == "rate"),
        x_ticks=figure.ticks(at),
    )


def _link_scale(unit: str) -> tuple[float, str]:
    """By what rates are divided, and the axis' label."""
    return (1e6 / 8, "throughput (payload), Mbit/s") if unit == "B/s" else (1.0, unit)


def _link_panel(
    operation: str, texts: Sequence[str], fits: Sequence[LinkFit], along: str, passed: Sequence[Crossing]
) -> Panel:
    link = links.parse(texts[0])
    panel = Panel(f"{operation}, {fit_words.link_conditions(along, link)}")
    for i, one in enumerate(fits):
        name = fit_words.short_link_head(one, fits)
        panel.series += _link_lines(one, texts, along, name, figure.series_colour(i))
    if passed:
        factor = _link_scale(fits[0].unit)[0]
        x, y = [c.at for c in passed], [c.rate / factor for c in passed]
        notes = [fit_words.crossing_sentence(c) for c in passed]
        panel.series.append(Series("crossing", x, y, "$ink", "points", notes=notes))
    return panel


def _link_lines(one: LinkFit, texts: Sequence[str], along: str, name: str, colour: str) -> list[Series]:
    """The measured points of a setting, and its law."""
    factor = _link_scale(one.unit)[0]
    points = [
        (_link_value(text, one.way, along), median_interval(one.rates(text)), text)
        for text in texts
        if text in one.links
    ]
    several = [found.n > 1 for _, found, _ in points]
    cells = {str(cell.parameters[law_over_links.AXIS]): cell for cell in one.cells}
    out = [
        Series(
            name,
            [x for x, _, _ in points],
            [found.median / factor for _, found, _ in points],
            colour,
            "points",
            low=[f.low / factor if s else None for (_, f, _), s in zip(points, several, strict=True)],
            high=[f.high / factor if s else None for (_, f, _), s in zip(points, several, strict=True)],
            notes=[f"{text}: {cells[text].main}" for _, _, text in points],
            links=[cells[text].name for _, _, text in points],
        )
    ]
    if one.law is not None:
        link = one.links[points[0][2]]
        grid = law_over_links.grid(points[0][0], points[-1][0])
        rates = {x: one.law.rate(one.path(law_over_links.moved(link, along, x))) / factor for x in grid}
        # No bound of an unshaped link may have been seen.
        out.append(line(name, [(x, y) for x, y in rates.items() if math.isfinite(y)], colour))
    return out


def _link_value(text: str, way: links.Way, along: str) -> float:
    value = law_over_links.attributes(links.parse(text), way)[along]
    assert value is not None  # lines have no others
    return value


def _ends_of_line(one: LinkFit, texts: Sequence[str], along: str) -> str:
    """What the fullest line does between its ends."""
    ends: list[Any] = []
    own = [text for text in texts if text in one.links]
    for text in (own[0], own[-1]):
        factor, label = _link_scale(one.unit)
        rate = median_interval(one.rates(text)).median / factor
        unit = label.rpartition(", ")[2]
        ends.append(f"{rate:,.4g} {unit} at {fit_words.link_value(along, _link_value(text, one.way, along))}")
    where = f" ({wording.label(one.cells[0], list(one.where))})" if one.where else ""
    common = fit_words.link_conditions(along, one.links[own[0]])
    return f"{one.operation}, {common}{where}: {ends[0]}, {ends[1]}"
