"""A comparison: its sentences and columns, for a terminal, a pull request, scripts and a CI server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any
from xml.etree import ElementTree

from venturi.analysis import wording
from venturi.analysis.cells.figures import grouped
from venturi.analysis.cells.machines import Fact, in_words
from venturi.analysis.cells.summary import Cell, varying
from venturi.analysis.compare.runs import Comparison, Row
from venturi.analysis.wording import nouns_of
from venturi.common.units import FACTORS, MISSING, Quantity, percent, pick_unit, plural
from venturi.report import terminal
from venturi.report.document import (
    Block,
    Bullets,
    Column,
    Document,
    Section,
    Style,
    Table,
    Terms,
    Text,
    fields,
    finite,
    text_columns,
)

# What XML 1.0 cannot hold, even escaped; a surrogate would not even encode.
_FORBIDDEN = "[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
MOST_UNMATCHED = 10
MOST_ASIDE = 5
MOST_IN_SIGHT = 20
_STYLES: dict[str, Style] = {
    "worse": "bad", "failed": "bad", "better": "good", "unknown": "quiet", "no-difference": "",
}  # fmt: skip


def name(found: Comparison, row: Row) -> str:
    """A cell by what tells it from the others of its side."""
    text = wording.label(row.base, found.varying)
    several = len(found.operations) > 1 and found.varying
    return f"{wording.plain(row.base.operation)}, {text}" if several else text


def _unit(found: Comparison) -> str | None:
    """One unit for both columns; None where cells have different ones, which is written in each then."""
    units = {r.metric.unit for r in found.rows}
    if len(units) > 1:
        return None
    values = [q.value for r in found.rows for q in (r.before, r.after)]
    return pick_unit(units.pop(), values)


def columns(found: Comparison, base: str = "base", run: str = "run") -> list[Column]:
    """A row per cell."""
    unit = _unit(found)

    def figures(head: str, quantities: Sequence[Quantity]) -> Column:
        if unit is not None:
            texts = [q.number(unit) if unit in FACTORS else MISSING for q in quantities]
            return Column(f"{head} {unit}", "", texts, 1)
        units = [pick_unit(q.unit, [q.value]) for q in quantities]
        texts = [
            f"{q.number(u)} {u}" if q.measured else MISSING for q, u in zip(quantities, units, strict=True)
        ]
        return Column(head, "", texts, 1)

    rows = found.rows
    adjusted = [row.difference.adjusted if row.difference else None for row in rows]
    words = [
        ("none seen" if row.verdict == "no-difference" else row.word)
        + ("!" if row.beyond or row.newly_failing else "")
        for row in rows
    ]
    return [
        Column("cell", "", [name(found, row) for row in rows], text=True, folds=True),
        figures(base, [row.before for row in rows]),
        figures(run, [row.after for row in rows]),
        Column("ratio", "", [row.ratio.number() for row in rows]),
        Column(f"{found.confidence * 100:g} %", "", [row.ratio.margin() for row in rows]),
        Column("p", "", [probability(p) for p in adjusted], 2),
        Column("verdict", "", words, text=True, styles=[_STYLES[row.verdict] for row in rows]),
    ]


def probability(p: float | None) -> str:
    """A p as one reads it; what is below 0.1 % is only said to be."""
    return MISSING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def summary(found: Comparison) -> list[str]:
    """What to know, in sentences; the first one counts the verdicts."""
    metric = found.metric
    parts = [
        f"{n} {word}"
        for verdict, word in (
            ("failed", "failed"),
            ("worse", metric.worse),
            ("better", metric.better),
            ("no-difference", "without a significant difference"),
            ("unknown", "cannot be judged"),
        )
        if (n := found.count(verdict)) or verdict in ("worse", "better")  # type: ignore[arg-type]
    ]
    out = [f"of {plural(len(found.rows), 'cell')} {', '.join(parts)}"]
    span = found.detectable
    if span is not None:
        middle, least, most = (percent(s, 0 if s >= 0.0995 else 1) for s in span)
        spread = f" ({least} to {most})" if least != most else ""
        many = "a lone cell" if len(found.rows) > 1 else "the cell"
        out.append(f"detectable in {many} (80 % power): from {middle} {metric.worse} on{spread}")
    beyond = [r for r in found.rows if r.beyond]
    if beyond:
        out.append(f"beyond the threshold of {threshold(found)}: {plural(len(beyond), 'cell')}")
    failing = [r for r in found.rows if r.newly_failing]
    anew = sum(1 for r in failing if r.run.failed and not r.base.failed)
    if anew:
        out.append(f"trials of {plural(anew, 'cell')} fail that did not fail in the base")
    if empty := len(failing) - anew:
        have = "has" if empty == 1 else "have"
        out.append(f"{plural(empty, 'cell')} of the base {have} no good trial in this run")
    if found.gone:
        gone = plural(len(found.gone), "cell")
        out.append(f"{gone} of the base are missing; --force compares the others alone")
    return out + _shift(found)


def threshold(found: Comparison) -> str:
    """As it was asked for."""
    return f"{found.threshold * 100:g} %"


def _shift(found: Comparison) -> list[str]:
    """What all cells have in common, and what may be behind it."""
    if found.shift is None:
        return []
    moved = found.shift
    worse = (moved.ratio > 1) == found.metric.lower
    word = found.metric.worse if worse else found.metric.better
    size = abs(moved.ratio - 1)
    text = (
        f"the {moved.cells} cells together are {percent(size, 1)} {word} (ratio "
        f"{Quantity(moved.ratio, moved.low, moved.high).text()})"
    )
    if found.within:
        return [f"{text}; their trials were interleaved, so it is not the machine's drift"]
    aside = [r for r in found.rows if r.aside is not None and r.aside < 1 - found.confidence]
    apart = f" ({_duration(found.apart)})" if found.apart else ""
    out = [
        f"{text}: the machine, or the change? Runs made apart{apart} cannot tell; run the base again and "
        "compare it with itself, or interleave both in one run and compare it --by place"
    ]
    if len(aside) > MOST_ASIDE:
        out.append(f"{len(aside)} of {plural(len(found.rows), 'cell')} differ from what all have in common")
    elif aside:
        listed = "; ".join(f"{name(found, r)} (ratio {r.ratio.number()})" for r in aside)
        out.append(f"different from what all have in common: {listed}")
    return out


def _duration(seconds: float) -> str:
    for size, word in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            return plural(round(seconds / size), word)
    return f"{seconds:.0f} seconds"


def remarks(found: Comparison) -> list[str]:
    """What a cell's verdict needs to be read rightly; the same remark on many cells only once."""
    out = []
    for reason, rows in grouped((row for row in found.rows if row.reason), lambda row: row.reason).items():
        first = name(found, rows[0])
        cells = first if len(rows) == 1 else f"{plural(len(rows), 'cell')} ({first}, ...)"
        out.append(f"{cells}: {reason}")
    return out


