"""A run as a fragment of HTML for notebooks: headline and tables, no script, colours of the notebook."""

from __future__ import annotations

import html

from venturi.analysis.cells.summary import by_operation
from venturi.analysis.results import Results
from venturi.analysis.words import labels
from venturi.report.text import summary


def _e(text: str) -> str:
    return html.escape(labels.plain(text))


def fragment(results: Results) -> str:
    """Everything escaped: names and errors come from servers."""
    out = [f"<p><strong>{_e(line)}</strong></p>" for line in summary.headline(results)]
    facts = [summary.counts(results), summary.common(results), summary.verified(results)]
    out.append(f"<p>{_e('; '.join(f for f in facts if f))}</p>")
    for operation, cells in by_operation(results.cells).items():
        columns = summary.columns(cells)
        head = "".join(f"<th>{_e(c.head)}<br><small>{_e(c.unit)}</small></th>" for c in columns)
        rows = (
            f"<tr>{''.join(f'<td>{_e(c.cells[i])}</td>' for c in columns)}</tr>" for i in range(len(cells))
        )
        out.append(
            f"<table><caption>{_e(operation)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )
    failures = summary.failure_rows(results)
    if failures:
        items = "".join(f"<li>{_e(cell)}, {_e(which)}: {_e(error)}</li>" for cell, which, error in failures)
        out.append(f"<p>Failed trials</p><ul>{items}</ul>")
    if results.advice:
        out.append(f"<p>Warnings</p><ul>{''.join(f'<li>{_e(str(a))}</li>' for a in results.advice)}</ul>")
    return "<div>" + "".join(out) + "</div>"
