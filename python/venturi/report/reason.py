"""Why a run is as fast as it is: findings and verdicts, published results beside it, models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from venturi.analysis import wording
from venturi.analysis.cells.figures import grouped
from venturi.analysis.cells.summary import Cell, best, by_operation
from venturi.analysis.models import fit_words
from venturi.analysis.models.batch_cost import BatchCost
from venturi.analysis.models.fits import AxisFit, Fits, SizeFit
from venturi.analysis.results import Results, example
from venturi.analysis.verdict.types import Remedy, Verdict
from venturi.common.units import count, plural
from venturi.report.document import Block, Bullets, Item, Section, Text
from venturi.report.figures.models import MOST_PANELS, MOST_SIZES, telling_sizes
from venturi.report.summary import fastest, name_of
from venturi.store import reference

MOST_FINDINGS = 6
FLAG = "!"
"""Stands before the title of a verdict which says that the figure is no measure of the target."""
FLAG_NOTE = "! marks cells that measure the load generator or its schedule, not the target"


@dataclass
class Group:
    """Cells with the same verdict."""

    title: str
    kind: str
    flagged: bool
    cells: list[Cell]


def column(results: Results, cells: Sequence[Cell]) -> list[str]:
    """The title of each cell's verdict, flagged ones marked; empty strings where nothing is known of any."""
    found = [results.verdicts.get(c.name) for c in cells]
    if all(v is None or v.kind == "unknown" for v in found):
        return ["" for _ in cells]
    return ["" if v is None else title(v) for v in found]


def title(verdict: Verdict) -> str:
    mark = f"{FLAG} " if verdict.flagged else ""
    return mark + wording.plain(verdict.title, 40)


def groups(results: Results) -> list[Group]:
    """The verdicts of a run by title: flagged ones first, then the most frequent."""
    judged = ((cell, v) for cell in results.cells if (v := results.verdicts.get(cell.name)) is not None)
    alike = grouped(judged, lambda pair: (pair[1].title, pair[1].kind, pair[1].flagged))
    found = [Group(text, kind, flag, [c for c, _ in pairs]) for (text, kind, flag), pairs in alike.items()]
    return sorted(found, key=lambda g: (not g.flagged, g.kind == "unknown", -len(g.cells)))


def spread(results: Results) -> str:
    """How many cells have which verdict: `cores in 12 cells, server: encode in 3`. Empty without cells."""
    found = groups(results)
    parts = [f"{g.title} in {len(g.cells):,}" for g in found]
    if len(parts) > 6:
        parts = [*parts[:5], f"others in {sum(len(g.cells) for g in found[5:]):,}"]
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
        command = (step.before, step.command or step.text)
        key = (step.why, *sorted(step.changes)) if step.changes or step.again else command
        distinct.setdefault(key, step)
    return list(distinct.values())[:most]


def findings(results: Results) -> list[Item]:
    """Each finding with its lines; without any, the fastest cell's verdict."""
    found = [Item(f.title, f.lines) for f in results.findings]
    top = leading(results)
    if not found and top is not None and (verdict := results.verdicts.get(top.name)) is not None:
        where = f" ({name_of(results, top)})" if len(results.cells) > 1 else ""
        found.append(Item(f"{title(verdict)}{where}", verdict.lines))
    return found


def sections(results: Results, brief: bool) -> list[Section]:
    """Findings, or the verdict of the fastest cell; how many cells have which verdict; what to try."""
    found = findings(results)
    if not found:
        return []
    shown = found[:MOST_FINDINGS] if brief else found
    blocks: list[Block] = [Bullets(shown)]
    if len(shown) < len(found):
        text = f"{len(found) - len(shown)} more; venturi show --format markdown has all"
        blocks.append(Text(text, "quiet"))
    if len(results.cells) > 1 and (text := spread(results)):
        blocks.append(Bullets([text]))
    if any(v.flagged for v in results.verdicts.values()):
        blocks.append(Text(FLAG_NOTE, "bad"))
    if brief and (texts := brief_models(results)):
        blocks.append(Section("Models", [Bullets(texts)], "good"))
    if steps := next_steps(results, 5 if brief else 20):
        blocks.append(Section("Next", [Bullets([step.parts for step in steps])], "good"))
    if brief and len(results.cells) > 1:
        hint = f"one cell on one screen: venturi show RUN --cell best, or {example(results.cells)}"
        blocks.append(Text(hint, "quiet"))
    return [Section("The reason", blocks, "good")]


