"""`venturi history`: cells over many runs, and where they became faster or slower."""

from __future__ import annotations

from pathlib import Path

import typer

from venturi.cli import options
from venturi.cli.compare import MetricName
from venturi.cli.options import argument, flag
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
    directory: Path = argument(
        "A directory with run directories in it.", Path("venturi-runs"), metavar="DIR"
    ),
    where: list[str] | None = options.WHERE,
    metric: MetricName = flag(
        "What is followed; rows/s stand in for throughput where no bytes are known.", MetricName.throughput
    ),
    least: str = flag("The smallest change that is told.", "2%"),
    format: options.Format = options.FORMAT,
    out: Path | None = flag("Write an HTML page to this file as well.", None, "--out", "-o"),
) -> None:
    """Show cells over many runs, and the runs from which on they are faster or slower."""
    from venturi.analysis.compare import history as analysis
    from venturi.report import history as report

    found = analysis.followed(directory, metric.value, options.share("--least", least), where, say)
    if out is not None:
        options.write_text(out, report.page(found, str(directory)))
    if format is options.Format.json:
        options.print_json(report.machine(found))
        return
    options.print_document(report.document(found))
    if out is not None:
        print(f"page: {out}")
