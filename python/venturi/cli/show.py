"""`venturi show`: a run on the terminal, or its cells for machines."""

from __future__ import annotations

import enum
import json
import sys
from typing import Annotated

import typer

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi show last
  venturi show venturi-runs/20261121-084500-quick --format json
"""


class Format(str, enum.Enum):
    """How the run is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


@app.command(epilog=EPILOG)
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run directory, or last: the newest below venturi-runs.")
    ] = "last",
    format: Annotated[
        Format,
        typer.Option(
            "--format", help="table for people; json, csv: one row a cell, base units; markdown: to paste."
        ),
    ] = Format.table,
) -> None:
    """Show the results of a run: medians with margins, shares of raw TCP, failed trials, warnings."""
    from venturi.analysis import results

    found = results.load(run)
    if format is Format.table:
        from rich.console import Console

        from venturi.report import terminal

        terminal.print_results(found, Console())
    elif format is Format.json:
        from venturi.report.machine import document

        print(json.dumps(document(found), ensure_ascii=False, indent=2, default=str))
    elif format is Format.csv:
        from venturi.report import csv

        sys.stdout.write(csv.text(csv.table(found, "cells")))
    else:
        from venturi.report import markdown

        sys.stdout.write(markdown.text(found))
