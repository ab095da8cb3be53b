"""`venturi show`: a run on the terminal, or its cells for machines."""

from __future__ import annotations

import enum
import sys

import typer

from venturi.cli import options
from venturi.cli.options import flag, switch
from venturi.common.errors import VenturiError
from venturi.common.runtime import kept, without_collector

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EPILOG = """\b
Examples:
  venturi show last
  venturi show last --explain
  venturi show last --cell operation=get,streams=4
  venturi show last --columns p50,p99,max
  venturi show venturi-runs/20261121-084500-quick --format json
  venturi show reference:upsert --format seed
"""


Format = enum.StrEnum("Format", ["table", "json", "csv", "markdown", "seed"])
"""How the run is printed."""


@app.command(epilog=EPILOG)
def show(
    run: str = options.RUN,
    format: Format = flag(
        "table for people; json, csv: one row a cell, base units; markdown: to paste; seed: upserts "
        "in the four lines of the published MemSQL and Cassandra benchmark.",
        Format.table,
    ),
    cell: str | None = flag(
        "Explain one cell on one screen: its limits, its pipeline, its verdict. NAME is best, "
        "PARAMETER=VALUE,..., or a cell's name (its begin will do).",
        metavar="NAME",
    ),
    columns: str | None = flag(
        "Columns to show beside settings and medians, as p50,p99,verdict, however wide they are.",
        metavar="NAMES",
    ),
    explain: bool = switch("The same as --cell best: the fastest cell.", "--explain"),
) -> None:
    """Show a run: medians with margins, shares of the lowest limit, verdicts and the reason, warnings."""
    from venturi.analysis import results

    wanted = cell if cell is not None else "best" if explain else None
    if wanted is not None and format is not Format.table:
        name = "--cell" if cell is not None else "--explain"
        raise VenturiError(
            f"{name} does not go with --format {format.value}",
            hint="json and csv have all cells; leave one of the two out",
        )
    if columns is not None and (wanted is not None or format is not Format.table):
        raise VenturiError(
            "--columns goes with the table of all cells alone", hint="--format csv has every column"
        )
    with without_collector(keep=True):
        found = kept(results.load(run))
    if wanted is not None:
        from rich.console import Console

        from venturi.analysis.results import find
        from venturi.report import cell as cells

        options.print_document(cells.document(found, find(found, wanted), Console().width))
        return
    from venturi.report import run as runs
    from venturi.report import tables

    if format in (Format.csv, Format.seed):
        csv = format is Format.csv
        text = tables.text(tables.table(found, "cells")) if csv else tables.upsert_benchmark(found)
        sys.stdout.write(text)
        return
    names = columns.split(",") if columns is not None else ()
    brief = format is Format.table
    options.print_answer(format, lambda: runs.document(found, brief, names), lambda: tables.machine(found))
