"""A run as one HTML file: opens without a network, in light and dark, on a phone and on paper.

Everything that a run says (names, labels, errors) is untrusted: a server chose part of it. Texts go through
`_e`, figures travel as JSON in which no `<` survives, and the page's own content security policy allows no
connection.
"""

from __future__ import annotations

import os
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from venturi.analysis.cells import servers
from venturi.analysis.cells.ceilings import share
from venturi.analysis.cells.summary import Cell, best, by_operation, get, speed, varying
from venturi.analysis.results import Results, load
from venturi.analysis.words import labels
from venturi.common.units import MISSING, percent, pick_unit, plural
from venturi.report.draw import plotly_figures, plotly_traces
from venturi.report.figures import palette
from venturi.report.figures import registry as figures
from venturi.report.figures.figure import Figure, Series
from venturi.report.page import cells as page_cells
from venturi.report.page import hosts as page_hosts
from venturi.report.page import models as page_models
from venturi.report.page import reason as page_reason
from venturi.report.page.markup import commands, script_json
from venturi.report.page.markup import e as _e
from venturi.report.text import cell as cell_text
from venturi.report.text import method, reason, summary

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
IN_VIEW = ("timeline", "pipeline", "flows")
"""Figures of one cell: the view of one cell draws them for the cell that is chosen, and "Hosts" the flows."""
SCRIPTS = ("page.js", "page_tables.js", "page_pipeline.js", "page_cell.js")
_HELD = {"unknown": "what holds it back is", "schedule": "by its schedule:"}
"""How a verdict's title follows in a card; most are the name of what is at its limit."""
GRAVE = ("failed", "unverified", "steal")
TUBE = (
    '<svg viewBox="0 0 34 16" aria-hidden="true"><path d="M1 1.5h8c5 0 5 4 8 4s3-4 8-4h8M1 14.5h8c5 0 '
    '5-4 8-4s3 4 8 4h8"'
    ' fill="none" stroke="currentColor" stroke-width="1.8"/><path d="M4 8h25" stroke="var(--c0)" '
    'stroke-width="2"/></svg>'
)


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
    sections = [
        ("reason", "The reason", page_reason.section(results, numbers)),
        ("summary", "Cells", page_cells.tables(results, numbers)),
        ("places", "Places", page_hosts.places(results)),
        ("hosts", "Hosts", page_hosts.loaders(results)),
        ("cell", "One cell", page_cells.view(results, page_cells.listed(results, list(timelines)))),
        ("models", "Models", page_models.models(results)),
        ("figures", "Figures", "".join(_figure(i, f) for i, f in enumerate(drawn))),
        ("ceilings", "Ceilings", page_models.ceilings(results)),
        ("failed", "Failed trials", _failed(results)),
        ("warnings", "Warnings", _warnings(results)),
        ("environment", "Environment", _environment(results)),
        ("scenario", "Scenario", f"<pre>{_e(results.scenario)}</pre>" if results.scenario else ""),
        ("method", "Method", method.as_html()),
        ("reproduce", "Reproduce", _reproduce(results)),
    ]
    kept = [(key, title, body) for key, title, body in sections if body]
    nav = "".join(f'<a href="#{key}">{title}</a>' for key, title, _ in kept)
    body = "".join(f'<section id="{key}"><h2>{title}</h2>{text}</section>' for key, title, text in kept)
    documents = [
        {"name": f.name, "panels": [plotly_figures.panel_document(f, p) for p in f.panels]} for f in drawn
    ]
    cells = {
        "cells": page_cells.documents(results),
        "tables": page_cells.long_tables(results, numbers),
        "timelines": timelines,
        "colours": page_cells.colours(),
    }
    plotly = _plotly() if drawn or timelines else "var Plotly = {react() {}};"
    scripts = "".join(_resource(name) for name in SCRIPTS)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark"><meta name="generator" content="venturi">'
        f"<title>{_e(results.name)} · "
        f"Venturi</title><style>{_variables()}{_resource('page.css')}</style></head><body>"
        f'<header class="bar"><div><span class="mark">{TUBE}Venturi</span><nav>{nav}</nav>'
        '<button id="theme" type="button" aria-label="switch between light and '
        'dark">Dark</button></div></header>'
        f"<main>{_top(results)}{body}</main>"
        f"<footer>{_e(_made(results))}</footer>"
        '<noscript><p class="note">Figures, and the rows of long tables, need JavaScript.</p></noscript>'
        f'<script type="application/json" id="figure-documents">{script_json(documents)}</script>'
        f'<script type="application/json" id="cell-documents">{script_json(cells)}</script>'
        f"<script>{plotly}</script><script>{scripts}</script></body></html>\n"
    )


