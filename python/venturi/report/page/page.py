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

from venturi.analysis import wording
from venturi.analysis.cells import machines
from venturi.analysis.cells.figures import get
from venturi.analysis.cells.limits import limits, raw_tcp_meaning
from venturi.analysis.cells.summary import Cell, best, by_operation, speed, varying
from venturi.analysis.results import Results, load
from venturi.common.units import MISSING, percent, pick_unit, plural
from venturi.report import cell as cell_text
from venturi.report import draw, hosts, proofs, reason, run, summary
from venturi.report import limits as limit_text
from venturi.report.document import Block, Section, Table, Terms, Text
from venturi.report.figures import figure
from venturi.report.figures import registry as figures
from venturi.report.figures.figure import Figure
from venturi.report.page import cells as page_cells
from venturi.report.page.cells import MOST_ROWS, Packer, render
from venturi.report.summary import marked

MOST_LIMITS = 60
"""Rows of the table of limits that are in sight; the others are folded."""
OPEN_FINDINGS, MOST_FINDINGS = 4, 40
"""Findings in sight, and in the page at all."""
MOST_CELLS = 12
"""Cells written out under a verdict; all others open from the table."""
IN_VIEW = ("timeline",)
"""Figures that the view of one cell draws for the cell that is chosen."""
SCRIPTS = ("page.js", "page_tables.js", "page_pipeline.js", "page_cell.js")
_HELD = {"unknown": "what holds it back is", "schedule": "by its schedule:"}
"""How a verdict's title follows in a card; most are the name of what is at its limit."""
GRAVE = ("failed", "unverified", "steal")
DASHES = {"dash": "5 3", "dot": "1.5 2.5"}


def write(
    found: str | os.PathLike[str] | Results, path: str | os.PathLike[str], reference: str | None = None
) -> Path:
    """Writes the report of a run, a directory or what was read of it, to `path` and returns it.

    Raises `StoreError` where there is no run, `VenturiError` for an unknown reference, `OSError` where `path`
    cannot be written. The file is replaced as a whole, never left half written.
    """
    out = Path(path)
    partial = out.with_name(out.name + ".tmp")
    try:
        results = found if isinstance(found, Results) else load(found)
        partial.write_text(page(results, reference), encoding="utf-8")
        partial.replace(out)
    finally:
        partial.unlink(missing_ok=True)
    return out


def page(results: Results, reference: str | None = None) -> str:
    """The whole file."""
    drawn = figures.build(results, reference or results.default_reference, without=IN_VIEW)
    numbers = {cell.name: i for i, cell in enumerate(results.cells)}
    shown, timelines = page_cells.by_table(results), page_cells.timelines(results, numbers)
    packer = Packer([*([draw.script()] if drawn or timelines else []), *map(_resource, SCRIPTS)])
    sections = [
        ("reason", "The reason", _reason(results, numbers)),
        ("summary", "Cells", page_cells.tables(shown, numbers)),
        ("places", "Places", _blocks(hosts.place_sections(results))),
        ("hosts", "Hosts", _blocks(hosts.host_sections(results, most=MOST_ROWS))),
        ("cell", "One cell", page_cells.view(results, page_cells.listed(results, list(timelines)))),
        ("models", "Models", _blocks(reason.models(results))),
        ("figures", "Figures", _figures(drawn)),
        ("ceilings", "Ceilings", _ceilings(results)),
        ("failed", "Failed trials", _blocks(run.failed(results))),
        ("warnings", "Warnings", render("warnings", results=results, grave=GRAVE)),
        ("environment", "Environment", _environment(results)),
        ("scenario", "Scenario", render("scenario", results=results)),
        ("method", "Method", _blocks([Terms(run.METHOD)])),
        ("reproduce", "Reproduce", _reproduce(results)),
    ]
    documents = {
        "figures": [{"panels": [draw.panel(f, p) for p in f.panels]} for f in drawn],
        "config": draw.config(),
    }
    cells = {
        "cells": [page_cells.document(results, cell) for cell in results.cells],
        "tables": page_cells.long_tables(shown, numbers),
        "timelines": timelines,
        "colours": page_cells.colours(),
    }
    html = render(
        "page",
        results=results,
        styles=Markup(_variables()) + _resource("page.css"),
        top=_top(results, numbers, reference),
        sections=[section for section in sections if section[2]],
        packed=packer.finish({"figure-documents": documents, "cell-documents": cells}),
        unpack=_resource("unpack.js"),
    )
    return f"{html}\n"


