"""`venturi best`: the fastest setting of a run, and the cheapest near it."""

from __future__ import annotations

import enum

import typer

from venturi.cli import options
from venturi.cli.options import flag, switch
from venturi.common.errors import VenturiError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EPILOG = """\b
Examples:
  venturi best last
  venturi best last --within 2% --where "operation == 'get'"
  venturi best last --p99 50ms
  venturi best reference:chspark
"""


Format = enum.StrEnum("Format", ["table", "markdown", "json"])
"""How the answer is printed."""


@app.command(epilog=EPILOG)
def best(
    run: str = options.RUN,
    within: str = flag("How far below the fastest a cheaper setting may lie.", "5%"),
    where: list[str] | None = options.WHERE,
    p99: str | None = flag(
        "Only cells of which 99 % of the batches surely took no longer, as 50ms.", metavar="TIME"
    ),
    all: bool = switch("Every size by itself, not only the largest of each workload.", "--all"),
    format: Format = flag("table for people; markdown; json.", Format.table),
) -> None:
    """Name the fastest setting, the cheapest near it, and how much of each setting is enough."""
    from venturi.analysis.compare import best as analysis
    from venturi.analysis.results import cells_where
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
    options.print_answer(format, lambda: report.document(found), lambda: report.machine(found), level=2)
