"""The results of a run for other programs: tables as CSV and Parquet, and one JSON document.

Base units, in the column names; nothing is rounded.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from venturi.analysis.cells import cell_table, flows
from venturi.analysis.proven import proof, unproven
from venturi.analysis.results import Results
from venturi.analysis.verdict.types import Finding, Verdict
from venturi.common.units import Quantity

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
_LOCAL_REMOTE = ("local", "remote")


def _margins(name: str, found: Quantity) -> Row:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def _places(results: Results) -> Iterable[Row]:
    """One row a pair of cells."""
    for row in results.place_rows:
        for pair in row.pairs:
            sides = dict(zip(_LOCAL_REMOTE, (pair.local, pair.remote), strict=True))
            unit = "bytes" if pair.local.main.unit == "B/s" else "rows"
            verdicts = {side: results.verdicts.get(cell.name) for side, cell in sides.items()}
            yield {
                "operation": row.operation,
                **{f"{side}_cell": cell.name for side, cell in sides.items()},
                "streams": pair.local.parameters.get("streams"),
                "rows_per_stream": pair.local.parameters.get("rows_per_stream"),
                "counted": unit,
                **{
                    key: value
                    for side, cell in sides.items()
                    for key, value in _margins(f"{side}_per_second", cell.main).items()
                },
                **_margins("ratio", pair.ratio),
                **{
                    f"{side}_{end}_cores": cell.cpu[end].value
                    for side, cell in sides.items()
                    for end in ("client", "server")
                },
                **{f"{end}_cpu_cost_ratio": pair.cost(end).value for end in ("client", "server")},
                **{f"{side}_verdict": v.title if v is not None else None for side, v in verdicts.items()},
            }


def _efficiency(results: Results) -> Iterable[Row]:
    """One row a number of hosts."""
    for one in results.efficiency:
        for step in one.steps:
            yield {
                "operation": one.operation,
                "cell": step.cell.name,
                "hosts": step.hosts,
                "streams": step.cell.parameters.get("streams"),
                "counted": "bytes" if step.each.unit == "B/s" else "rows",
                **_margins("per_second", step.cell.main),
                "per_host_per_second": step.each.value,
                **_margins("efficiency", step.efficiency),
                **_margins("per_core", step.per_core),
                "slowest_over_fastest": step.slowest,
            }


def _convergence(results: Results) -> Iterable[Row]:
    """One row a split."""
    for one in results.convergences:
        limit = one.limit.rate if one.limit else Quantity(None, unit="B/s")
        for split in one.splits:
            yield {
                "operation": one.operation,
                "place": one.where.get("place"),
                "total_rows": one.rows,
                "total_payload_bytes": one.payload_bytes,
                "streams": split.streams,
                "rows_per_stream": split.rows_per_stream,
                **_margins("foretold_bytes_per_second", split.predicted),
                **_margins("bytes_per_second", split.measured),
                "inside": split.inside,
                **_margins("limit_bytes_per_second", limit),
                "limit_streams": one.limit.at if one.limit else None,
                "near_streams": one.limit.near if one.limit else None,
                "refused": split.refused or one.refused or None,
            }


def _flows(results: Results) -> Iterable[Row]:
    """One row a way from a sender to a receiver, of every cell with several ends on a side."""
    for cell in results.cells:
        found = flows.flows(cell)
        for flow in found.flows if found is not None else ():
            yield {
                "cell": cell.name,
                "sender": flow.sender,
                "receiver": flow.receiver,
                "payload_bytes": flow.payload_bytes,
                "share": flow.payload_bytes / found.total if found is not None and found.total else None,
            }


_MAKERS: dict[str, Callable[[Results], Iterable[Row]]] = {
    "places": _places,
    "efficiency": _efficiency,
    "convergence": _convergence,
    "flows": _flows,
}
DERIVED = tuple(_MAKERS)


def derived(results: Results, name: str) -> list[Row]:
    """The rows of one of `DERIVED`; empty if the run has one host and one place."""
    return list(_MAKERS[name](results))


TABLES = (
    *("cells", "trials", "streams", "stages", "latency", "errors", "resources", "hosts"),
    *("ceilings", "samples"),
    *DERIVED,
)


def table(results: Results, name: str) -> pa.Table:
    """One of `TABLES`."""
    if name == "cells":
        return with_verdicts(results)
    if name == "samples":
        return results.samples
    if name in DERIVED:
        import pyarrow as pa

        return pa.Table.from_pylist(derived(results, name))
    found: pa.Table = getattr(results.directory, name)()
    return found


def with_verdicts(results: Results) -> pa.Table:
    """One row a cell: its figures, then what its verdict says; of a run with proofs before it, whether they
    held. Without cells there are no columns of it."""
    import pyarrow as pa

    found = cell_table.table(results.cells)
    judged = [results.verdicts.get(c.name) for c in results.cells]
    for field in ("kind", "cause", "end", "stage", "title", "confidence", "sentence"):
        found_of = [None if v is None else getattr(v, field) for v in judged]
        texts = [None if text is None else str(text) for text in found_of]
        found = found.append_column(
            "verdict" if field == "title" else f"verdict_{field}", pa.array(texts, pa.string())
        )
    flags = [None if v is None else v.flagged for v in judged]
    found = found.append_column("verdict_flagged", pa.array(flags, pa.bool_()))
    if proof(results.environment) is None:
        return found
    proven = [not unproven(results.environment)] * len(results.cells)
    return found.append_column("proven", pa.array(proven, pa.bool_()))


def text(found: pa.Table) -> str:
    """A table as CSV (RFC 4180 with plain newlines). Lists are joined by spaces; null is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(found.column_names)
    for row in found.to_pylist():
        writer.writerow([" ".join(map(str, v)) if isinstance(v, list) else v for v in row.values()])
    return out.getvalue()


def write(results: Results, folder: Path, kind: str) -> list[Path]:
    """Writes every table that has rows into `folder` as `cells.csv`, `trials.csv`, ... or `.parquet`.

    Raises `OSError` where a file cannot be written. `cells` and `trials` are written even when empty.
    """
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in TABLES:
        found = table(results, name)
        if found.num_rows == 0 and name not in ("cells", "trials"):
            continue
        path = folder / f"{name}.{kind}"
        if kind == "csv":
            path.write_text(text(found), encoding="utf-8")
        else:
            pq.write_table(found, path)
        written.append(path)
    return written


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
    } | {name: rows for name in DERIVED if (rows := derived(results, name))}


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