def _resource(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _plotly() -> str:
    """The one bundle that plotly's wheel ships, 4.8 MB. Read as a file: importing plotly would take a
    second."""
    return resources.files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")


def _variables() -> str:
    def block(theme: dict[str, str], ground: str, scheme: str) -> str:
        return "".join(f"--{k}:{v};" for k, v in theme.items()) + f"--ground:{ground};color-scheme:{scheme};"

    light, dark = block(palette.LIGHT, "#f6f7f9", "light"), block(palette.DARK, "#0e1216", "dark")
    return (
        f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f":root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}@media print{{:root{{{light}}}}}"
    )


def _top(results: Results) -> str:
    started = results.started
    when = started.strftime(", %d %B %Y, %H:%M UTC") if started else ""
    title = f"<h1>Run <b>{_e(results.name)}</b>{when}</h1>"
    cards = "".join(
        _card(results, operation, cells) for operation, cells in by_operation(results.cells).items()
    )
    if not cards:
        cards = (
            '<div class="card"><div class="big">No trials</div>'
            '<div class="sub">This run holds none.</div></div>'
        )
    facts = "; ".join(
        f for f in (summary.counts(results), summary.common(results), summary.verified(results)) if f
    )
    chips = ""
    failed = sum(c.failed for c in results.cells)
    if failed:
        chips += f'<a class="chip bad" href="#failed">{failed} failed</a>'
    if results.advice:
        n = len(results.advice)
        chips += f'<a class="chip" href="#warnings">{plural(n, "warning")}</a>'
    return (
        f'{title}<div class="heads">{cards}</div><p class="quiet facts">{_e(facts)}</p>'
        f'<div class="chips">{chips}</div>'
    )


def _card(results: Results, operation: str, cells: list[Cell]) -> str:
    top = best(cells)
    if top is None:
        return (
            f'<div class="card"><div class="op">{_e(operation)}</div><div class="big">–</div>'
            '<div class="sub">no trial succeeded</div></div>'
        )
    where = labels.label(top, varying(cells) or (["streams"] if top.parameters.get("streams") else []))
    fastest = speed(top, cells)
    unit = pick_unit(fastest.unit, [fastest.value])
    margin = (
        f"{summary.coverage([top])} interval {fastest.margin(unit)} {unit}"
        if fastest.has_margin
        else "one trial, no margin"
    )
    reached = ""
    if top.share.value is not None:
        width = min(100.0, 100 * top.share.value)
        unit_of_limit = cell_text.unit_of(top)
        lowest = next((x.rate for x in cell_text.limits(top) if x.binding), top.ceiling)
        limit = f"{lowest.number(unit_of_limit)} {unit_of_limit}"
        reached = (
            f'<div class="share"><i style="width:{width:.1f}%"></i></div><div '
            f'class="sub">{percent(top.share.value)} {_e(share(top.binding))}'
            f" ({limit}), the lowest limit measured</div>"
        )
    held = ""
    if (verdict := results.verdicts.get(top.name)) is not None:
        role = palette.verdict_colour(verdict.kind).removeprefix("$")
        held = (
            f'<div class="held"><i class="dot" style="background:var(--{role})"></i>'
            f'<a href="#cell={_e(top.name)}" data-cell="{results.cells.index(top)}">'
            f"{_e(_HELD.get(verdict.kind, 'held back by'))} <b>{_e(reason.title(verdict))}</b></a>"
            f'<span class="sure">{_e(verdict.confidence)} confidence</span></div>'
        )
    return (
        f'<div class="card"><div class="op">{_e(operation)}</div><div '
        f'class="big">{fastest.number(unit)}'
        f'<small>{unit}</small></div><div class="sub">{_e(where)}; {margin}</div>{reached}{held}</div>'
    )


def _figure(index: int, figure: Figure) -> str:
    kinds = {s.mark for p in figure.panels for s in p.series}
    legend = ""
    names = {name: series for name, series in figure.names.items() if not series.named_at}
    if kinds != {"box"} and len(figure.names) > 1:
        items = "".join(_legend_item(index, name, series) for name, series in names.items())
        legend = f'<ul class="legend">{items}</ul>'
    panels = "".join(
        f'<div class="panel"><h4>{_e(panel.title)}</h4><div class="plot" role="img" data-figure="{index}" '
        f'data-panel="{i}" style="min-height:{plotly_figures.height(figure, panel)}px" '
        f'aria-label="{_e(figure.title)}; {_e(panel.title)}"></div></div>'
        for i, panel in enumerate(figure.panels)
    )
    columns = max(1, min(figure.columns, len(figure.panels)))
    on_paper = min(2, columns)
    return (
        f'<figure id="figure-{_e(figure.name)}"><h3>{_e(figure.title)}</h3>{legend}'
        f'<div class="panels" '
        f'style="--columns:{columns};--print-columns:{on_paper}">{panels}</div>'
        f"<figcaption>{_e(figure.caption)}</figcaption></figure>"
    )


def _legend_item(index: int, name: str, series: Series) -> str:
    role, _, opacity = series.colour.removeprefix("$").partition("/")
    dash = {"dash": ' stroke-dasharray="5 3"', "dot": ' stroke-dasharray="1.5 2.5"'}.get(series.dash, "")
    shape = (
        f'<rect width="14" height="10" x="3" rx="2" fill="var(--{role})"/>'
        if series.mark == "bar"
        else f'<circle cx="10" cy="5" r="4" fill="var(--{role})"/>'
        if series.mark == "points"
        else f'<path d="M0 5h20" stroke="var(--{role})" stroke-width="2.4"{dash} opacity="{opacity or 1}"/>'
    )
    # The script finds traces by the name as plotly has it.
    return (
        f'<li><button type="button" aria-pressed="true" data-figure="{index}" '
        f'data-name="{_e(plotly_traces.text(name))}">'
        f'<svg viewBox="0 0 20 10" aria-hidden="true">{shape}</svg>{_e(name)}</button></li>'
    )


def _failed(results: Results) -> str:
    rows = summary.failure_rows(results)
    if not rows:
        return ""
    body = "".join(
        f'<tr><td class="t wrap">{_e(cell)}</td><td class="t">{_e(which)}</td><td class="t '
        f'wrap">{_e(error)}</td></tr>'
        for cell, which, error in rows
    )
    return (
        '<div class="tablebox"><table><thead><tr><th class="t">cell</th><th class="t">trials</th><th '
        'class="t">error</th>'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _warnings(results: Results) -> str:
    return "".join(
        f"<div "
        f'class="note{" bad" if a.kind in GRAVE else ""}"><b>{_e(_upper(a.finding))}</b>: '
        f"{_e(a.cause)}. <span>{commands(a.next)}.</span></div>"
        for a in results.advice
    )


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _environment(results: Results) -> str:
    environment = results.environment
    ends = {end: _flat(found) for end, found in servers.ends(environment).items()}
    described = {end for end, found in ends.items() if found}
    known = {"client", "server", "servers", "server_hosts"}
    known |= {"format", "run", "started_unix_ns", "command", "imported"}
    rest = _flat({k: v for k, v in environment.items() if k not in known})
    out = _imported(environment.get("imported"))
    if described:
        rows = []
        for key in dict.fromkeys(key for found in ends.values() for key in found):
            texts = [found.get(key, MISSING) for found in ends.values()]
            differs = len({ends[end].get(key) for end in described}) > 1
            cells = "".join(f'<td class="t wrap">{_e(text)}</td>' for text in texts)
            rows.append(
                f'<tr class="{"differs" if differs else "same"}"><td class="t">{_e(key)}</td>{cells}</tr>'
            )
        heads = "".join(f'<th class="t">{_e(end)}</th>' for end in ends)
        out += (
            f'<div class="tablebox"><table><thead><tr><th class="t"></th>{heads}</tr></thead>'
            f"<tbody>{''.join(rows)}</tbody></table></div>"
        )
    if described <= {"client"} and not results.imported:
        said = "; ".join(results.peers) or "nothing answered"
        out += f'<p class="quiet">The server did not describe its host. What the trials met: {_e(said)}.</p>'
    if rest:
        out += f"<dl>{''.join(f'<dt>{_e(k)}</dt><dd>{_e(v)}</dd>' for k, v in rest.items())}</dl>"
    return out


def _imported(found: Any) -> str:
    """The files that an imported run was made from; empty for a run of Venturi's own."""
    entries = [e for e in found if isinstance(e, dict)] if isinstance(found, list) else []
    if not entries:
        return ""
    rows = "".join(
        "<tr>"
        + "".join(f'<td class="t wrap">{_e(e.get(k) or MISSING)}</td>' for k in ("from", "format", "source"))
        + f'<td class="t">{_e(str(e.get("sha256") or MISSING)[:16])}</td></tr>'
        for e in entries
    )
    return (
        "<p>Measured by another tool; Venturi has taken over its results.</p>"
        '<div class="tablebox"><table><thead><tr><th class="t">imported from</th><th class="t">format</th>'
        f'<th class="t">source</th><th class="t">SHA-256</th></tr></thead><tbody>{rows}</tbody></table></div>'
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
            out[name] = "; ".join(
                ", ".join(f"{k} {v}" for k, v in x.items()) if isinstance(x, dict) else str(x) for x in item
            )
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


def _reproduce(results: Results) -> str:
    out = (
        "<p>Save the scenario above as <code>scenario.toml</code>, or take the file of the run directory:</p>"
    )
    if not results.scenario:
        out = "<p>This run holds no scenario, so it cannot be repeated from here.</p>"
        if results.imported:
            out = "<p>Another tool measured this, so it cannot be repeated from here.</p>"
        return out
    command = f"venturi run {results.directory.path.name}/scenario.toml"
    typed = results.environment.get("command")
    typed = shlex.join(map(str, typed)) if isinstance(typed, list) and typed else None
    software = get(results.environment, "client", "software", "venturi")
    commit = get(results.environment, "client", "software", "commit")
    out += f"<pre>{_e(command)}</pre>"
    if typed:
        out += f"<p>It was started by:</p><pre>{_e(typed)}</pre>"
    made = ", ".join(
        filter(None, [f"Venturi {software}" if software else "", f"commit {commit}" if commit else ""])
    )
    if made:
        out += f'<p class="quiet">This run was made with {_e(made)}.</p>'
    return (
        out
        + '<p class="quiet">Its raw trials: <code>venturi sql RUN "select * from trials"</code>; its figures '
        "and tables: <code>venturi report RUN --format png|svg|csv|parquet|markdown</code>.</p>"
    )


def _made(results: Results) -> str:
    met = "; ".join(results.peers[:3])
    return (
        f"Venturi, run {results.name}"
        + (f", measured against {met}" if met else "")
        + ". This file is complete: it loads nothing."
    )