def unmatched(found: Comparison) -> list[str]:
    """Cells without a partner, a line a side."""
    out = []
    for side, only in ((found.base, found.only_base), (found.run, found.only_run)):
        if only:
            listed = [label(c, side.cells) for c in only[:MOST_UNMATCHED]]
            more = f"; and {len(only) - MOST_UNMATCHED} more" if len(only) > MOST_UNMATCHED else ""
            out.append(f"only in {wording.plain(side.name)}: {'; '.join(listed)}{more}")
    return out


def label(cell: Cell, among: Sequence[Cell]) -> str:
    """A cell by what tells it from these."""
    names = varying(among)
    text = wording.label(cell, names)
    return f"{wording.plain(cell.operation)}, {text}" if names else text


def fact(found: Fact) -> tuple[str, str, str]:
    """Property, base's value, run's value."""

    def shown(value: object) -> str:
        if value is None:
            return "not known"
        if found.share and isinstance(value, int | float):
            return percent(value, 1)
        if found.end == "run" and found.name != "started":
            return wording.value(found.name, value)
        return wording.plain(in_words(found.name, value), 60)

    where = "" if found.end == "run" else f"{found.end}: "
    return f"{where}{found.name}", shown(found.base), shown(found.run)


def differing(found: Comparison) -> list[tuple[str, str, str, str]]:
    """What differs and matters: mark, property, base, run. `!!` is what makes runs unlike."""
    return [
        ("!!" if f.weight == "unlike" else "!", *fact(f))
        for f in (*found.settings, *found.facts)
        if f.differs and f.weight != "note"
    ]


def quiet(found: Comparison) -> tuple[list[str], list[str]]:
    """Names of facts that differ without weight, and of those that only one side knows."""
    facts = (*found.settings, *found.facts)
    idle = [fact(f)[0] for f in facts if f.differs and f.weight == "note"]
    return idle, [fact(f)[0] for f in facts if not f.complete and f.weight != "note"]


