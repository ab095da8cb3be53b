"""The reason, at the top of the page: findings of the sweep, then the verdicts with their cells."""

from __future__ import annotations

from collections.abc import Sequence

from venturi.analysis.cells.summary import Cell
from venturi.analysis.results import Results
from venturi.analysis.verdict.evidence import Evidence
from venturi.common.units import plural
from venturi.report import names
from venturi.report.figures import palette
from venturi.report.page.markup import commands, e
from venturi.report.text import cell as cells_text
from venturi.report.text import reason, summary

OPEN_FINDINGS, MOST_FINDINGS = 4, 40
"""Findings in sight, and in the page at all."""
MOST_CELLS = 12
"""Cells written out under a verdict; all others open from the table."""


def section(results: Results, numbers: dict[str, int]) -> str:
    """Empty where nothing was judged."""
    groups = reason.groups(results)
    if not groups and not results.findings:
        return ""
    articles = [
        f'<article class="finding"><h3>{e(finding.title)}</h3><p>{_stop(finding.sentence)}</p>'
        f"{_evidence(finding.evidence)}{steps(finding.next)}</article>"
        for finding in results.findings[:MOST_FINDINGS]
    ]
    out = articles[:OPEN_FINDINGS]
    if rest := articles[OPEN_FINDINGS:]:
        told = plural(len(rest), "more finding")
        if len(results.findings) > MOST_FINDINGS:
            told += f" of {len(results.findings) - OPEN_FINDINGS}; venturi show --format json has all"
        out.append(f'<details class="more"><summary>{told}</summary>{"".join(rest)}</details>')
    top = reason.leading(results)
    if not results.findings and top is not None and (verdict := results.verdicts.get(top.name)):
        out.append(
            f'<article class="finding"><h3>{e(reason.title(verdict))}: {e(names.name_of(results, top))}</h3>'
            f"<p>{_stop(verdict.sentence)}</p>{steps(verdict.next)}</article>"
        )
    if groups and out:
        out.append("<h3>What held back each cell</h3>")
    if any(g.flagged for g in groups):
        out.append(f'<p class="note bad">{e(reason.FLAG_NOTE)}.</p>')
    out += [_group(results, group, numbers, len(results.cells)) for group in groups]
    if told := summary.instrument(results):
        out.append(f'<p class="quiet cost">{e(told[:1].upper() + told[1:])}.</p>')
    return "".join(out)


def _group(results: Results, group: reason.Group, numbers: dict[str, int], total: int) -> str:
    """Cells of one verdict, folded: name, sentence, confidence."""
    role = palette.verdict_colour(group.kind).removeprefix("$")
    width = 100 * len(group.cells) / total
    fastest = sorted(group.cells, key=lambda c: -(c.main.value or 0.0))
    items = []
    for cell in fastest[:MOST_CELLS]:
        verdict = results.verdicts[cell.name]
        items.append(
            f'<li><a href="#cell={e(cell.name)}" data-cell="{numbers[cell.name]}">'
            f"{e(names.name_of(results, cell))}</a> <span>{e(_speed(cell))}</span> "
            f'<span class="sure">{e(verdict.confidence)} confidence</span><p>{_stop(verdict.sentence)}</p>'
            f"{_evidence(verdict.evidence)}</li>"
        )
    if len(group.cells) > MOST_CELLS:
        items.append(
            f'<li class="quiet">and {len(group.cells) - MOST_CELLS:,} more: '
            f'<a href="#summary" data-filter="{e(group.title)}">show them in the table</a></li>'
        )
    mark = '<b class="flag" title="no measure of the target">!</b> ' if group.flagged else ""
    return (
        f'<details class="verdict"><summary><i class="dot" style="background:var(--{role})"></i>'
        f'<span class="title">{mark}{e(group.title)}</span>'
        f'<span class="bar2"><i style="width:{width:.1f}%;background:var(--{role})"></i></span>'
        f'<span class="n">{len(group.cells):,} of {total:,} cells</span></summary>'
        f"<ul>{''.join(items)}</ul></details>"
    )


def _speed(cell: Cell) -> str:
    return cell.main.text()


def _evidence(found: Sequence[Evidence]) -> str:
    if not found:
        return ""
    items = "".join(f"<li>{e(cells_text.evidence_text(item))}</li>" for item in found)
    return f"<details><summary>evidence</summary><ul>{items}</ul></details>"


def steps(found: Sequence[str]) -> str:
    """What to try next, commands set as code."""
    if not found:
        return ""
    return '<ul class="next">' + "".join(f"<li>{commands(step)}</li>" for step in found) + "</ul>"


def _stop(sentence: str) -> str:
    """A sentence as HTML, as it begins and ends a paragraph; no line breaks before a percent sign."""
    whole = sentence if sentence.endswith((".", "!", "?")) else sentence + "."
    return e(whole[:1].upper() + whole[1:]).replace(" %", "&nbsp;%")
