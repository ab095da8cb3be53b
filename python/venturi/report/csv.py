"""The tables of a run as CSV and Parquet files. Base units, in the column names; nothing is rounded."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from venturi.analysis import cells
from venturi.analysis.results import Results

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("cells", "trials", "streams", "stages", "latency", "resources", "ceilings", "samples")


def table(results: Results, name: str) -> pa.Table:
    """One of `TABLES`."""
    if name == "cells":
        return cells.table(results.cells)
    if name == "samples":
        return results.samples
    found: pa.Table = getattr(results.directory, name)()
    return found


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