def document(found: Comparison, width: int) -> Document:
    """One comparison for a terminal of this width. Names without room are shortened to their values."""
    blocks: list[Block] = [
        Text(f"base: {found.base.name}", "strong"),
        Text(f"run:  {found.run.name}", "strong"),
        Text(f"{found.metric.title}; ratio = run / base", "quiet"),
    ]
    idle, unknown = quiet(found)
    aside = [Text(f"differs, but does not matter: {', '.join(idle)}", "quiet")] if idle else []
    if unknown:
        aside.append(Text(f"told by one side only: {', '.join(unknown)}", "quiet"))
    if differ := differing(found):
        lines = (f"  {mark} {what}: {before} -> {after}" for mark, what, before, after in differ)
        texts = [Text(line, "bad" if line.startswith("  !!") else "") for line in lines]
        blocks.append(Section("What differs", [*texts, *aside]))
    else:
        blocks += aside
    shown = columns(found)
    if sum(column.width + terminal.GAP for column in shown) > width + terminal.GAP:
        shown[0] = _short(found)
    first, *more = summary(found)
    notes = [*remarks(found), *unmatched(found)]
    blocks += [Table(shown), Text(first, "strong"), *map(Text, more), *([Bullets(notes)] if notes else ())]
    return Document("", blocks)


def _short(found: Comparison) -> Column:
    """Parameters, for the head, then their values in each row: `streams, rows/stream`, `8, 3.3M`."""
    names = [*(["operation"] if len(found.operations) > 1 else []), *found.varying]
    nouns = nouns_of(found.rows[0].base)
    head = ", ".join(wording.head(name, nouns) for name in dict.fromkeys(names))
    cells = [
        ", ".join(wording.value(name, row.base.parameters.get(name)) for name in dict.fromkeys(names))
        for row in found.rows
    ]
    return Column(head, "", cells, text=True, folds=True)


def pull_request(found: Comparison) -> Document:
    """The sentences and what became worse or better in sight, the rest folded."""
    first, *more = summary(found)
    grave = ("worse", "better", "failed")
    loud = [i for i, row in enumerate(found.rows) if row.verdict in grave or row.newly_failing]
    every = columns(found)
    blocks: list[Block] = [Terms([(found.metric.title, first)])]
    if texts := [*more, *unmatched(found)]:
        blocks.append(Bullets(texts))
    if loud:
        shown = loud[:MOST_IN_SIGHT]
        blocks.append(Table([replace(c, cells=[c.cells[i] for i in shown]) for c in every]))
    if len(loud) > MOST_IN_SIGHT:
        blocks.append(Text(f"{len(loud) - MOST_IN_SIGHT} more differ; they are among all cells."))
    if len(loud) < len(found.rows) or len(loud) > MOST_IN_SIGHT:
        notes = [Bullets(texts)] if (texts := remarks(found)) else []
        blocks.append(Section(f"all {plural(len(found.rows), 'cell')}", [Table(every), *notes], folded=True))
    differ = differing(found)
    facts = [fact(f) for f in found.facts]
    if facts or differ:
        marks = {what: mark for mark, what, _, _ in differ}
        rows = list(dict.fromkeys([(what, before, after) for _, what, before, after in differ] + facts))
        table = Table(text_columns(("", "", "base", "run"), [(marks.get(row[0], ""), *row) for row in rows]))
        title = f"conditions: {len(differ)} differ" if differ else "conditions: none that matters differs"
        blocks.append(Section(title, [table], folded=True))
    level, cells = f"{found.confidence * 100:g} %", plural(len(found.rows), "cell")
    text = f"Ratio = run / base, with its {level} interval; p corrected for {cells}; "
    blocks.append(Text(f"{text}! = beyond the threshold of {threshold(found)}, or failing.", "quiet"))
    mark = "❌" if found.exit_code != 0 else "✅"
    return Document(f"{mark} {found.run.name} against {found.base.name}", blocks)


def junit(found: Sequence[Comparison]) -> str:
    """A test suite a comparison, a test case a cell: failed where it is slower beyond the threshold, an error
    where its trials began to fail, skipped where nothing can be said.

    In the order of elements and with the attributes that Jenkins', GitLab's and GitHub's readers agree on.
    """
    root = ElementTree.Element("testsuites", name="venturi compare")
    for one in found:
        suite = ElementTree.SubElement(root, "testsuite")
        # Readers want properties before the cases.
        properties = _add(suite, "properties")
        for key in ("base", "run", "metric"):
            _add(properties, "property", name=key, value=getattr(one, key).name)
        for key in ("threshold", "confidence"):
            _add(properties, "property", name=key, value=f"{getattr(one, key):g}")
        cases = [_case(suite, one, row) for row in one.rows]
        for cell in one.gone:
            cases.append(_test_case(suite, label(cell, one.base.cells), cell, "0"))
            text = "not measured in the run"
            _add(cases[-1], "error", text, message=text, type="missing")
        suite.set("name", _xml(f"{one.run.name} against {one.base.name}"))
        suite.set("tests", str(len(cases)))
        for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
        suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")
        started = one.run.results.started
        if started is not None:
            suite.set("timestamp", f"{started:%Y-%m-%dT%H:%M:%S}")
        _add(suite, "system-out", "\n".join([*summary(one), *remarks(one), *unmatched(one)]))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, found: Comparison, row: Row) -> ElementTree.Element:
    spent = [record.times.interval_ns or 0.0 for record in row.run.records]
    case = _test_case(suite, name(found, row), row.base, f"{sum(spent) / 1e9:.3f}")
    text = sentence(row)
    if row.newly_failing:
        _add(case, "error", text, message=text, type="failed")
    elif row.beyond:
        message = f"{percent(row.loss, 1)} {row.word}, over the threshold of {threshold(found)}"
        _add(case, "failure", text, message=message, type=row.word)
    elif row.verdict in ("unknown", "failed"):
        _add(case, "skipped", message=text)
    else:
        _add(case, "system-out", text)
    return case


