"""A pipeline as PNG or SVG: boxes in the data's order, filled as far as their workers were busy."""

from __future__ import annotations

import textwrap
from typing import Any

from venturi.common.units import plural
from venturi.report.draw.matplotlib_canvas import drawn
from venturi.report.figures import palette
from venturi.report.figures.figure import Figure
from venturi.report.figures.palette import LIGHT
from venturi.report.figures.pipeline import WAITS, Pipeline, percent

BOX, GAP, HIGH = 1.15, 0.42, 0.85
"""Inches: width of a stage, space between stages, height."""


def render(figure: Figure, found: Pipeline, kind: str) -> bytes:
    """The file's bytes; `kind` is png or svg. The same pipeline gives the same bytes."""
    stages = sum(len(side.work) for side in found.sides)
    wide = max(7.2, stages * (BOX + GAP) + len(found.sides) * 0.9)
    return drawn(
        figure,
        kind,
        wide,
        lambda title, caption: 2.75 + 0.2 * title + 0.14 * caption,
        lambda ax, caption: _sides(ax, found, 0.14 * caption + 1.15),
    )


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
        workers = f", {plural(side.workers, 'worker')}" if side.workers else ""
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
