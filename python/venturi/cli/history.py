"""`venturi history`: cells over many runs, and where they became faster or slower."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from venturi.cli import options
from venturi.cli.compare import MetricName
from venturi.common.errors import StoreError
from venturi.common.texts import say

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
    from venturi.report import history as report

    found = analysis.followed(directory, metric.value, options.share("--least", least), where, say)
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
