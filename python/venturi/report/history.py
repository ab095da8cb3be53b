"""Cells over many runs as text: a line a cell, or a line a run of one cell; and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells.summary import varying
from venturi.analysis.compare.history import Change, Series
from venturi.analysis.words import labels
from venturi.common.units import MISSING, pick_unit, plural
from venturi.report.wrap import wrap

if TYPE_CHECKING:
    from rich.console import Console

FEW = 10
"""So many runs, half of them on each side of a change, are needed for a p under 1 %."""
MOST_CHANGES = 3
"""Changes of a cell that stand in its line, the newest ones."""


def name(one: Series, among: Sequence[Series]) -> str:
    """A cell by what tells it from the others, and its machine where there are several."""
    label = labels.label(one.cell, varying([s.cell for s in among]))
    return f"{label}, on {labels.plain(one.machine)}" if one.machine else label


def change(one: Series, found: Change) -> str:
    """`-7.2 % [-8.0..-6.4] from 2026-11-20 on (run quick-14)`."""
    point = one.points[found.at]
    ratios = (found.ratio, found.low, found.high)
    middle, low, high = (f"{100 * (ratio - 1):+.1f}" for ratio in ratios)
    margin = f" [{low}..{high}]" if found.high > found.low else ""
    since = f"from {point.started:%Y-%m-%d %H:%M} on " if point.started else ""
    return f"{middle} %{margin} {since}(run {labels.plain(point.run)})"


def changes(one: Series) -> list[str]:
    """The newest first; how many more there are. Where there is none, whether one could have been seen."""
    told = [change(one, found) for found in reversed(one.changes)]
    if not told:
        few = sum(p.value.known for p in one.points) < FEW
        return [f"no change of the level seen{f'; fewer than {FEW} runs are too few to tell' if few else ''}"]
    more = len(told) - MOST_CHANGES
    return told if more <= 0 else [*told[:MOST_CHANGES], f"and {plural(more, 'older change')}"]


def elsewhere(one: Series) -> list[str]:
    """That other machines have this cell too."""
    return [f"{plural(one.elsewhere, 'run')} of other machines not counted"] if one.elsewhere else []


def print_histories(found: Sequence[Series], console: Console) -> None:
    """Of several cells a paragraph each; of one cell also a line a run."""
    from rich.text import Text

    def say(text: str, style: str = "", first: str = "", rest: str = "") -> None:
        for i, line in enumerate(wrap(text, max(console.width - len(first), 20))):
            console.print(Text((first if i == 0 else rest) + line, style=style))

    for one in found:
        newest = next((p for p in reversed(one.points) if p.value.known), None)
        last = f"; last {newest.value}" if newest else "; no trial succeeded"
        say(f"{name(one, found)}: {plural(len(one.points), 'run')}{last}", "bold")
        for text in (*changes(one), *elsewhere(one)):
            say(text, "", "  - ", "    ")
    if len(found) == 1:
        console.print(_table(found[0]))


def _table(one: Series) -> Any:
    from rich.table import Table
    from rich.text import Text

    unit = pick_unit(one.metric.unit, [p.value.value for p in one.points])
    out = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_edge=False)
    for head, justify in (("started", "left"), (unit, "right"), ("interval", "right"), ("run", "left")):
        out.add_column(Text(head, style="bold"), justify=justify)  # type: ignore[arg-type]
    starts = {found.at for found in one.changes}
    for i, point in enumerate(one.points):
        started = f"{point.started:%Y-%m-%d %H:%M}" if point.started else MISSING
        mark = " <- change" if i in starts else ""
        figures = (point.value.number(unit), point.value.margin(unit))
        out.add_row(*map(Text, (started, *figures, labels.plain(point.run) + mark)))
    return out


def document(found: Sequence[Series]) -> list[dict[str, Any]]:
    """For machines: base units."""
    return [
        {
            "parameters": dict(one.cell.parameters),
            "machine": one.machine or None,
            "runs_of_other_machines": one.elsewhere,
            "metric": one.metric.name,
            "unit": one.metric.unit,
            "points": [
                {
                    "run": point.path,
                    "started": point.started.isoformat() if point.started else None,
                    "median": point.value.value,
                    "low": point.value.low,
                    "high": point.value.high,
                }
                for point in one.points
            ],
            "changes": [
                {"at": c.at, "ratio": c.ratio, "low": c.low, "high": c.high, "p": c.p} for c in one.changes
            ],
        }
        for one in found
    ]
