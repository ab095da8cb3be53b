"""A comparison for machines: JUnit XML for a CI server, JSON for scripts."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from venturi.analysis.cells.summary import Cell
from venturi.analysis.compare.runs import Comparison, Row
from venturi.analysis.words import labels
from venturi.common.units import Quantity, percent
from venturi.report import comparison

# What XML 1.0 cannot hold, even escaped; a surrogate would not even encode.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(found: Sequence[Comparison]) -> str:
    """A test suite a comparison, a test case a cell: failed where it is slower beyond the threshold, an error
    where its trials began to fail, skipped where nothing can be said.

    In the order of elements and with the attributes that Jenkins', GitLab's and GitHub's readers agree on.
    """
    root = ElementTree.Element("testsuites", name="venturi compare")
    for one in found:
        suite = ElementTree.SubElement(root, "testsuite")
        cases = [_case(suite, one, row) for row in one.rows] + [_gone(suite, one, cell) for cell in one.gone]
        # Readers want properties before the cases.
        properties = ElementTree.Element("properties")
        for key, value in (
            ("base", one.base.name),
            ("run", one.run.name),
            ("metric", one.metric.name),
            ("threshold", f"{one.threshold:g}"),
            ("confidence", f"{one.confidence:g}"),
        ):
            ElementTree.SubElement(properties, "property", name=key, value=_text(value))
        suite.insert(0, properties)
        _count(suite, f"{one.run.name} against {one.base.name}", cases)
        started = one.run.results.started
        if started is not None:
            suite.set("timestamp", f"{started:%Y-%m-%dT%H:%M:%S}")
        said = [*comparison.summary(one), *comparison.remarks(one), *comparison.unmatched(one)]
        ElementTree.SubElement(suite, "system-out").text = _text("\n".join(said))
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, found: Comparison, row: Row) -> ElementTree.Element:
    seconds = sum(t for r in row.run.records if (t := _seconds(r)) is not None)
    case = ElementTree.SubElement(
        suite,
        "testcase",
        name=_text(comparison.name(found, row)),
        classname=_text(f"venturi.{row.base.operation}"),
        time=f"{seconds:.3f}",
    )
    said = sentence(row)
    if row.newly_failing:
        ElementTree.SubElement(case, "error", message=_text(said), type="failed").text = _text(said)
    elif row.beyond:
        limit = comparison.threshold(found)
        message = f"{percent(row.loss, 1)} {row.word}, over the threshold of {limit}"
        ElementTree.SubElement(case, "failure", message=_text(message), type=row.word).text = _text(said)
    elif row.verdict in ("unknown", "failed"):
        ElementTree.SubElement(case, "skipped", message=_text(said))
    if row.verdict not in ("unknown", "failed") and not row.beyond and not row.newly_failing:
        ElementTree.SubElement(case, "system-out").text = _text(said)
    return case


def _gone(suite: ElementTree.Element, found: Comparison, cell: Cell) -> ElementTree.Element:
    name, text = _text(comparison.label(cell, found.base.cells)), "not measured in the run"
    case = ElementTree.SubElement(
        suite, "testcase", name=name, classname=_text(f"venturi.{cell.operation}"), time="0"
    )
    ElementTree.SubElement(case, "error", message=text, type="missing").text = text
    return case


def _seconds(record: Any) -> float | None:
    interval = (record.get("times") or {}).get("interval_ns")
    return interval / 1e9 if isinstance(interval, int | float) else None


def _count(suite: ElementTree.Element, name: str, cases: list[ElementTree.Element]) -> None:
    suite.set("name", _text(name))
    suite.set("tests", str(len(cases)))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(sum(case.find(tag) is not None for case in cases)))
    suite.set("time", f"{sum(float(case.get('time', '0')) for case in cases):.3f}")


def _text(found: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", found)


def sentence(row: Row) -> str:
    """A cell in one line: `1,466 MB/s [..] -> 1,390 MB/s [..]; ratio 0.948 [..], p <0.001: slower`."""
    parts = [f"{row.before.text()} -> {row.after.text()}"]
    if row.difference is not None:
        p = row.difference.adjusted
        parts.append(f"ratio {row.ratio.text()}" + ("" if p is None else f", p {comparison.probability(p)}"))
    text = "; ".join(parts) + f": {row.word}"
    return labels.plain(f"{text} ({row.reason})" if row.reason else text)


def document(found: Sequence[Comparison], exit_code: int) -> dict[str, Any]:
    """All comparisons of one call, in base units; the fields are in docs/compare.md."""
    return {
        "format": 1,
        "kind": "comparison",
        "exit_code": exit_code,
        "comparisons": [_document(one) for one in found],
    }


def _document(found: Comparison) -> dict[str, Any]:
    span = found.detectable
    return {
        "base": _side(found.base.name, found.base.results.directory.path),
        "run": _side(found.run.name, found.run.results.directory.path),
        "within_one_run": found.within,
        "metric": found.metric.name,
        "lower_is_better": found.metric.lower,
        "confidence": found.confidence,
        "threshold": found.threshold,
        "exit_code": int(found.exit_code),
        "counts": {
            verdict: sum(row.verdict == verdict for row in found.rows)
            for verdict in ("worse", "better", "no-difference", "unknown", "failed")
        },
        "summary": comparison.summary(found),
        "detectable": None if span is None else dict(zip(("median", "least", "most"), span, strict=True)),
        "shift": None if found.shift is None else _finite(asdict(found.shift)),
        "seconds_apart": found.apart,
        "cells": [_row(found, row) for row in found.rows],
        "only_base": [_cell(c) for c in found.only_base],
        "only_run": [_cell(c) for c in found.only_run],
        "settings": [asdict(f) | {"differs": f.differs} for f in found.settings],
        "environment": [asdict(f) | {"differs": f.differs} for f in found.facts],
    }


def _side(name: str, path: Any) -> dict[str, str]:
    return {"name": name, "path": str(path)}


def _row(found: Comparison, row: Row) -> dict[str, Any]:
    d = row.difference
    out = {
        "name": comparison.name(found, row),
        "parameters": row.base.parameters,
        "base": _quantity(row.before) | _trials(row.base),
        "run": _quantity(row.after) | _trials(row.run),
        "unit": row.metric.unit,
        "ratio": d.ratio if d else None,
        "ratio_low": d.low if d else None,
        "ratio_high": d.high if d else None,
        "p": d.p if d else None,
        "p_adjusted": d.adjusted if d else None,
        "p_aside": row.aside,
        "detectable": row.detectable,
        "verdict": row.verdict,
        "beyond_threshold": row.beyond,
        "newly_failing": row.newly_failing,
        "reason": row.reason or None,
    }
    return _finite(out)


def _quantity(found: Quantity) -> dict[str, Any]:
    return {"median": found.value, "low": found.low, "high": found.high}


def _trials(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.name, "good": cell.good, "failed": cell.failed}


def _cell(cell: Cell) -> dict[str, Any]:
    return {"cell": cell.name, "parameters": cell.parameters} | {"good": cell.good, "failed": cell.failed}


def _finite(found: dict[str, Any]) -> dict[str, Any]:
    # JSON has no infinity and no NaN.
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in found.items()}
