"""A pipeline as PNG or SVG: boxes in the data's order, filled as far as their workers were busy."""

from __future__ import annotations

import io
import textwrap
from typing import Any

from venturi.report import palette
from venturi.report.figure import Figure
from venturi.report.palette import LIGHT
from venturi.report.pipeline import WAITS, Pipeline, percent

BOX, GAP, HIGH = 1.15, 0.42, 0.85
"""Inches: width of a stage, space between stages, height."""


def render(figure: Figure, found: Pipeline, kind: str) -> bytes:
    """The file's bytes; `kind` is png or svg. The same pipeline gives the same bytes."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    from venturi.report.matplotlib_figures import _literal

    stages = sum(len(side.work) for side in found.sides)
    wide = max(7.2, stages * (BOX + GAP) + len(found.sides) * 0.9)
    title = textwrap.wrap(figure.title, int(wide * 9.5))
    caption = textwrap.wrap(figure.caption, int(wide * 15))
    high = 2.75 + 0.2 * len(title) + 0.14 * len(caption)
    style: Any = {
        "font.size": 9,
        "svg.hashsalt": "venturi",
        "svg.fonttype": "none",
        "text.color": LIGHT["ink"],
    }
    with rc_context(style):
        canvas = Canvas(figsize=(wide, high))
        (FigureCanvasAgg if kind == "png" else FigureCanvasSVG)(canvas)
        ax = canvas.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set_xlim(0, wide)
        ax.set_ylim(0, high)
        ax.axis("off")
        ax.text(0.15, high - 0.1, "\n".join(map(_literal, title)), va="top", fontsize=11.5, weight="bold")
        ax.text(0.15, 0.1, "\n".join(map(_literal, caption)), va="bottom", fontsize=7.5, color=LIGHT["muted"])
        _sides(ax, found, 0.14 * len(caption) + 1.15)
        out = io.BytesIO()
        metadata = {"Software": "venturi"} if kind == "png" else {"Creator": "venturi", "Date": None}
        canvas.savefig(out, format=kind, dpi=150, facecolor="white", metadata=metadata)
        return out.getvalue()


def _sides(ax: Any, found: Pipeline, bottom: float) -> None:
    from matplotlib.patches import Rectangle

    x = 0.3
    for index, side in enumerate(found.sides):
        if index:
            ax.annotate(
                "", (x + 0.75, bottom + HIGH / 2), (x - 0.2, bottom + HIGH / 2),
                arrowprops={"arrowstyle": "->", "color": LIGHT["muted"], "linestyle": ":"},
            )  # fmt: skip
            ax.text(x + 0.27, bottom + HIGH / 2 + 0.07, "wire", ha="center", color=LIGHT["muted"], fontsize=8)
            x += 0.9
        workers = f", {side.workers:g} worker{'' if side.workers == 1 else 's'}" if side.workers else ""
        ax.text(x, bottom + HIGH + 0.28, f"{side.end}{workers}", weight="bold")
        begin = x
        for at, part in enumerate(side.work):
            if at:
                ax.annotate(
                    "", (x + GAP - 0.04, bottom + HIGH / 2), (x + 0.04, bottom + HIGH / 2),
                    arrowprops={"arrowstyle": "->", "color": LIGHT["muted"]},
                )  # fmt: skip
                x += GAP
            colour = palette.resolve(palette.stage_colour(part.stage))
            marked = found.is_narrowest(side.end, part.stage)
            ax.add_patch(
                Rectangle((x, bottom), BOX, HIGH * min(1.0, part.share), color=colour, alpha=0.4, lw=0)
            )
            edge: Any = {"edgecolor": LIGHT["ink"] if marked else colour, "linewidth": 2.4 if marked else 1.2}
            ax.add_patch(Rectangle((x, bottom), BOX, HIGH, fill=False, **edge))
            ax.text(x + BOX / 2, bottom + HIGH * 0.64, part.stage, ha="center", va="center")
            ax.text(
                x + BOX / 2,
                bottom + HIGH * 0.32,
                percent(part.share),
                ha="center",
                va="center",
                weight="bold",
            )
            if marked:
                ax.text(x + BOX / 2, bottom + HIGH + 0.07, "narrowest", ha="center", fontsize=8)
            x += BOX
        told = [f"{p.stage} {percent(p.share)}" for p in side.besides]
        waits = ", ".join(f"{WAITS[p.stage]} {percent(p.share)}" for p in side.waiting)
        told += [f"waits {percent(side.idle)}: {waits}"] if waits else []
        if told:
            ax.text(begin, bottom - 0.12, "\n".join(textwrap.wrap("; ".join(told), 46)), va="top", fontsize=8,
                    color=LIGHT["muted"])  # fmt: skip
        x += 0.25
    if found.missing:
        text = f"{found.missing}: did not account for its stages"
        ax.text(x + 0.2, bottom + HIGH / 2, text, va="center", fontsize=8, color=LIGHT["muted"])
