"""The tables of a run as CSV and Parquet files. Base units, in the column names; nothing is rounded."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from venturi.analysis.cells import cell_table
from venturi.analysis.proven import proof, unproven
from venturi.analysis.results import Results
from venturi.report import host_tables as hosts_tables

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = (
    *("cells", "trials", "streams", "stages", "latency", "errors", "resources", "hosts"),
    *("ceilings", "samples"),
    *hosts_tables.NAMES,
)


def table(results: Results, name: str) -> pa.Table:
    """One of `TABLES`."""
    if name == "cells":
        return with_verdicts(results)
    if name == "samples":
        return results.samples
    if name in hosts_tables.NAMES:
        return hosts_tables.table(results, name)
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
