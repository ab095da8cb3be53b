"""`venturi compare` and `history`: runs against a base, and cells over many runs."""

from __future__ import annotations

import enum
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from venturi.cli import options
from venturi.cli.options import argument, flag, switch
from venturi.common.errors import VenturiError
from venturi.common.texts import say

if TYPE_CHECKING:
    from venturi.analysis.compare.runs import Comparison

app = typer.Typer(rich_markup_mode=None, add_completion=False)


COMPARE = """\b
Examples:
  venturi compare venturi-runs/main last
  venturi compare main-run pr-run --threshold 5% -o comparison.md
  venturi compare main-run pr-run --format junit -o venturi.xml
  venturi compare last --by place=old
  venturi compare reference:cartesius-localhost reference:cartesius-remote
The exit code is 8 where a cell is significantly slower by more than the
threshold, and 5 if trials fail that did not fail in the base, or cells of
the base have no good trial in the run, or are missing there.
"""


Format = enum.StrEnum("Format", ["table", "markdown", "junit", "json"])
"""How a comparison is written."""


MetricName = enum.StrEnum(
    "MetricName",
    [
        ("throughput", "throughput"),
        ("steady", "steady"),
        ("latency_p50", "latency-p50"),
        ("latency_p99", "latency-p99"),
        ("cpu_per_byte", "cpu-per-byte"),
    ],
)
"""What is compared."""


SUFFIXES = {".md": Format.markdown, ".xml": Format.junit, ".json": Format.json}


@app.command("compare", epilog=COMPARE)
def compare(
    runs: list[str] = argument(
        "Runs as everywhere: a directory, last, or reference:NAME. Each RUN is set against BASE.",
        ...,
        metavar="BASE RUN...",
    ),
    by: str | None = flag(
        "Compare within one run: the cells with each other value of this parameter against those "
        "with VALUE (or the first). Their trials were interleaved.",
        metavar="PARAMETER[=VALUE]",
    ),
    metric: MetricName = flag(
        "What to compare; rows/s stand in for throughput where no bytes are known.", MetricName.throughput
    ),
    threshold: str = options.THRESHOLD,
    confidence: str = options.CONFIDENCE,
    force: bool = switch(
        "Compare runs that were made under unlike conditions, or lack cells of the base.", "--force"
    ),
    format: Format | None = flag(
        "table for people; markdown for a pull request; junit: XML for a CI server; json. "
        "[default: table, or by the ending of --out]"
    ),
    out: Path | None = flag("Write to this file, and the summary to the screen.", None, "--out", "-o"),
) -> None:
    """Compare runs cell by cell: ratios with intervals, tests, and an exit code for CI."""
    from venturi.analysis.compare.runs import worst

    at_most = options.share("--threshold", threshold)
    level = options.share("--confidence", confidence, 0.5)
    shape = format or (SUFFIXES.get(out.suffix, Format.table) if out else Format.table)
    found = _comparisons(runs, by, metric.value, level, at_most, force)
    code = worst(found)
    text = _text(found, shape, int(code), wide=out is not None)
    if out is None:
        sys.stdout.write(text)
    else:
        options.write_text(out, text)
        from venturi.report import comparison

        for one in found:
            print(f"{one.run.name} against {one.base.name}: {comparison.summary(one)[0]}")
        print(out)
    sys.stdout.flush()
    raise typer.Exit(int(code))


def _comparisons(
    runs: list[str], by: str | None, metric: str, confidence: float, threshold: float, force: bool
) -> list[Comparison]:
    from venturi.analysis.compare import runs as comparing

    if by is not None:
        if len(runs) > 1:
            raise VenturiError("--by compares within one run", hint=f"venturi compare {runs[0]} --by {by}")
        name, _, value = by.partition("=")
        return comparing.compare_by(options.read(runs[0]), name, value or None, metric, confidence, threshold)
    if len(runs) < 2:
        raise VenturiError(
            "a comparison needs two runs: BASE and RUN",
            hint="venturi compare BASE RUN, or within one run: --by PARAMETER",
        )
    base = options.read(runs[0])
    out = []
    for run in runs[1:]:
        other = options.read(run)
        paths = [str(r.directory.path) for r in (base, other)]
        if paths[0] == paths[1] or (all(map(os.path.exists, paths)) and os.path.samefile(*paths)):
            raise VenturiError(
                f"{runs[0]} and {run} are the same run",
                hint="name another one; within one run: --by PARAMETER",
            )
        out.append(comparing.compare(base, other, metric, confidence, threshold, force))
    return out


def _text(found: list[Comparison], shape: Format, code: int, wide: bool) -> str:
    from venturi.report import comparison, markdown, terminal

    if shape is Format.junit:
        return comparison.junit(found)
    if shape is Format.json:
        document = comparison.machine(found, code)
        return json.dumps(document, ensure_ascii=False, indent=2, default=str) + "\n"
    if shape is Format.markdown:
        return "\n".join(markdown.text(comparison.pull_request(one), level=3) for one in found)
    import io

    from rich.console import Console

    # Drawn first and written in one piece, so that a pipe that closes early is met in one place.
    screen = Console()
    drawn = io.StringIO()
    colours = not wide and screen.is_terminal and not screen.no_color
    console = Console(
        file=drawn, width=120 if wide else screen.width, force_terminal=colours, no_color=not colours
    )
    for i, one in enumerate(found):
        if i:
            console.print()
        terminal.write(comparison.document(one, console.width), console)
    return "\n".join(line.rstrip() for line in drawn.getvalue().splitlines()) + "\n"


HISTORY = """\b
Examples:
  venturi history
  venturi history results/ --where "streams == 4" --metric latency-p99
  venturi history results/ --out history.html
"""


@app.command("history", epilog=HISTORY)
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
    options.print_answer(format, lambda: report.document(found), lambda: report.machine(found))
    if out is not None and format is options.Format.table:
        print(f"page: {out}")