@cache
def _resource(name: str, package: str = __package__) -> Markup:
    return Markup(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def _variables() -> str:
    def block(theme: dict[str, str], ground: str, scheme: str) -> str:
        return "".join(f"--{k}:{v};" for k, v in theme.items()) + f"--ground:{ground};color-scheme:{scheme};"

    light, dark = block(figure.LIGHT, "#f6f7f9", "light"), block(figure.DARK, "#0e1216", "dark")
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f":root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}@media print{{:root{{{light}}}}}"
    )


def _top(results: Results, numbers: dict[str, int], reference: str | None) -> Markup:
    return render(
        "top",
        results=results,
        question=run.question(results),
        numbers=numbers,
        cards=[_card(results, *group) for group in by_operation(results.cells).items()],
        facts=run.facts(results),
        compared=hosts.headline(results),
        published=_blocks(reason.published(results, reference)),
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
    margin = f"{summary.coverage([top])} {fastest.margin(unit)} {unit}"
    return {
        "operation": operation,
        "cell": top,
        "figure": fastest.number(unit),
        "unit": unit,
        "where": wording.label(top, varying(cells) or (["streams"] if top.parameters.get("streams") else [])),
        "margin": margin if fastest.has_margin else "one trial, no margin",
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

    helpers = {"has_legend": has_legend, "height": draw.height, "series_name": draw.text}
    return render("figures", drawn=drawn, dashes=DASHES, **helpers)


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


def _reason(results: Results, numbers: dict[str, int]) -> Markup:
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
        instrument=run.instrument(results),
    )


def _ceilings(results: Results) -> Markup:
    """Every probed limit: median, interval, spread of its repeats. Empty where none was measured."""
    found = list(limits(results.probes))
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
    found.sort(key=lambda limit: families.index(limit.family))
    blocks: list[Block] = [Table(limit_text.every_column(found[:MOST_LIMITS]))]
    if more := found[MOST_LIMITS:]:
        folded = Table(limit_text.every_column(more))
        blocks.append(Section(f"{len(more):,} more limits", [folded], folded=True))
    note = "Spread: the largest repeat less the smallest, over the median."
    if any(limit.cached for limit in found):
        note += " Taken over: from an earlier run of the same machine, boot and configuration."
    terms = Terms([(family, "; ".join(own)) for family, own in meanings.items()])
    return _blocks([*blocks, Text(note, "quiet"), terms]) if found else Markup()


_ELSEWHERE = (
    *("client", "server", "servers", "server_hosts", "imported"),
    *("format", "run", "started_unix_ns", "command", "proof"),
)
"""What is in the table of both ends, or elsewhere on the page."""


def _environment(results: Results) -> Markup:
    environment = results.environment
    ends = {end: _flat(found) for end, found in machines.environment_ends(environment).items()}
    described = {end for end, found in ends.items() if found}
    imported = environment.get("imported")
    rows = []
    for key in dict.fromkeys(key for found in ends.values() for key in found):
        differs = len({ends[end].get(key) for end in described}) > 1
        rows.append((key, [found.get(key, MISSING) for found in ends.values()], differs))
    return render(
        "environment",
        results=results,
        imported=[e for e in imported if isinstance(e, dict)] if isinstance(imported, list) else [],
        ends=list(ends),
        rows=rows,
        alone=described <= {"client"} and not results.imported,
        rest=_flat({k: v for k, v in environment.items() if k not in _ELSEWHERE}),
        missing=MISSING,
    )


def _flat(found: Any, prefix: str = "") -> dict[str, str]:
    """Nested settings as dotted names; lists in one line, bytes and shares readable, what is not there left
    out."""
    out: dict[str, str] = {}
    if not isinstance(found, dict):
        return out
    for key, item in found.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict):
            out |= _flat(item, name + ".")
        elif isinstance(item, list):
            texts = (
                ", ".join(f"{k} {v}" for k, v in x.items()) if isinstance(x, dict) else str(x) for x in item
            )
            out[name] = "; ".join(texts)
        elif item is not None:
            out[name] = _readable(name, item)
    return out


def _readable(name: str, item: Any) -> str:
    if isinstance(item, bool):
        return "yes" if item else "no"
    if isinstance(item, int) and name.startswith("memory."):
        return f"{item / 2**30:,.1f} GiB"
    if isinstance(item, float) and "share" in name:
        return percent(item, 2)
    if isinstance(item, int) and name.endswith("_khz"):
        return f"{item / 1e6:,.2f} GHz"
    return f"{item:,}" if isinstance(item, int) and abs(item) >= 10_000 else str(item)


def fragment(results: Results) -> str:
    """A run for notebooks: headline and tables, no script, colours of the notebook."""
    return _blocks(run.document(results, brief=True).blocks)


def _blocks(found: Sequence[Block]) -> Markup:
    return render("document", found=found)
