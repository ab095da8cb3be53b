"""Models and ceilings on the page: sentences of the fits, every measured limit with its spread."""

from __future__ import annotations

from venturi.analysis.limits import limits
from venturi.analysis.results import Results
from venturi.report import fits
from venturi.report.markup import e
from venturi.units import percent

MOST_LIMITS = 60
"""Rows of the table of limits that are in sight; the others are folded."""


def models(results: Results) -> str:
    """Laws over the axes, Hockney over sizes, what matters, predictions beside their measurements."""
    out = []
    for title, sentences in fits.sections(results):
        items = "".join(f"<li>{e(text)}</li>" for text in sentences)
        out.append(f'<article class="model"><h3>{e(title)}</h3><ul>{items}</ul></article>')
    return "".join(out)


def ceilings(results: Results) -> str:
    """Every probed limit: median, interval, spread of its repeats. Empty where none was measured."""
    found = limits(results.probes)
    if not found:
        return ""
    sizes = {limit.fields.get("message_bytes") for limit in found} - {None}
    several = len(sizes) > 1
    rows = []
    for limit in found:
        size = limit.fields.get("message_bytes")
        told = f"{size / 1e3:,.4g}" if several and isinstance(size, int | float) else ""
        rate = limit.quantity
        if rate.known:
            cells = f'<td class="main">{rate.number("MB/s")}</td><td>{rate.margin("MB/s")}</td>'
            cells += f"<td>{percent(limit.spread)}</td>"
        else:
            cells = f'<td class="t wrap" colspan="3">{e(limit.error or "not measured")}</td>'
        cached = "yes" if limit.fields.get("cached") else ""
        rows.append(
            f'<tr><td class="t">{e(limit.title)}</td>{f"<td>{told}</td>" if several else ""}{cells}'
            f'<td>{len(limit.rates)}</td><td class="t">{cached}</td></tr>'
        )
    heads = ["limit", *(["message<small>kB</small>"] if several else []), "median<small>MB/s</small>"]
    heads += ["interval<small>MB/s</small>", "spread", "repeats", "taken over"]
    left = ("limit", "taken over")
    head = "".join(f'<th{" class=t" if h in left else ""} scope="col">{h}</th>' for h in heads)

    def table(part: list[str]) -> str:
        return (
            f'<div class="tablebox"><table><thead><tr>{head}</tr></thead><tbody>{"".join(part)}</tbody>'
            "</table></div>"
        )

    out = table(rows[:MOST_LIMITS])
    if rest := rows[MOST_LIMITS:]:
        out += f"<details><summary>{len(rest):,} more limits</summary>{table(rest)}</details>"
    meanings = dict.fromkeys((limit.family, limit.meaning) for limit in found)
    told = "".join(f"<dt>{e(family)}</dt><dd>{e(meaning)}</dd>" for family, meaning in meanings)
    return (
        f'{out}<p class="quiet">Spread: the largest repeat less the smallest, over the median. Taken over: '
        f"from an earlier run of the same machine, boot and configuration.</p><dl>{told}</dl>"
    )
