"""A run as Markdown: for an issue, a pull request, a wiki."""

from __future__ import annotations

from venturi.analysis.cells.summary import by_operation
from venturi.analysis.proven import unproven
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Remedy
from venturi.analysis.words import labels
from venturi.report import method, proofs, published, reason, several, summary, versions
from venturi.report import models as fits
from venturi.report.pipes import escape, table


def text(results: Results) -> str:
    """Headline, tables, failed trials, warnings and definitions."""
    out = [
        f"# Venturi: {escape(results.name)}",
        "",
        *(f"- **{escape(h)}**" for h in (*summary.headline(results), *versions.headline(results))),
        "",
    ]
    facts = [summary.counts(results), summary.common(results), summary.verified(results)]
    out += [escape("; ".join(f for f in facts if f)) + ".", ""]
    if told := proofs.headline(results.environment):
        out += [escape(f"{told[:1].upper()}{told[1:]}."), ""]
    out += _reason(results)
    for theirs in published.beside(results):
        out += [f"## Published: {escape(theirs.label)}", "", f"- {escape(theirs.said)}", ""]
        out += ["Here:", "", *(f"- {escape(text)}" for text in theirs.here), ""]
    for operation, cells in by_operation(results.cells).items():
        columns = summary.columns(cells, True, reason.column(results, cells), unproven(results.environment))
        out += [f"## {escape(operation)}", ""]
        out += table(
            [f"{c.head}, {c.unit}" if c.unit else c.head for c in columns],
            [[c.cells[i] for c in columns] for i in range(len(cells))],
            [c.text for c in columns],
        )
    for section in several.sections(results):
        out += [f"## {escape(section.title)}", ""]
        for one in section.tables:
            if one.caption:
                out += [f"### {escape(one.caption)}", ""]
            heads = [f"{c.head}, {c.unit}" if c.unit else c.head for c in one.columns]
            rows = [[c.cells[i] for c in one.columns] for i in range(one.rows)]
            out += table(heads, rows, [c.text for c in one.columns])
            out += [line for said in filter(None, one.sentences) for line in (f"- {escape(said)}.", "")]
        out += [f"{escape(section.note)}", ""]
    failures = summary.failure_rows(results)
    if failures:
        rows = [list(row) for row in failures]
        out += ["## Failed trials", "", *table(["cell", "trials", "error"], rows, [True] * 3)]
    if results.advice:
        out += ["## Warnings", "", *(f"- {escape(str(advice))}." for advice in results.advice), ""]
    for title, sentences in fits.sections(results):
        out += [f"## Model: {escape(title)}", "", *(f"- {escape(s)}" for s in sentences), ""]
    if cost := summary.instrument(results):
        out += [f"{escape(cost[:1].upper() + cost[1:])}.", ""]
    out += ["## Method", "", method.as_markdown(), ""]
    return "\n".join(out)


def _reason(results: Results) -> list[str]:
    """Findings, how many cells have which verdict, what to try."""
    found = reason.told(results)
    if not found:
        return []
    out = ["## The reason", ""]
    for title, lines in found:
        out += [f"- **{escape(title)}**", *(f"  - {escape(line)}" for line in lines)]
    if len(results.cells) > 1:
        out.append(f"- {escape(reason.spread(results))}.")
    if any(v.flagged for v in results.verdicts.values()):
        out.append(f"- **{escape(reason.FLAG_NOTE)}**.")
    steps = reason.next_steps(results, most=20)
    if steps:
        out += ["", "Next:", "", *(f"- {_step(step)}" for step in steps)]
    return [*out, ""]


def _step(step: Remedy) -> str:
    """A step, its commands as code, in which nothing is escaped."""
    told = ((labels.plain(text), is_command) for text, is_command in step.parts)
    return "".join(
        f"`{text}`" if is_command and "`" not in text else escape(text) for text, is_command in told
    )
