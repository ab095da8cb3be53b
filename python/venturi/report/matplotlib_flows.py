"""Who sent how much to whom, as PNG or SVG."""

from __future__ import annotations

import io
import textwrap
from typing import Any

from venturi.report import palette
from venturi.report.figure import Figure
from venturi.report.flows import BAR, Band, End, Picture
from venturi.report.palette import LIGHT

WIDE, WORDS = 7.2, 2.1
"""Inches: the picture, and the words at each side of it."""
SCALE = 90.0
"""Units of height an inch."""


def render(figure: Figure, found: Picture, kind: str) -> bytes:
    """The file's bytes; `kind` is png or svg. The same picture gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    from venturi.report.matplotlib_figures import _literal

    title = textwrap.wrap(figure.title, int(WIDE * 9.5))
    caption = textwrap.wrap(figure.caption, int(WIDE * 15))
    below, above = 0.25 + 0.14 * len(caption), 0.35 + 0.2 * len(title)
    high = found.height / SCALE + below + above
    style: Any = {
        "font.size": 9,
        "svg.hashsalt": "venturi",
        "svg.fonttype": "none",
        "text.color": LIGHT["ink"],
    }
    with rc_context(style):
        canvas = Canvas(figsize=(WIDE, high))
        (FigureCanvasAgg if kind == "png" else FigureCanvasSVG)(canvas)
        ax = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_xlim(0, WIDE)
        ax.set_ylim(0, high)
        ax.axis("off")
        ax.text(0.15, high - 0.1, "\n".join(map(_literal, title)), va="top", fontsize=11.5, weight="bold")
        ax.text(0.15, 0.1, "\n".join(map(_literal, caption)), va="bottom", fontsize=7.5, color=LIGHT["muted"])

        def y(at: float) -> float:
            return below + (found.height - at) / SCALE

        for band in found.bands:
            _band(ax, band, y)
        for ends, left in ((found.senders, True), (found.receivers, False)):
            for end in ends:
                _end(ax, end, left, y, _literal)
        out = io.BytesIO()
        metadata = {"Software": "venturi"} if kind == "png" else {"Creator": "venturi", "Date": None}
        canvas.savefig(out, format=kind, dpi=150, facecolor="white", metadata=metadata)
        return out.getvalue()


def _band(ax: Any, band: Band, y: Any) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    inner = WIDE - 2 * WORDS
    left, right = WORDS + inner * BAR / 100, WIDE - WORDS - inner * BAR / 100
    middle = (left + right) / 2
    (a, b), (c, d) = band.left, band.right
    points = [
        (left, y(a)), (middle, y(a)), (middle, y(c)), (right, y(c)),
        (right, y(d)), (middle, y(d)), (middle, y(b)), (left, y(b)), (left, y(a)),
    ]  # fmt: skip
    codes = [Path.MOVETO, *[Path.CURVE4] * 3, Path.LINETO, *[Path.CURVE4] * 3, Path.CLOSEPOLY]
    colour = palette.resolve(band.colour)
    ax.add_patch(PathPatch(Path(points, codes), facecolor=colour, alpha=0.35, linewidth=0))


def _end(ax: Any, end: End, left: bool, y: Any, literal: Any) -> None:
    from matplotlib.patches import Rectangle

    thick = (WIDE - 2 * WORDS) * BAR / 100
    x = WORDS if left else WIDE - WORDS - thick
    low, colour = y(end.bottom), palette.resolve(end.colour)
    ax.add_patch(Rectangle((x, low), thick, y(end.top) - low, color=colour, lw=0))
    at, middle = (WORDS - 0.1 if left else WIDE - WORDS + 0.1), y((end.top + end.bottom) / 2)
    align = "right" if left else "left"
    name = f"{end.name}, {end.more}" if end.more else end.name
    ax.text(at, middle + 0.02, literal(name), ha=align, va="bottom", weight="bold", fontsize=8.5)
    ax.text(at, middle - 0.02, literal(end.amount), ha=align, va="top", fontsize=8, color=LIGHT["muted"])
