"""`venturi sql`: DuckDB over one or many runs."""

from __future__ import annotations

import enum
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from venturi.cli import options
from venturi.common.errors import StoreError, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

if TYPE_CHECKING:
    import pyarrow as pa

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Tables: trials, streams, latency, stages, errors, resources, hosts, samples, ceilings; their columns
are in docs/format.md, or: venturi sql RUN "describe trials"
Of a store of time series (venturi serve timeseries --data DIR): points, series.
Examples:
  venturi sql RUN "select operation, streams, median(bytes_per_second) / 1e6 as mb_s
                   from trials where outcome = 'ok' and not warmup
                   group by all order by all"
  venturi sql DIR "select metric, count(*), avg(value) from points group by all"
"""


class Format(str, enum.Enum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    json = "json"


@app.command(epilog=EPILOG)
def sql(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... QUERY",
            help="Runs (directories, last, reference:NAME), or the directory of a store of time series; "
            "at the end the query.",
        ),
    ],
    format: Annotated[
        Format, typer.Option("--format", help="table for people, csv, or json: one array of objects.")
    ] = Format.table,
) -> None:
    """Query the trials of one or many runs, or the points of a store, by SQL."""
    *runs, query = words
    if not runs:
        raise VenturiError(
            "name a run directory and then a query", hint='venturi sql RUN "select * from trials"'
        )
    from venturi.store import sql as asking
    from venturi.store.open import open_run
    from venturi.store.sql import is_store

    table, damaged = asking.ask(runs, query)
    for run in runs:
        if not is_store(Path(run)):
            options.warn(run, open_run(run).environment)
    for one in damaged:
        say("warning", f"{one.file}: {one.why}; its segment is left out of the answer")
    _print(table, format)
    if damaged:
        count = plural(len(damaged), "damaged file")
        raise StoreError(
            f"{runs[0]}: {count}, named above: the answer is of the segments that are whole",
            hint="put back the files from a copy, or move them away to do without their points",
        )


def _print(table: pa.Table, format: Format) -> None:
    if format is Format.csv:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows([row[name] for name in table.column_names] for row in table.to_pylist())
        return
    if format is Format.json:
        print(json.dumps(table.to_pylist(), default=_json, ensure_ascii=False))
        return
    rows = [[_text(row[name]) for name in table.column_names] for row in table.to_pylist()]
    widths = [max(map(len, column)) for column in zip(table.column_names, *rows, strict=True)]
    numeric = [_is_number(field.type) for field in table.schema]
    for row in [table.column_names, ["-" * width for width in widths], *rows]:
        cells = zip(row, widths, numeric, strict=True)
        print("  ".join(f"{c:>{w}}" if right else f"{c:<{w}}" for c, w, right in cells).rstrip())


def _json(value: Any) -> Any:
    """What JSON has no word for: sums of integers are decimals in SQL, dates become texts."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def _is_number(kind: Any) -> bool:
    import pyarrow.types as types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
