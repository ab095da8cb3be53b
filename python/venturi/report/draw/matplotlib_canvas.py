"""The page of a drawing without axes, as PNG or SVG: its title, its caption, and room between them."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable
from typing import Any

from venturi.analysis.words import labels
from venturi.report.figures.figure import Figure
from venturi.report.figures.palette import LIGHT

__all__ = ["drawn"]


def drawn(
    figure: Figure,
    kind: str,
    wide: float,
    high: Callable[[int, int], float],
    draw: Callable[[Any, int], None],
) -> bytes:
    """The file's bytes; `kind` is png or svg. The same drawing gives the same bytes.

    `wide` and what `high` gives are in inches, and the axes' units are; both functions are given lines of
    the title and of the caption: `high(title, caption)`, `draw(axes, caption)`.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    title = textwrap.wrap(figure.title, int(wide * 9.5))
    caption = textwrap.wrap(figure.caption, int(wide * 15))
    top = high(len(title), len(caption))
    style: Any = {
        "font.size": 9,
        "svg.hashsalt": "venturi",
        "svg.fonttype": "none",
        "text.color": LIGHT["ink"],
    }
    with rc_context(style):
        canvas = Canvas(figsize=(wide, top))
        (FigureCanvasAgg if kind == "png" else FigureCanvasSVG)(canvas)
        ax = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_xlim(0, wide)
        ax.set_ylim(0, top)
        ax.axis("off")
        ax.text(0.15, top - 0.1, "\n".join(map(literal, title)), va="top", fontsize=11.5, weight="bold")
        ax.text(0.15, 0.1, "\n".join(map(literal, caption)), va="bottom", fontsize=7.5, color=LIGHT["muted"])
        draw(ax, len(caption))
        out = io.BytesIO()
        metadata = {"Software": "venturi"} if kind == "png" else {"Creator": "venturi", "Date": None}
        canvas.savefig(out, format=kind, dpi=150, facecolor="white", metadata=metadata)
        return out.getvalue()


def literal(plain: Any) -> str:
    """matplotlib reads $...$ as mathematics; names from scenarios and servers are not."""
    return labels.plain(plain).replace("$", r"\$")
