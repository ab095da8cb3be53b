"""Models and ceilings on the page: sentences of the fits, every measured limit with its spread."""

from __future__ import annotations

from markupsafe import Markup

from venturi.analysis.cells.limits import limits, raw_tcp_meaning
from venturi.analysis.results import Results
from venturi.report import models as fits
from venturi.report.page.markup import render

MOST_LIMITS = 60
"""Rows of the table of limits that are in sight; the others are folded."""


def models(results: Results) -> Markup:
    """Laws over the axes, Hockney over sizes, what matters."""
    return render("models", found=fits.sections(results))


def ceilings(results: Results) -> Markup:
    """Every probed limit: median, interval, spread of its repeats. Empty where none was measured."""
    found = limits(results.probes)
    several = len({limit.fields.get("message_bytes") for limit in found} - {None}) > 1
    meanings: dict[str, list[str]] = {}
    for limit in found:
        own = meanings.setdefault(limit.family, [])
        meaning = limit.meaning
        if several and limit.fields.get("kind") == "tcp" and limit.fields.get("message_bytes"):
            meaning = raw_tcp_meaning("as large as the trials' batches")
        if meaning not in own:
            own.append(meaning)
    # Memory, sockets, engine, codecs: each family together, as its rows are to be compared.
    families = list(meanings)
    return render(
        "ceilings",
        found=sorted(found, key=lambda limit: families.index(limit.family)),
        most=MOST_LIMITS,
        several=several,
        cached=any(limit.cached for limit in found),
        meanings=meanings,
    )
