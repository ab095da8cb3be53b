"""Verdicts and findings as texts: one form for terminal, page and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from venturi.analysis.cells.summary import Cell, best
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Remedy, Verdict
from venturi.analysis.words import labels
from venturi.report.names import name_of

FLAG = "!"
"""Stands before the title of a verdict which says that the figure is no measure of the target."""
FLAG_NOTE = "! marks cells that measure the load generator or its schedule, not the target"


@dataclass
class Group:
    """Cells with the same verdict."""

    title: str
    kind: str
    flagged: bool
    cells: list[Cell] = field(default_factory=list)


def column(results: Results, cells: Sequence[Cell]) -> list[str]:
    """The title of each cell's verdict, flagged ones marked; empty strings where nothing is known of any."""
    found = [results.verdicts.get(c.name) for c in cells]
    if all(v is None or v.kind == "unknown" for v in found):
        return ["" for _ in cells]
    return ["" if v is None else title(v) for v in found]


def title(verdict: Verdict) -> str:
    mark = f"{FLAG} " if verdict.flagged else ""
    return mark + labels.plain(verdict.title, 40)


def groups(results: Results) -> list[Group]:
    """The verdicts of a run by title: flagged ones first, then the most frequent."""
    found: dict[tuple[str, str, bool], Group] = {}
    for cell in results.cells:
        verdict = results.verdicts.get(cell.name)
        if verdict is not None:
            key = (verdict.title, verdict.kind, verdict.flagged)
            found.setdefault(key, Group(*key)).cells.append(cell)
    return sorted(found.values(), key=lambda g: (not g.flagged, g.kind == "unknown", -len(g.cells)))


def spread(results: Results) -> str:
    """How many cells have which verdict: `cores in 12 cells, server: encode in 3`. Empty without cells."""
    parts = [f"{g.title} in {len(g.cells):,}" for g in groups(results)]
    if len(parts) > 6:
        parts = [*parts[:5], f"others in {sum(len(g.cells) for g in groups(results)[5:]):,}"]
    return f"verdicts: {', '.join(parts)} of {len(results.cells):,} cells" if parts else ""


def leading(results: Results) -> Cell | None:
    """The cell that stands for the run where only one is told of: the fastest."""
    return best(results.cells)


def next_steps(results: Results, most: int = 5) -> list[Remedy]:
    """What to try, from the findings, else from the fastest cell's verdict; each command once."""
    steps = [step for finding in results.findings for step in finding.remedies]
    top = leading(results)
    if not steps and top is not None and top.name in results.verdicts:
        steps = list(results.verdicts[top.name].remedies)
    distinct: dict[tuple[Any, ...], Remedy] = {}
    typed: set[tuple[Any, ...]] = set()
    for step in steps:
        if step.command and (step.before, step.command) in typed:
            continue
        typed.add((step.before, step.command))
        # `--duration 5s` for gets and `1s` for puts are one advice: the first, of the operation that leads.
        # So are similar runs of four settings.
        said = (step.before, step.command or step.text)
        known = (step.why, *sorted(step.changes)) if step.changes or step.again else said
        distinct.setdefault(known, step)
    return list(distinct.values())[:most]


def told(results: Results) -> list[tuple[str, list[str]]]:
    """Title and lines of each finding; where a sweep says nothing, the fastest cell's verdict."""
    found = [(labels.plain(f.title), list(map(labels.plain, f.lines))) for f in results.findings]
    top = leading(results)
    if not found and top is not None and (verdict := results.verdicts.get(top.name)) is not None:
        where = f" ({name_of(results, top)})" if len(results.cells) > 1 else ""
        found.append((f"{title(verdict)}{where}", list(map(labels.plain, verdict.lines))))
    return found
