"""A run as one HTML file: opens without a network, in light and dark, on a phone and on paper.

Everything that a run says (names, labels, errors) is untrusted: a server chose part of it. Templates escape
it, figures travel in letters of which no tag can be made, and the page's own content security policy allows
no connection.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from markupsafe import Markup

from venturi.analysis.cells.figures import get
from venturi.analysis.cells.summary import Cell, best, by_operation, speed, varying
from venturi.analysis.results import Results, load
from venturi.analysis.words import labels
from venturi.common.units import pick_unit
from venturi.report import draw
from venturi.report.figures import palette
from venturi.report.figures import registry as figures
from venturi.report.figures.figure import Figure
from venturi.report.marks import marked
from venturi.report.page import cells as page_cells
from venturi.report.page import environment as page_environment
from venturi.report.page import hosts as page_hosts
from venturi.report.page import models as page_models
from venturi.report.page import reason as page_reason
from venturi.report.page.markup import render
from venturi.report.page.packed import Packer
from venturi.report.text import cell as cell_text
from venturi.report.text import method, proofs, published, summary, versions

IN_VIEW = ("timeline",)
"""Figures that the view of one cell draws for the cell that is chosen."""
SCRIPTS = ("page.js", "page_tables.js", "page_pipeline.js", "page_cell.js")
_HELD = {"unknown": "what holds it back is", "schedule": "by its schedule:"}
"""How a verdict's title follows in a card; most are the name of what is at its limit."""
GRAVE = ("failed", "unverified", "steal")
DASHES = {"dash": "5 3", "dot": "1.5 2.5"}


def write(
    run: str | os.PathLike[str] | Results, path: str | os.PathLike[str], reference: str | None = None
) -> Path:
    """Writes the report of a run, a directory or what was read of it, to `path` and returns it.

    Raises `StoreError` where there is no run, `VenturiError` for an unknown reference, `OSError` where `path`
    cannot be written. The file is replaced as a whole, never left half written.
    """
    out = Path(path)
    partial = out.with_name(out.name + ".tmp")
    try:
        results = run if isinstance(run, Results) else load(run)
        partial.write_text(page(results, reference), encoding="utf-8")
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return out


def page(results: Results, reference: str | None = None) -> str:
    """The whole file."""
    drawn = figures.build(results, reference or results.default_reference, without=IN_VIEW)
    numbers = {cell.name: i for i, cell in enumerate(results.cells)}
    timelines = page_cells.timelines(results, numbers)
    packer = Packer([*([draw.script()] if drawn or timelines else []), *map(_resource, SCRIPTS)])
    sections = [
        ("reason", "The reason", page_reason.section(results, numbers)),
        ("summary", "Cells", page_cells.tables(results, numbers)),
        ("places", "Places", page_hosts.places(results)),
        ("hosts", "Hosts", page_hosts.loaders(results)),
        ("cell", "One cell", page_cells.view(results, page_cells.listed(results, list(timelines)))),
        ("models", "Models", page_models.models(results)),
        ("figures", "Figures", _figures(drawn)),
        ("ceilings", "Ceilings", page_models.ceilings(results)),
        ("failed", "Failed trials", render("failed", rows=summary.failure_rows(results))),
        ("warnings", "Warnings", render("warnings", results=results, grave=GRAVE)),
        ("environment", "Environment", page_environment.section(results)),
        ("scenario", "Scenario", render("scenario", results=results)),
        ("method", "Method", render("method", notes=method.NOTES)),
        ("reproduce", "Reproduce", _reproduce(results)),
    ]
    documents = {
        "figures": [{"panels": [draw.panel(f, p) for p in f.panels]} for f in drawn],
        "config": draw.config(),
    }
    cells = {
        "cells": page_cells.documents(results),
        "tables": page_cells.long_tables(results, numbers),
        "timelines": timelines,
        "colours": page_cells.colours(),
    }
    whole = render(
        "page",
        results=results,
        styles=Markup(_variables()) + _resource("page.css"),
        top=_top(results, numbers, reference),
        sections=[section for section in sections if section[2]],
        packed=packer.finish({"figure-documents": documents, "cell-documents": cells}),
        unpack=_resource("unpack.js"),
    )
    return f"{whole}\n"


@cache
def _resource(name: str, package: str = __package__) -> Markup:
    return Markup(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def _variables() -> str:
    def block(theme: dict[str, str], ground: str, scheme: str) -> str:
        return "".join(f"--{k}:{v};" for k, v in theme.items()) + f"--ground:{ground};color-scheme:{scheme};"

    light, dark = block(palette.LIGHT, "#f6f7f9", "light"), block(palette.DARK, "#0e1216", "dark")
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f":root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}@media print{{:root{{{light}}}}}"
    )


def _top(results: Results, numbers: dict[str, int], reference: str | None) -> Markup:
    facts = (summary.counts(results), summary.common(results), summary.verified(results))
    return render(
        "top",
        results=results,
        question=summary.question(results),
        numbers=numbers,
        cards=[_card(results, *group) for group in by_operation(results.cells).items()],
        facts="; ".join(filter(None, facts)),
        compared=versions.headline(results),
        published=published.beside(results, reference),
        proved=proofs.headline(results.environment),
        mark=marked(results.environment),
        failed=sum(c.failed for c in results.cells),
    )


def _card(results: Results, operation: str, cells: list[Cell]) -> dict[str, Any]:
    top = best(cells)
    if top is None:
        return {"operation": operation, "figure": ""}
    fastest = speed(top, cells)
    unit = pick_unit(fastest.unit, [fastest.value])
    lowest = next((x.rate for x in cell_text.limits(top) if x.binding), top.ceiling)
    limit_unit = cell_text.unit_of(top, lowest)
    verdict = results.verdicts.get(top.name)
    return {
        "operation": operation,
        "cell": top,
        "figure": fastest.number(unit),
        "unit": unit,
        "where": labels.label(top, varying(cells) or (["streams"] if top.parameters.get("streams") else [])),
        "margin": f"{summary.coverage([top])} {fastest.margin(unit)} {unit}"
        if fastest.has_margin
        else "one trial, no margin",
        # Of what is so far away a bar and a percentage say nothing.
        "share": top.share.value if (top.share.value or 0.0) >= 0.01 else None,
        "about": "which was passed, and is no limit" if top.reference else "the lowest limit measured",
        "limit": f"{top.of_limit} ({lowest.number(limit_unit)} {limit_unit})",
        "verdict": verdict,
        "held": _HELD.get(verdict.kind, "held back by") if verdict else "",
    }


def _figures(drawn: Sequence[Figure]) -> Markup:
    def has_legend(figure: Figure) -> bool:
        return len(figure.names) > 1 and {s.mark for p in figure.panels for s in p.series} != {"box"}

    return render(
        "figures",
        drawn=drawn,
        has_legend=has_legend,
        dashes=DASHES,
        height=draw.height,
        series_name=draw.text,
    )


def _reproduce(results: Results) -> Markup:
    typed = results.environment.get("command")
    software = get(results.environment, "client", "software", "venturi")
    commit = get(results.environment, "client", "software", "commit")
    made = (f"Venturi {software}" if software else "", f"commit {commit}" if commit else "")
    return render(
        "reproduce",
        results=results,
        typed=shlex.join(map(str, typed)) if isinstance(typed, list) and typed else "",
        made=", ".join(filter(None, made)),
    )
