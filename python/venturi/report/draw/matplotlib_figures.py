"""Figures as PNG and SVG, by matplotlib, on white: what goes into a document or a slide."""

from __future__ import annotations

import io
import textwrap
from typing import Any

from venturi.report.draw.matplotlib_canvas import literal
from venturi.report.draw.plotly_figures import log_ticks, top
from venturi.report.figures.figure import Figure, Panel, Series
from venturi.report.figures.palette import LIGHT

DASHES = {"solid": "-", "dash": (0, (5, 3)), "dot": (0, (1, 1.6))}


def _colour(role: str) -> tuple[str, float]:
    """Colour and opacity of a role."""
    name, _, opacity = role.removeprefix("$").partition("/")
    return LIGHT.get(name, role), float(opacity or 1.0)


def render(figure: Figure, kind: str) -> bytes:
    """The file's bytes; `kind` is png or svg. The same figure gives the same bytes (no date, fixed ids)."""
    if figure.picture is not None:
        from venturi.report.draw import matplotlib_flows, matplotlib_pipeline
        from venturi.report.figures import flows

        if isinstance(figure.picture, flows.Picture):
            return matplotlib_flows.render(figure, figure.picture, kind)
        return matplotlib_pipeline.render(figure, figure.picture, kind)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = max(1, min(figure.columns, len(figure.panels)))
    rows = -(-len(figure.panels) // columns)
    bars = [
        len({y for s in p.series for y in s.y})
        for p in figure.panels
        if any(s.mark == "bar" for s in p.series)
    ]
    panel_height = 0.85 + 0.34 * max(bars) if bars else (2.6 if len(figure.panels) > 8 else 3.3)
    if figure.shared_x:
        panel_height = 0.95
    style: Any = {
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.edgecolor": LIGHT["grid"],
        "axes.labelcolor": LIGHT["muted"],
        "xtick.color": LIGHT["muted"],
        "ytick.color": LIGHT["muted"],
        "text.color": LIGHT["ink"],
        "svg.hashsalt": "venturi",
        "svg.fonttype": "none",
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
    }
    with rc_context(style):
        wide = 5.2 * columns if columns > 1 else 7.2
        # Title, legend and caption have rooms of their own, in inches; the panels share the rest.
        title = textwrap.wrap(figure.title, int(wide * 9.5))
        caption = textwrap.wrap(figure.caption, int(wide * 15))
        every = [s for p in figure.panels for s in p.series]
        names = list(dict.fromkeys(s.name for s in every if s.mark != "box" and not s.named_at))
        across = max(1, int(wide * 13 / (max(map(len, names), default=1) + 7)))
        above, notes = 0.12 + 0.2 * len(title), 0.12 + 0.14 * len(caption)
        below = notes + 0.2 * -(-len(names) // across)
        height = rows * panel_height + above + below
        room = (0.005, below / height, 0.99, 1 - (above + below) / height)
        canvas = Canvas(figsize=(wide, height), layout=ConstrainedLayoutEngine(rect=room))
        (FigureCanvasAgg if kind == "png" else FigureCanvasSVG)(canvas)
        axes = canvas.subplots(rows, columns, squeeze=False, sharex=figure.shared_x)
        flat = [axes[r][c] for r in range(rows) for c in range(columns)]
        for ax, panel in zip(flat, figure.panels, strict=False):
            _panel(ax, figure, panel)
        for ax in flat[len(figure.panels) :]:
            ax.set_visible(False)
        top_of_title = 1 - 0.06 / height
        canvas.text(
            0.01,
            top_of_title,
            "\n".join(map(literal, title)),
            va="top",
            fontsize=11.5,
            weight="bold",
            linespacing=1.15,
        )
        canvas.text(
            0.01,
            0.06 / height,
            "\n".join(map(literal, caption)),
            va="bottom",
            fontsize=7.5,
            color=LIGHT["muted"],
        )
        if names:
            shown: dict[str, Any] = {}
            for ax in flat[: len(figure.panels)]:
                for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
                    shown.setdefault(name, handle)
            canvas.legend(
                shown.values(),
                shown.keys(),
                loc="lower left",
                bbox_to_anchor=(0.0, (notes - 0.04) / height),
                ncols=min(len(shown), across),
                frameon=False,
                fontsize=8.5,
                borderaxespad=0.2,
            )
        out = io.BytesIO()
        metadata = {"Software": "venturi"} if kind == "png" else {"Creator": "venturi", "Date": None}
        canvas.savefig(out, format=kind, dpi=150, facecolor="white", metadata=metadata)
        return out.getvalue()


def _panel(ax: Any, figure: Figure, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter

    kinds = {s.mark for s in panel.series}
    ax.set_title(literal(panel.title))
    if not figure.shared_x or panel is figure.panels[-1]:
        ax.set_xlabel(literal(figure.x_label))
    ax.set_ylabel(literal(panel.y_label or figure.y_label))
    if figure.shared_x:
        ax.title.set_fontsize(8.5)
        ax.locator_params(axis="y", nbins=3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_axisbelow(True)
    ax.grid(axis="x" if "bar" in kinds else "y", color=LIGHT["grid"], linewidth=0.8)
    thousands = FuncFormatter(lambda v, _: f"{v:,g}")
    if "bar" in kinds:
        _bars(ax, figure, panel)
        return
    if figure.x_scale == "category":
        places = {c: i for i, c in enumerate(figure.categories or [])}
        step = max(1, -(-len(places) // 12))
        kept = list(places)[::step]
        ax.set_xticks(
            [places[c] for c in kept], [literal(c) for c in kept], rotation=35 if len(kept) > 7 else 0
        )
        ax.set_xlim(-0.6, len(places) - 0.4)
    else:
        places = {}
        ax.set_xscale(figure.x_scale)
        if figure.x_ticks:
            ax.set_xticks(figure.x_ticks, figure.x_texts or [f"{v:,g}" for v in figure.x_ticks])
            ax.minorticks_off()
        else:
            ax.xaxis.set_major_formatter(thousands)
    if figure.y_scale == "log":
        from matplotlib.ticker import FixedLocator

        ax.set_yscale("log")
        ax.yaxis.set_major_locator(FixedLocator(log_ticks(figure)))
        ax.yaxis.set_minor_locator(FixedLocator([]))
    elif figure.y_from_zero and not figure.shared_x:
        ax.set_ylim(0, top(figure, panel))
    ax.yaxis.set_major_formatter(thousands)
    _areas(ax, [s for s in panel.series if s.mark == "area"])
    for series in panel.series:
        if series.mark == "box":
            _boxes(ax, series, places)
        elif series.mark != "area":
            _line(ax, series, places)
    if figure.shared_x:
        # Each has a unit of its own, and areas stand on each other: matplotlib finds the upper end.
        ax.set_ylim(0, ax.get_ylim()[1] * 1.04)


def _areas(ax: Any, stacked: list[Series]) -> None:
    if stacked:
        ax.stackplot(
            stacked[0].x,
            *([0.0 if y is None else y for y in s.y] for s in stacked),
            labels=[literal(s.name) for s in stacked],
            colors=[_colour(s.colour)[0] for s in stacked],
            alpha=0.55,
            linewidth=0,
        )


def _line(ax: Any, series: Series, places: dict[str, int]) -> None:
    colour, opacity = _colour(series.colour)
    points = [
        (places[x] if places else x, y, i)
        for i, (x, y) in enumerate(zip(series.x, series.y, strict=True))
        if y is not None
    ]
    style = {"color": colour, "alpha": opacity, "linestyle": DASHES[series.dash], "linewidth": 1.6}
    if series.markers:
        style |= {"marker": "o", "markersize": 4}
    if series.mark == "points":
        style |= {"linestyle": "none", "markersize": 5}
    xs, ys = [p[0] for p in points], [p[1] for p in points]
    # What is named at the line is not named again in the legend.
    ax.plot(xs, ys, label=None if series.named_at else literal(series.name), **style)
    if series.named_at and points:
        at = 0 if series.named_at == "begin" else -1
        offset, across, along = {
            "begin": ((3, 2), "left", "bottom"),
            "end": ((-3, 2), "right", "bottom"),
            "after": ((4, 0), "left", "center"),
            "before": ((-6, -3), "right", "top"),
        }[series.named_at]
        ax.annotate(
            literal(series.name),
            (xs[at], ys[at]),
            xytext=offset,
            textcoords="offset points",
            ha=across,
            va=along,
            fontsize=7,
            color=LIGHT["muted"],
        )
    if series.low and series.high:
        ends = [(x, y, series.low[i], series.high[i]) for x, y, i in points]
        known = [(x, y, y - lo, hi - y) for x, y, lo, hi in ends if lo is not None and hi is not None]
        if known:
            ax.errorbar(
                [k[0] for k in known],
                [k[1] for k in known],
                [[k[2] for k in known], [k[3] for k in known]],
                fmt="none",
                ecolor=colour,
                elinewidth=1.1,
                capsize=2.5,
            )


def _boxes(ax: Any, series: Series, places: dict[str, int]) -> None:
    colour, _ = _colour(series.colour)
    groups: dict[str, list[float]] = {}
    for x, y in zip(series.x, series.y, strict=True):
        if y is not None:
            groups.setdefault(x, []).append(y)
    if not groups:
        return
    line = {"color": colour, "linewidth": 1.1}
    ax.boxplot(
        list(groups.values()),
        positions=[places[x] for x in groups],
        widths=0.6,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour + "2a", "edgecolor": colour},
        medianprops=line | {"linewidth": 1.6},
        whiskerprops=line,
        capprops=line,
        flierprops={"marker": "o", "markersize": 2.5, "markeredgecolor": colour},
    )


def _bars(ax: Any, figure: Figure, panel: Panel) -> None:
    rows = {name: i for i, name in enumerate(dict.fromkeys(y for s in panel.series for y in s.y))}
    left = [0.0] * len(rows)
    for series in panel.series:
        colour, _ = _colour(series.colour)
        at = [rows[y] for y in series.y]
        ax.barh(
            at, series.x, left=[left[i] for i in at], height=0.66, color=colour, label=literal(series.name)
        )
        for i, length in zip(at, series.x, strict=True):
            left[i] += length
    ax.set_yticks(list(rows.values()), [literal(r) for r in rows])
    ax.invert_yaxis()
    if figure.x_range:
        ax.set_xlim(*figure.x_range)