def published(results: Results, name: str | None = None) -> list[Section]:
    """The published sets that measured what this run did, each beside the same of this run.

    `name` of a set or a group; None: what the scenario names, which may be nothing.
    """
    chosen = name or results.default_reference
    if chosen is None or results.imported:
        return []
    groups = by_operation(results.cells)
    out = []
    for one in reference.sets(chosen):
        cells = [
            c
            for c in groups.get(one.operation, [])
            if one.place is None or c.parameters.get("place") in (None, one.place)
        ]
        if any(c.good for c in cells):
            quoted = Bullets([one.said or _figures(one)])
            own = Section("Here", [Bullets(_own_figures(results, cells, one.axis))])
            out.append(Section(f"Published: {one.operation}, {one.label}", [quoted, own]))
    return out


def _own_figures(results: Results, cells: list[Cell], axis: str | None) -> list[str]:
    names = {c.name for c in cells}
    found = [f for f in results.findings if axis is not None and f.axis == axis and names.issuperset(f.cells)]
    return [fastest(cells), *(text for f in found for text in (f.title, *f.lines[:1]))]


def _figures(one: reference.ReferenceSet) -> str:
    rows = sorted(one.rows(), key=lambda row: row["hosts"])
    return ", ".join(f"{count(r['rows_per_second'])} rows/s on {plural(r['hosts'], 'host')}" for r in rows)


def models(results: Results) -> list[Block]:
    """The models that are shown, each with its sentences; empty if there is nothing to fit."""
    found = results.fits
    sizes, links = telling_sizes(found), results.link_fits[:MOST_SIZES]
    out: list[Block] = [*fits(found.main[:MOST_PANELS], sizes, results.batch_costs[:MOST_SIZES])]
    out += [Section(fit_words.link_head(one), [Bullets(fit_words.link_sentences(one))]) for one in links]
    if passed := results.link_crossings[:MOST_SIZES]:
        out.append(Section(fit_words.CROSSINGS, [Bullets(list(map(fit_words.crossing_sentence, passed)))]))
    if texts := effects(found):
        out.append(Section("what matters", [Bullets(texts)]))
    if hidden := len(found.sizes) - len(sizes) if sizes else 0:
        out.append(Text(f"{hidden} more over sizes; venturi fit RUN --all has them", "quiet"))
    return out


def fits(
    scalings: Sequence[AxisFit],
    sizes: Sequence[SizeFit],
    costs: Sequence[BatchCost],
    held_out: Mapping[str, Sequence[str]] | None = None,
) -> list[Section]:
    """Laws over axes, lines over sizes, costs of batches. `held_out`: sentences on values that were left out,
    by the head of the fit."""
    left_out = held_out or {}
    heads = {fit_words.head(one): fit_words.axis_sentences(one) for one in scalings}
    out = [Section(head, [Bullets([*texts, *left_out.get(head, ())])]) for head, texts in heads.items()]
    if sizes:
        texts = [f"{fit_words.head(one)}: {fit_words.size_sentence(one)}" for one in sizes]
        out.append(Section(fit_words.SIZES, [Bullets(texts)]))
    if costs:
        names = (", ".join(filter(None, (one.operation, fit_words.setting(one.where)))) for one in costs)
        texts = [f"{name}: {one.sentence}" for name, one in zip(names, costs, strict=True)]
        out.append(Section(fit_words.COSTS, [Bullets(texts)]))
    return out


def effects(found: Fits) -> list[str]:
    """How much the parameters matter over which no law was fitted, or that do nothing beyond it."""
    fitted = {s.axis for s in found.scalings}
    return [
        fit_words.effect_sentence(e)
        for e in found.effects
        if e.parameter not in fitted or (e.above is not None and not e.above.significant)
    ]


def brief_models(results: Results) -> list[str]:
    """For the terminal, short: what the findings do not say of the axes."""
    costs = [one for one in results.batch_costs if one.fit is not None]
    out = [f"{one.operation}: {one.sentence}" for one in costs[:1]]
    fit = next((one for one in results.link_fits if one.law is not None), None)
    if fit is not None:
        out.append(f"{fit_words.link_head(fit)}: {'; '.join(fit_words.link_sentences(fit))}")
    return out
