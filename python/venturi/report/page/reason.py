"""The reason, at the top of the page: findings of the sweep, then the verdicts with their cells."""

from __future__ import annotations

from markupsafe import Markup

from venturi.analysis.results import Results
from venturi.common.units import plural
from venturi.report import reason, summary
from venturi.report.page.markup import render

OPEN_FINDINGS, MOST_FINDINGS = 4, 40
"""Findings in sight, and in the page at all."""
MOST_CELLS = 12
"""Cells written out under a verdict; all others open from the table."""


def section(results: Results, numbers: dict[str, int]) -> Markup:
    """Empty where nothing was judged."""
    groups = reason.groups(results)
    if not groups and not results.findings:
        return Markup()
    folded = results.findings[OPEN_FINDINGS:MOST_FINDINGS]
    words = plural(len(folded), "more finding")
    if len(results.findings) > MOST_FINDINGS:
        words += f" of {len(results.findings) - OPEN_FINDINGS}; venturi show --format json has all"
    top = reason.leading(results)
    return render(
        "reason",
        results=results,
        numbers=numbers,
        in_sight=OPEN_FINDINGS,
        folded=folded,
        folded_words=words,
        leading=None if results.findings or top is None or top.name not in results.verdicts else top,
        groups=groups,
        flag_note=reason.FLAG_NOTE,
        fastest=lambda cells: sorted(cells, key=lambda c: -(c.main.value or 0.0)),
        most_cells=MOST_CELLS,
        instrument=summary.instrument(results),
    )
