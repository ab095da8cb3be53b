"""The derived results of a run as one JSON document, for scripts: `venturi show RUN --format json`."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from venturi.analysis.cells import cell_table
from venturi.analysis.proven import proof, unproven
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Finding, Verdict
from venturi.report.tables import hosts as hosts_tables


def document(results: Results) -> dict[str, Any]:
    """Cells as in the CSV, each with its whole verdict; findings, failed trials, warnings. Where there were
    several hosts or places also what is derived of them: `places`, `efficiency`, `convergence`, `flows`.

    Base units; what was not measured is null.
    """
    rows = cell_table.table(results.cells).to_pylist()
    told = proof(results.environment)
    # Runs without proofs, as imported and older ones, have no word on it.
    proven = {"proven": not unproven(results.environment)} if told is not None else {}
    return {
        "run": results.name,
        **({"proof": dict(told)} if told is not None else {}),
        "cells": [
            {k: _json(v) for k, v in row.items()}
            | proven
            | {"verdict": _reasons(v) if (v := results.verdicts.get(row["cell"])) is not None else None}
            for row in rows
        ],
        "findings": [_reasons(finding) for finding in results.findings],
        "failed": [
            {
                "trial": r.get("trial"),
                "cell": r.get("cell"),
                "repeat": r.get("repeat"),
                "warmup": bool(r.get("warmup")),
                "outcome": r.get("outcome"),
                "error": r.get("error"),
            }
            for r in results.failures
        ],
        "warnings": [asdict(advice) for advice in results.advice],
    } | {name: rows for name in hosts_tables.NAMES if (rows := hosts_tables.rows(results, name))}


def _reasons(found: Verdict | Finding) -> dict[str, Any]:
    """With its remedies as what they change, and in words."""
    kept = ("why", "changes", "run", "settings", "before", "command", "text")
    remedies = [{name: getattr(remedy, name) for name in kept} for remedy in found.remedies]
    whole: dict[str, Any] = {}
    for name, value in asdict(found).items():
        whole |= asdict(found.text) if isinstance(found, Verdict) and name == "write" else {name: value}
    return whole | {"sentence": found.sentence, "remedies": remedies, "next": list(found.next)}


def _json(value: Any) -> Any:
    # JSON has no infinity and no NaN, and a reader in another language stumbles over Python's spelling.
    return None if isinstance(value, float) and not math.isfinite(value) else value
