"""`venturi history`: cells over many runs, and where they became faster or slower."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from venturi.cli import options
from venturi.cli.compare import MetricName
from venturi.common.errors import StoreError, VenturiError
from venturi.common.texts import say

if TYPE_CHECKING:
    from venturi.analysis.results import Results

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi history
  venturi history results/ --where "streams == 4" --metric latency-p99
  venturi history results/ --out history.html
"""


@app.command(epilog=EPILOG)
def history(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="A directory with run directories in it.")
    ] = Path("venturi-runs"),
    where: options.Where = None,
    metric: Annotated[
        MetricName,
        typer.Option(
            "--metric", help="What is followed; rows/s stand in for throughput where no bytes are known."
        ),
    ] = MetricName.throughput,
    least: Annotated[str, typer.Option("--least", help="The smallest change that is told.")] = "2%",
    format: Annotated[
        options.TableOrJson, typer.Option("--format", help="table for people, json in base units.")
    ] = options.TableOrJson.table,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write an HTML page to this file as well.")
    ] = None,
) -> None:
    """Show cells over many runs, and the runs from which on they are faster or slower."""
    from venturi.analysis.compare import history as analysis
    from venturi.analysis.selection import cells_where
    from venturi.report import history as report

    at_least = options.share("--least", least)
    found = analysis.histories(_runs(directory), metric.value, at_least)
    if not found:
        raise VenturiError(
            f"{directory}: no two runs of one machine have a cell in common",
            hint="the same scenario, run again and again on one machine",
        )
    if where:
        kept = {id(cell) for cell in cells_where([one.cell for one in found], where, str(directory))}
        found = [one for one in found if id(one.cell) in kept]
    if out is not None:
        try:
            out.write_text(report.page(found, str(directory)), encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{out}: cannot be written: {error.strerror or error}") from None
    if format is options.TableOrJson.json:
        options.print_json(report.machine(found))
        return
    options.print_document(report.document(found))
    if out is not None:
        print(f"page: {out}")


def _runs(directory: Path) -> list[Results]:
    """All runs in a directory; what cannot be read is named and left out."""
    from venturi.analysis.results import load

    if not directory.is_dir():
        raise VenturiError(f"{directory}: is no directory", hint="venturi history DIR, with runs in DIR")
    found = []
    for path in sorted(p for p in directory.iterdir() if (p / "trials.jsonl").exists()):
        try:
            found.append(load(path))
        except VenturiError as error:
            say("warning", f"left out: {error.message}")
    if not found:
        raise VenturiError(
            f"{directory}: there is no run in it", hint="a run is a directory with trials.jsonl"
        )
    return found
