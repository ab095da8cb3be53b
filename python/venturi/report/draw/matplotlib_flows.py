"""Who sent how much to whom, as PNG or SVG."""

from __future__ import annotations

from typing import Any

from venturi.report.draw.matplotlib_canvas import drawn
from venturi.report.figures import palette
from venturi.report.figures.figure import Figure
from venturi.report.figures.flows import BAR, Band, End, Picture
from venturi.report.figures.palette import LIGHT

WIDE, WORDS = 7.2, 2.1
"""Inches: the picture, and the words at each side of it."""
SCALE = 90.0
"""Units of height an inch."""


def render(figure: Figure, found: Picture, kind: str) -> bytes:
    """The file's bytes; `kind` is png or svg. The same picture gives the same bytes."""
    from venturi.report.draw.matplotlib_canvas import literal

    def below(caption: int) -> float:
        return 0.25 + 0.14 * caption

    def high(title: int, caption: int) -> float:
        return found.height / SCALE + below(caption) + 0.35 + 0.2 * title

    def draw(ax: Any, caption: int) -> None:
        def y(at: float) -> float:
            return below(caption) + (found.height - at) / SCALE

        for band in found.bands:
            _band(ax, band, y)
        for ends, left in ((found.senders, True), (found.receivers, False)):
            for end in ends:
                _end(ax, end, left, y, literal)

    return drawn(figure, kind, WIDE, high, draw)


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
