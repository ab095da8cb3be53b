"""A run as a fragment of HTML for notebooks: headline and tables, no script, colours of the notebook."""

from __future__ import annotations

from venturi.analysis.cells.summary import by_operation
from venturi.analysis.proven import unproven
from venturi.analysis.results import Results
from venturi.report import summary
from venturi.report.page.markup import render


def fragment(results: Results) -> str:
    facts = (summary.counts(results), summary.common(results), summary.verified(results))
    return render(
        "notebook",
        results=results,
        headline=summary.headline(results),
        facts="; ".join(filter(None, facts)),
        tables={
            name: summary.columns(cells, unproven=unproven(results.environment))
            for name, cells in by_operation(results.cells).items()
        },
        failures=summary.failure_rows(results),
    )
