"""Models and ceilings on the page: sentences of the fits, every measured limit with its spread."""

from __future__ import annotations

from venturi.analysis.cells.limits import limits
from venturi.analysis.results import Results
from venturi.common.units import percent
from venturi.report.page.markup import e
from venturi.report.text import models as fits

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
    # Memory, sockets, engine, codecs: each family together, as its rows are to be compared.
    families = list(dict.fromkeys(limit.family for limit in found))
    found = sorted(found, key=lambda limit: families.index(limit.family))
    cached = any(limit.cached for limit in found)
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
        taken = f'<td class="t">{"yes" if limit.cached else ""}</td>' if cached else ""
        rows.append(
            f'<tr><td class="t">{e(limit.title)}</td>{f"<td>{told}</td>" if several else ""}{cells}'
            f"<td>{len(limit.rates)}</td>{taken}</tr>"
        )
    heads = ["limit", *(["message<small>kB</small>"] if several else []), "median<small>MB/s</small>"]
    heads += ["interval<small>MB/s</small>", "spread", "repeats", *(["taken over"] if cached else [])]
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
    meanings: dict[str, list[str]] = {}
    for limit in found:
        own = meanings.setdefault(limit.family, [])
        meaning = limit.meaning
        if several and limit.fields.get("kind") == "tcp":
            meaning = f"{meaning.partition(', in messages')[0]}, in messages as large as the trials' batches"
        if meaning not in own:
            own.append(meaning)
    told = "".join(f"<dt>{e(family)}</dt><dd>{e('; '.join(own))}</dd>" for family, own in meanings.items())
    note = "Spread: the largest repeat less the smallest, over the median."
    if cached:
        note += " Taken over: from an earlier run of the same machine, boot and configuration."
    return f'{out}<p class="quiet">{note}</p><dl>{told}</dl>'
