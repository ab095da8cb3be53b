"""Figures as plotly documents: one a panel for the page, one whole figure for notebooks.

Documents are plain dictionaries whose colours are roles of the palette; the page resolves them by its
theme, so that light, dark and print need one document. Plotly itself is imported for `whole` only.
"""

from __future__ import annotations

import math
from typing import Any

from venturi.report.draw.plotly_traces import FONT, is_bars, panel_traces, text, values
from venturi.report.figures.figure import Figure, Panel
from venturi.report.figures.palette import LIGHT, resolve_all

MOST_TICK_CHARACTERS = 34
"""Of all labels of an axis of numbers together, in a panel of half the page."""


def _x_axis(figure: Figure) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": text(figure.x_label), "standoff": 8},
        "gridcolor": "$grid",
        "linecolor": "$grid",
        "zeroline": False,
        "ticks": "outside",
        "tickcolor": "$grid",
        "ticklen": 4,
    }
    if figure.x_scale == "log":
        axis |= {"type": "log", "dtick": 1}
        known = [float(x) for p in figure.panels for s in p.series for x in s.x if x and float(x) > 0]
        if known and max(known) / min(known) < 30:
            # Less than two decades might show one label or none.
            ticks = _ticks_within(min(known), max(known))
            axis |= {"tickvals": ticks, "ticktext": [f"{t:,g}" for t in ticks]}
    if figure.x_scale == "category":
        axis |= {"type": "category", "showgrid": False}
        if figure.categories:
            axis |= {"categoryorder": "array", "categoryarray": [text(c) for c in figure.categories]}
        if _slanted(figure):
            axis |= {"nticks": 10, "tickangle": -45}
    if figure.x_ticks:
        texts = figure.x_texts or [f"{v:,g}" for v in figure.x_ticks]
        # Labels that touch are slanted by plotly, into the title: of many long ones every second is enough.
        every = -(-sum(map(len, texts)) // MOST_TICK_CHARACTERS)
        axis |= {
            "tickvals": figure.x_ticks,
            "ticktext": [t if i % every == 0 else "" for i, t in enumerate(texts)],
        }
    if figure.x_range:
        axis |= {"range": list(figure.x_range)}
    return axis


def _slanted(figure: Figure) -> bool:
    """Whether the categories are too many or too long to stand upright; the same in all panels."""
    categories = figure.categories or []
    return len(categories) > 8 or sum(map(len, categories)) > 36


def _below(figure: Figure) -> int:
    """Pixels for tick labels and title under a panel."""
    if figure.x_scale != "category":
        return 48
    if not _slanted(figure):
        return 58  # on a phone plotly slants even short labels
    return min(52 + 5 * max(map(len, figure.categories or [""])), 150)


def _y_axis(figure: Figure, panel: Panel) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": text(panel.y_label or figure.y_label), "standoff": 8},
        "gridcolor": "$grid",
        "linecolor": "$grid",
        "zeroline": False,
    }
    if is_bars(figure):
        # Labels as long as a cell's name: the one axis whose room has to be measured. Plotly measures all
        # that are asked for together, and with two axes it can swing between two answers and complain.
        bars = {"type": "category", "autorange": "reversed", "showgrid": False, "ticksuffix": " "}
        return axis | bars | {"automargin": True}
    if figure.y_scale == "log":
        ticks = log_ticks(figure)
        return axis | {"type": "log", "tickvals": ticks, "ticktext": [f"{t:,g}" for t in ticks]}
    axis |= {"separatethousands": True, "tickformat": ",~g"}
    if figure.y_from_zero:
        axis |= {"range": [0, top(figure, panel)], "rangemode": "tozero"}
    return axis


def log_ticks(figure: Figure) -> list[float]:
    """1, 2 and 5 of each decade that the values span; the decades alone where that makes too many."""
    known = [v for v in values(figure.panels) if v > 0]
    return _ticks_within(min(known), max(known)) if known else [1.0]


def _ticks_within(low: float, high: float) -> list[float]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    return [float(f"{step}e{decade}") for decade in decades for step in steps]


def top(figure: Figure, panel: Panel) -> float:
    """The end of an axis that starts at zero.

    Panels are compared by eye, so all of one unit share it; rows of boxes share it by row, or those of one
    stream would be flat lines under those of eight.
    """
    panels = [p for p in figure.panels if p.y_label == panel.y_label]
    if any(s.mark == "box" for s in panel.series):
        every, columns = figure.panels, max(1, figure.columns)
        row = next(i for i, p in enumerate(every) if p is panel) // columns
        beside = every[row * columns : (row + 1) * columns]
        panels = [p for p in beside if p.y_label == panel.y_label]
    return max(values(panels), default=1.0) * 1.06 or 1.0


