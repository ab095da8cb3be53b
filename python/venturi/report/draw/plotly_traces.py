"""Panels of figures as traces of plotly."""

from __future__ import annotations

import html
from typing import Any

from venturi.analysis.words import labels
from venturi.report.figures.figure import Figure, Panel, Series

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MANY_BOXES = 120
"""More observations than this in a panel are drawn as boxes with outliers only: the points would hide
them."""


def text(plain: str) -> str:
    """Plotly reads a small HTML in its texts; names from scenarios and servers must not."""
    return html.escape(labels.plain(plain, 200), quote=False)


def panel_traces(series: Series, figure: Figure) -> list[dict[str, Any]]:
    name = text(series.name)
    if series.mark == "box":
        return [
            {
                "type": "box",
                "name": name,
                "x": [text(x) for x in series.x],
                "y": series.y,
                "boxpoints": "all" if len(series.y) <= MANY_BOXES else "outliers",
                "jitter": 0.35,
                "pointpos": 0,
                "marker": {"color": series.colour, "size": 3.5, "opacity": 0.65},
                "line": {"color": series.colour, "width": 1.3},
                "fillcolor": f"{series.colour}/0.16",
                "hovertemplate": "%{y:,.1f}" + f" {_unit(figure, series)}<extra>%{{x}}</extra>",
                "showlegend": False,
            }
        ]
    if series.mark == "bar":
        return [
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "x": series.x,
                "y": [text(y) for y in series.y],
                "marker": {"color": series.colour, "line": {"width": 0}},
                "hovertemplate": "%{x:.1f} %<extra>" + name + "</extra>",
                "legendgroup": name,
            }
        ]
    category = figure.x_scale == "category"
    points = series.mark == "points"
    trace: dict[str, Any] = {
        "type": "scatter",
        "name": name,
        "x": [text(x) for x in series.x] if category else series.x,
        "y": series.y,
        "mode": "markers" if points else "lines+markers" if series.markers else "lines",
        "legendgroup": name,
        "line": {"color": series.colour, "width": 2 if series.dash == "solid" else 1.6, "dash": series.dash},
        "marker": {"color": series.colour, "size": 6},
        "connectgaps": True,
        "hovertemplate": "%{y:,.4~g}<extra>" + name + "</extra>",
    }
    if points:
        trace["marker"] |= {"size": 8, "opacity": 0.85, "line": {"color": "$paper", "width": 1}}
    if series.mark == "area":
        trace |= {"stackgroup": "all", "fillcolor": f"{series.colour}/0.35", "connectgaps": False}
        trace["line"]["width"] = 1
    if series.links:
        # `meta` is plotly's place for what is not drawn; the page opens the cell of a point that is clicked.
        trace["meta"] = series.links
    if series.named_at and series.x:
        at = 0 if series.named_at == "begin" else len(series.x) - 1
        places = {"begin": "top right", "end": "top left", "after": "middle right", "before": "bottom left"}
        trace["mode"] = "lines+text"
        trace["text"] = [name if i == at else "" for i in range(len(series.x))]
        trace["textposition"] = places[series.named_at]
        trace["textfont"] = {"size": 10.5, "color": "$muted"}
        trace["cliponaxis"] = False
    if series.notes:
        trace["customdata"] = [text(n) for n in series.notes]
        trace["hovertemplate"] = "%{customdata}<extra>" + name + "</extra>"
    if series.low and series.high:
        up = [None if h is None or y is None else h - y for y, h in zip(series.y, series.high, strict=True)]
        down = [
            None if lo is None or y is None else y - lo for y, lo in zip(series.y, series.low, strict=True)
        ]
        if any(v is not None for v in up):
            trace["error_y"] = {
                "type": "data",
                "symmetric": False,
                "array": up,
                "arrayminus": down,
                "color": series.colour,
                "thickness": 1.3,
                "width": 4,
            }
    return [trace]


def _unit(figure: Figure, series: Series) -> str:
    """The unit at the end of the axis that a series stands on: `payload, MB/s`."""
    label = next((p.y_label for p in figure.panels if p.y_label and series in p.series), figure.y_label)
    return text(label.rpartition(", ")[2])


def is_bars(figure: Figure) -> bool:
    return any(s.mark == "bar" for p in figure.panels for s in p.series)


def values(panels: list[Panel]) -> list[float]:
    return [
        float(v)
        for panel in panels
        for s in panel.series
        for part in (s.y, s.high or [])
        for v in part
        if isinstance(v, int | float)
    ]
