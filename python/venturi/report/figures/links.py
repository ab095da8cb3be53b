"""Figures over links: throughput over delay, rate and losses.

A panel holds links that differ in one respect only: what is drawn over delay has one rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from venturi.analysis import wording
from venturi.analysis.models import fit_words, over_links
from venturi.analysis.models.over_links import Crossing, LinkFit
from venturi.analysis.results import Results
from venturi.analysis.statistics.intervals import median_interval
from venturi.common import links
from venturi.report.figures.figure import Figure, Panel, Series, series_colour

__all__ = ["NAMES", "figure"]

NAMES = {"delay": "throughput-delay", "rate": "throughput-link-rate", "loss": "throughput-loss"}
MOST_PANELS = 4
MOST_LINES = 6
MOST_TOLD = 2
"""Sentences of a title: crossings first, else what a line does between its ends."""
_X = {
    "delay": "round trip of the link, ms",
    "rate": "rate of the link, Mbit/s",
    "loss": "packets that the link loses, %",
}
CAPTION = (
    "Points: medians of the trials over each link, with 95 % intervals. Lines: the law, fitted to all links "
    "of a setting, those of other panels too."
)
WIDE = 20
"""A ratio of the ends of an axis from which on it is logarithmic."""


def figure(results: Results, along: str) -> Figure | None:
    """Over `delay`, `rate` or `loss`; None where no two links differ in that alone."""
    made = results.link_fits
    found: list[tuple[tuple[str, list[str]], list[LinkFit]]] = []
    for one in made:
        for line in over_links.lines(one, along):
            texts = [text for _, text in line]
            # A link is on one line: settings that share one share all but those whose trials failed.
            for (operation, there), fits in found:
                if operation == one.operation and set(there) & set(texts):
                    there += [text for text in texts if text not in there]
                    there.sort(key=lambda text: _value(text, one.way, along))
                    fits.append(one)
                    break
            else:
                found.append(((one.operation, texts), [one]))
    chosen = sorted(found, key=lambda item: -len(item[0][1]))[:MOST_PANELS]
    if not chosen:
        return None
    unit = chosen[0][1][0].unit
    chosen = [(key, fits) for key, fits in chosen if fits[0].unit == unit]
    passed = [c for c in results.link_crossings if c.along == along]
    panels, told, crossed = [], [], []
    for (operation, texts), fits in chosen:
        shown = fits[:MOST_LINES]
        here = [c for c in passed if c.text in texts and c.below in shown and c.above in shown]
        panels.append(_panel(operation, texts, shown, along, here))
        crossed += [fit_words.crossing_sentence(c) for c in here]
        told.append(_told(shown[0], texts, along))
    values = [x for panel in panels for series in panel.series for x in series.x]
    low, high = min(values), max(values)
    wide = low > 0 and high > WIDE * low
    ticks = sorted({_value(t, fits[0].way, along) for (_, texts), fits in chosen for t in texts})
    title = "; ".join((crossed or told)[:MOST_TOLD])
    return Figure(
        NAMES[along],
        title[:1].upper() + title[1:],
        f"{CAPTION} Crossing: where one setting passes another." if crossed else CAPTION,
        _X[along],
        _scale(unit)[1],
        panels,
        x_scale="log" if wide else "linear",
        y_scale="log" if wide and along == "rate" else "linear",
        y_from_zero=not (wide and along == "rate"),
        x_ticks=ticks if len(ticks) <= 12 else None,
    )


def _scale(unit: str) -> tuple[float, str]:
    """By what rates are divided, and the axis' label."""
    return (1e6 / 8, "throughput (payload), Mbit/s") if unit == "B/s" else (1.0, unit)


def _panel(
    operation: str, texts: Sequence[str], fits: Sequence[LinkFit], along: str, passed: Sequence[Crossing]
) -> Panel:
    link = links.parse(texts[0])
    panel = Panel(f"{operation}, {fit_words.link_conditions(along, link)}")
    for i, one in enumerate(fits):
        name = fit_words.short_link_head(one, fits)
        panel.series += _lines(one, texts, along, name, series_colour(i))
    if passed:
        factor = _scale(fits[0].unit)[0]
        panel.series.append(
            Series(
                "crossing",
                [c.at for c in passed],
                [c.rate / factor for c in passed],
                "$ink",
                "points",
                notes=[fit_words.crossing_sentence(c) for c in passed],
            )
        )
    return panel


def _lines(one: LinkFit, texts: Sequence[str], along: str, name: str, colour: str) -> list[Series]:
    """The measured points of a setting, and its law."""
    factor = _scale(one.unit)[0]
    points = [
        (_value(text, one.way, along), median_interval(one.rates(text)), text)
        for text in texts
        if text in one.links
    ]
    several = [found.n > 1 for _, found, _ in points]
    cells = {str(cell.parameters[over_links.AXIS]): cell for cell in one.cells}
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
        grid = over_links.grid(points[0][0], points[-1][0])
        rates = {x: one.law.rate(one.path(over_links.moved(link, along, x))) / factor for x in grid}
        # No bound of an unshaped link may have been seen.
        finite = {x: rate for x, rate in rates.items() if math.isfinite(rate)}
        out.append(Series(name, list(finite), list(finite.values()), colour, markers=False))
    return out


def _value(text: str, way: links.Way, along: str) -> float:
    value = over_links.attributes(links.parse(text), way)[along]
    assert value is not None  # lines have no others
    return value


def _told(one: LinkFit, texts: Sequence[str], along: str) -> str:
    """What the fullest line does between its ends."""
    ends: list[Any] = []
    own = [text for text in texts if text in one.links]
    for text in (own[0], own[-1]):
        factor, label = _scale(one.unit)
        rate = median_interval(one.rates(text)).median / factor
        unit = label.rpartition(", ")[2]
        ends.append(f"{rate:,.4g} {unit} at {fit_words.link_value(along, _value(text, one.way, along))}")
    where = f" ({wording.label(one.cells[0], list(one.where))})" if one.where else ""
    common = fit_words.link_conditions(along, one.links[own[0]])
    return f"{one.operation}, {common}{where}: {ends[0]}, {ends[1]}"
