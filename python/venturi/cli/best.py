"""`venturi best`: the fastest setting of a run, and the cheapest near it."""

from __future__ import annotations

import enum
import sys
from typing import Annotated

import typer

from venturi.cli import options
from venturi.common.errors import VenturiError

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi best last
  venturi best last --within 2% --where "operation == 'get'"
  venturi best last --p99 50ms
  venturi best reference:chspark
"""


class Format(str, enum.Enum):
    """How the answer is printed."""

    table = "table"
    markdown = "markdown"
    json = "json"


@app.command(epilog=EPILOG)
def best(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run directory, last, or reference:NAME.")
    ] = "last",
    within: Annotated[
        str, typer.Option("--within", help="How far below the fastest a cheaper setting may lie.")
    ] = "5%",
    where: options.Where = None,
    p99: Annotated[
        str | None,
        typer.Option(
            "--p99",
            metavar="TIME",
            help="Only cells of which 99 % of the batches surely took no longer, as 50ms.",
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Every size by itself, not only the largest of each workload.")
    ] = False,
    format: Annotated[
        Format, typer.Option("--format", help="table for people; markdown; json.")
    ] = Format.table,
) -> None:
    """Name the fastest setting, the cheapest near it, and how much of each setting is enough."""
    from venturi.analysis.compare import best as analysis
    from venturi.analysis.selection import cells_where
    from venturi.common.texts import say
    from venturi.report import best as report

    at_most = options.share("--within", within)
    bound = None if p99 is None else options.time("--p99", p99)
    loaded = options.read(run)
    cells = cells_where(loaded.cells, where, run)
    found = analysis.find(cells, at_most, every=all, cores=analysis.cores(loaded.environment), p99_ns=bound)
    slow = (
        []
        if bound is None
        else [report.too_slow(group, bound, cells) for group in analysis.too_slow(cells, all, bound)]
    )
    if slow and not found:
        raise VenturiError(
            f"{run}: {'; '.join(slow)}", hint="a longer time; or smaller batches, which take less time each"
        )
    for text in slow:
        say("warning", text)
    if not found:
        raise VenturiError(
            f"{run}: no trial succeeded, so no setting can be named", hint=f"venturi show {run}"
        )
    if format is Format.json:
        options.print_json(report.machine(found))
    elif format is Format.markdown:
        from venturi.report import markdown

        sys.stdout.write(markdown.text(report.document(found), level=2))
    else:
        options.print_document(report.document(found))