def height(figure: Figure, panel: Panel) -> int:
    """Pixels of one panel on the page."""
    if is_bars(figure):
        rows = len({y for s in panel.series for y in s.y})
        return 92 + 30 * rows
    return (225 if len(figure.panels) > 8 else 292) + _below(figure)


def panel_document(figure: Figure, panel: Panel) -> dict[str, Any]:
    """One panel as a plotly document with roles for colours; the page draws title and legend itself."""
    return {
        "data": [trace for series in panel.series for trace in panel_traces(series, figure)],
        "layout": {
            "autosize": True,
            "height": height(figure, panel),
            "margin": {"l": 64, "r": 14, "t": 8, "b": _below(figure)},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 12, "color": "$muted"},
            "showlegend": False,
            "barmode": "stack",
            "bargap": 0.32,
            "xaxis": _x_axis(figure),
            "yaxis": _y_axis(figure, panel),
            "hoverlabel": {
                "bgcolor": "$paper",
                "bordercolor": "$grid",
                "font": {"color": "$ink", "family": FONT},
            },
            "hovermode": "closest",
        },
    }


def document(figure: Figure, theme: dict[str, str] = LIGHT) -> dict[str, Any]:
    """The whole figure with its panels, title and legend, colours resolved."""
    if figure.shared_x:
        from venturi.report.draw import plotly_stack

        stacked = plotly_stack.document(figure)
        for trace in stacked["data"]:
            trace["x"] = stacked["x"][trace["x"]]
        title = {"text": text(figure.title), "x": 0, "xref": "paper", "font": {"size": 16, "color": "$ink"}}
        stacked["layout"] |= {"title": title, "paper_bgcolor": "$paper"}
        stacked["layout"]["margin"]["t"] = 50
        stacked["layout"]["height"] += 50
        found: dict[str, Any] = resolve_all({k: stacked[k] for k in ("data", "layout")}, theme)
        return found
    columns = max(1, min(figure.columns, len(figure.panels)))
    rows = -(-len(figure.panels) // columns)
    row_heights = [
        max(height(figure, p) for p in figure.panels[r * columns : (r + 1) * columns]) + 46
        for r in range(rows)
    ]
    total = sum(row_heights)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "title": {"text": text(figure.title), "x": 0, "xref": "paper", "font": {"size": 16, "color": "$ink"}},
        "height": total + 110,
        "paper_bgcolor": "$paper",
        "plot_bgcolor": "$paper",
        "barmode": "stack",
        "bargap": 0.32,
        "font": {"family": FONT, "size": 12, "color": "$muted"},
        "legend": {"orientation": "h", "y": -60 / total, "yanchor": "top"},
        "annotations": [],
        "margin": {"t": 70, "r": 20, "b": 40, "l": 70},
    }
    listed: set[str] = set()
    gap = 0.10 if columns > 1 else 0.0
    if is_bars(figure):
        gap *= 2.2  # the categories of the right panel need room
    width = (1 - gap * (columns - 1)) / columns
    for index, panel in enumerate(figure.panels):
        row, column = divmod(index, columns)
        suffix = "" if index == 0 else str(index + 1)
        above = sum(row_heights[:row])
        y_top, y_bottom = 1 - (above + 22) / total, 1 - (above + row_heights[row] - 44) / total
        left = column * (width + gap)
        layout[f"xaxis{suffix}"] = _x_axis(figure) | {
            "domain": [left, left + width],
            "anchor": f"y{suffix}",
        }
        layout[f"yaxis{suffix}"] = _y_axis(figure, panel) | {
            "domain": [y_bottom, y_top],
            "anchor": f"x{suffix}",
        }
        layout["annotations"].append(
            {
                "text": text(panel.title),
                "showarrow": False,
                "xref": "paper",
                "yref": "paper",
                "x": left,
                "y": y_top,
                "xanchor": "left",
                "yanchor": "bottom",
                "font": {"size": 13, "color": "$ink"},
            }
        )
        for series in panel.series:
            for trace in panel_traces(series, figure):
                if series.mark != "box":
                    trace["showlegend"] = series.name not in listed
                listed.add(series.name)
                data.append(trace | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"})
    resolved: dict[str, Any] = resolve_all({"data": data, "layout": layout}, theme)
    return resolved


def whole(figure: Figure) -> Any:
    """The figure as a `plotly.graph_objects.Figure`, for notebooks."""
    import plotly.graph_objects as go

    return go.Figure(document(figure))