def _test_case(suite: ElementTree.Element, name: str, cell: Cell, seconds: str) -> ElementTree.Element:
    return _add(suite, "testcase", name=name, classname=f"venturi.{cell.operation}", time=seconds)


def _add(
    parent: ElementTree.Element, tag: str, text: str | None = None, **attributes: str
) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, tag, {key: _xml(value) for key, value in attributes.items()})
    made.text = None if text is None else _xml(text)
    return made


def _xml(found: str) -> str:
    return re.sub(_FORBIDDEN, "\N{REPLACEMENT CHARACTER}", found)


def sentence(row: Row) -> str:
    """A cell in one line: `1,466 MB/s [..] -> 1,390 MB/s [..]; ratio 0.948 [..], p <0.001: slower`."""
    parts = [f"{row.before.text()} -> {row.after.text()}"]
    if row.difference is not None:
        p = row.difference.adjusted
        parts.append(f"ratio {row.ratio.text()}" + ("" if p is None else f", p {probability(p)}"))
    text = "; ".join(parts) + f": {row.word}"
    return wording.plain(f"{text} ({row.reason})" if row.reason else text)


def machine(found: Sequence[Comparison], exit_code: int) -> dict[str, Any]:
    """All comparisons of one call, in base units; the fields are in docs/compare.md."""
    return {
        "format": 1,
        "kind": "comparison",
        "exit_code": exit_code,
        "comparisons": [_machine(one) for one in found],
    }


def _machine(found: Comparison) -> dict[str, Any]:
    span, verdicts = found.detectable, [str(row.verdict) for row in found.rows]
    kinds = ("worse", "better", "no-difference", "unknown", "failed")
    sides = {"base": found.base, "run": found.run}
    return {
        **{end: {"name": one.name, "path": str(one.results.directory.path)} for end, one in sides.items()},
        **fields(found, "confidence", "threshold", within_one_run="within", seconds_apart="apart"),
        "metric": found.metric.name,
        "lower_is_better": found.metric.lower,
        "exit_code": int(found.exit_code),
        "counts": {verdict: verdicts.count(verdict) for verdict in kinds},
        "summary": summary(found),
        "detectable": None if span is None else dict(zip(("median", "least", "most"), span, strict=True)),
        "shift": None if found.shift is None else finite(asdict(found.shift)),
        "cells": [_machine_row(found, row) for row in found.rows],
        "only_base": [_unmatched_cell(cell) for cell in found.only_base],
        "only_run": [_unmatched_cell(cell) for cell in found.only_run],
        "settings": [asdict(f) | {"differs": f.differs} for f in found.settings],
        "environment": [asdict(f) | {"differs": f.differs} for f in found.facts],
    }


def _machine_row(found: Comparison, row: Row) -> dict[str, Any]:
    names = {"ratio": "ratio", "ratio_low": "low", "ratio_high": "high", "p": "p", "p_adjusted": "adjusted"}
    sides = {"base": (row.base, row.before), "run": (row.run, row.after)}
    return finite(
        {
            "name": name(found, row),
            "parameters": row.base.parameters,
            **{
                end: fields(figure, "low", "high", median="value")
                | fields(cell, "good", "failed", cell="name")
                for end, (cell, figure) in sides.items()
            },
            "unit": row.metric.unit,
            **(fields(row.difference, **names) if row.difference else dict.fromkeys(names)),
            **fields(
                row, "detectable", "verdict", "newly_failing", p_aside="aside", beyond_threshold="beyond"
            ),
            "reason": row.reason or None,
        }
    )


def _unmatched_cell(cell: Cell) -> dict[str, Any]:
    return fields(cell, "parameters", "good", "failed", cell="name")
