"""Figures whose panels stand one above the other over one x axis, as one plotly document.

One document, not one a panel: so that a pointer over any panel reads all of them at that moment.
"""

from __future__ import annotations

from typing import Any

from venturi.report.draw.plotly_traces import FONT, panel_traces, text
from venturi.report.figures.figure import Figure

FIRST, OTHERS = 130, 78
"""Pixels of the first panel and of each other one."""
HEAD, FOOT = 26, 46
"""Pixels over a panel for its title, and under the last one for the axis."""


def height(figure: Figure) -> int:
    """Pixels of the whole."""
    return sum(_heights(figure)) + HEAD * len(figure.panels) + FOOT


def _heights(figure: Figure) -> list[int]:
    return [FIRST if i == 0 else OTHERS for i in range(len(figure.panels))]


def document(figure: Figure) -> dict[str, Any]:
    """The document with roles for colours. Equal lists of x are kept once, under `x`, and named by number."""
    total = height(figure) - FOOT
    layout: dict[str, Any] = {
        "autosize": True,
        "height": height(figure),
        "margin": {"l": 56, "r": 14, "t": 0, "b": FOOT},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 11, "color": "$muted"},
        "showlegend": False,
        "hovermode": "x",
        "hoversubplots": "axis",
        "hoverlabel": {
            "bgcolor": "$paper",
            "bordercolor": "$grid",
            "font": {"color": "$ink", "family": FONT},
        },
        "annotations": [],
        "xaxis": {
            "title": {"text": text(figure.x_label), "standoff": 8},
            "gridcolor": "$grid",
            "linecolor": "$grid",
            "zeroline": False,
            "anchor": _axis(len(figure.panels) - 1),
            "rangemode": "tozero",
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "spikedash": "solid",
            "spikecolor": "$muted",
            "hoverformat": ".2f",
        },
    }
    data: list[dict[str, Any]] = []
    shared: list[list[Any]] = []
    done = 0
    for index, (panel, own) in enumerate(zip(figure.panels, _heights(figure), strict=True)):
        top, bottom = 1 - (done + HEAD) / total, 1 - (done + HEAD + own) / total
        done += HEAD + own
        axis = _axis(index)
        layout["yaxis" + axis[1:]] = {
            "domain": [max(0.0, bottom), top],
            "gridcolor": "$grid",
            "linecolor": "$grid",
            "zeroline": False,
            "nticks": 5 if index == 0 else 4,
            "tickformat": ",~g",
            "rangemode": "tozero",
            "fixedrange": True,
        }
        layout["annotations"].append(
            {
                "text": text(", ".join(filter(None, [panel.title, panel.y_label]))),
                "showarrow": False,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": top,
                "xanchor": "left",
                "yanchor": "bottom",
                "font": {"size": 12, "color": "$ink"},
            }
        )
        for series in panel.series:
            for trace in panel_traces(series, figure):
                if trace["x"] not in shared:
                    shared.append(trace["x"])
                trace |= {"x": shared.index(trace["x"]), "xaxis": "x", "yaxis": axis}
                trace["hovertemplate"] = f"{text(series.name)} %{{y:,.4~g}}<extra></extra>"
                if "stackgroup" in trace:
                    trace["stackgroup"] = f"panel {index}"
                trace["line"]["width"] = 1.4
                data.append(trace)
    return {"data": data, "layout": layout, "x": shared}


def _axis(index: int) -> str:
    return "y" if index == 0 else f"y{index + 1}"
