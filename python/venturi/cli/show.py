"""`venturi show` and `report`: a run on the terminal, for programs, and as files."""

from __future__ import annotations

import enum
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from venturi.cli import options
from venturi.cli.options import flag, switch
from venturi.common.errors import VenturiError
from venturi.common.runtime import kept, without_collector

if TYPE_CHECKING:
    from venturi.analysis.results import Results

app = typer.Typer(rich_markup_mode=None, add_completion=False)


SHOW = """\b
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


@app.command("show", epilog=SHOW)
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
        hint = "json and csv have all cells; leave one of the two out"
        raise VenturiError(f"{name} does not go with --format {format}", hint=hint)
    if columns is not None and (wanted is not None or format is not Format.table):
        hint = "--format csv has every column"
        raise VenturiError("--columns goes with the table of all cells alone", hint=hint)
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

    if format is Format.csv:
        sys.stdout.write(tables.text(tables.table(found, "cells")))
    elif format is Format.seed:
        sys.stdout.write(tables.upsert_benchmark(found))
    else:
        names, brief = columns.split(",") if columns is not None else (), format is Format.table
        options.print_answer(
            format, lambda: runs.document(found, brief, names), lambda: tables.machine(found)
        )


REPORT = """\b
Examples:
  venturi report last
  venturi report RUN -o flight.html --reference macbook
  venturi report RUN --format svg --figure throughput-streams
  venturi report RUN --format perf_stats -o perf_stats.csv
  venturi report RUN --format png --figure timeline --cell operation=get,streams=4
Figures: throughput-streams, box-size, throughput-size, throughput-batch,
throughput-hosts, throughput-encoders, throughput-delay, throughput-link-rate, throughput-loss,
convergence, flows, roofline, model-scaling, model-hockney, timeline, stages, latency.
References: macbook, cartesius, chspark, upsert, akumuli, or one of their sets as macbook-get.
"""


_ENDINGS = {"markdown": "md", "perf_stats": "tsv", "perf_stats_7": "tsv", "seed": "txt"}


FileFormat = enum.StrEnum(
    "FileFormat", ["html", "png", "svg", "markdown", "csv", "parquet", "perf_stats", "perf_stats_7", "seed"]
)
"""Kinds of files."""


@app.command("report", epilog=REPORT)
def report(
    run: str = options.RUN,
    out: Path | None = flag(
        "File to write; a directory for several figures or tables. [default: in the run directory]",
        None,
        "--out",
        "-o",
    ),
    format: FileFormat = flag(
        "html: one page; png, svg: figures; csv, parquet: tables; perf_stats: lines as "
        "Arrow Flight's benchmark scripts read them, perf_stats_7 without the test type; seed: upserts "
        "as MemSQL's benchmark.py prints them.",
        FileFormat.html,
    ),
    figure: str | None = flag("With png and svg: this figure only."),
    cell: str | None = flag(
        "With --figure timeline, stages or flows: of this cell, as `venturi show --cell` names it. "
        "[default: the fastest]",
        metavar="NAME",
    ),
    reference: str | None = flag("Published figures to lay over, with their hardware named."),
) -> None:
    """Write a run as an HTML page, figures, Markdown or tables; prints the files written."""
    from venturi.analysis import results
    from venturi.store import reference as published

    pictures = (FileFormat.png, FileFormat.svg)
    if figure is not None and format not in pictures:
        raise VenturiError(f"--figure does not go with --format {format}", hint="use --format png or svg")
    if cell is not None and figure is None:
        hint = "add --format svg --figure timeline (or stages)"
        raise VenturiError("--cell goes with --figure only", hint=hint)
    if reference is not None and format not in (FileFormat.html, *pictures):
        raise VenturiError(f"--reference does not go with --format {format}", hint="use html, png or svg")
    if reference is not None:
        published.sets(reference)
    with without_collector(keep=True):
        found = kept(results.load(run))
    if out is None and not found.directory.saved:
        raise VenturiError(
            f"{run} is no directory that a report could go into",
            hint=f"say where: --out {run.partition(':')[2]}.{_ENDINGS.get(format.value, format.value)}",
        )
    with options.written(out):
        for path in _write(found, out, format, figure, reference, cell):
            print(path)


def _write(
    found: Results,
    out: Path | None,
    format: FileFormat,
    figure: str | None,
    reference: str | None,
    cell: str | None,
) -> list[Path]:
    home = found.directory.path
    if format is FileFormat.html:
        from venturi.report.page import page as html_page

        return [html_page.write(found, out or home / "report.html", reference)]
    if format in (FileFormat.png, FileFormat.svg):
        return _figures(found, out, format.value, figure, reference, cell)
    if format in (FileFormat.csv, FileFormat.parquet):
        return _tables(found, out, format.value)
    if format is FileFormat.markdown:
        from venturi.report import markdown, run

        path, content = out or home / "report.md", markdown.text(run.document(found))
    elif format is FileFormat.seed:
        from venturi.report import tables

        path, content = out or home / "seed.txt", tables.upsert_benchmark(found)
    else:
        return _perf_stats(found, out, 7 if format is FileFormat.perf_stats_7 else 8)
    path.write_text(content, encoding="utf-8")
    return [path]


def _perf_stats(found: Results, out: Path | None, columns: int) -> list[Path]:
    """All lines into a file, or a file a number of streams into a directory."""
    from venturi.report import tables

    name = "perf_stats" if columns == 8 else f"perf_stats_{columns}"
    if out is not None and (out.is_dir() or not (out.suffix or out.exists())):
        written = {out / name: lines for name, lines in tables.perf_stats_files(found, columns).items()}
    else:
        written = {out or found.directory.path / f"{name}.csv": tables.perf_stats(found, columns)}
    for path, lines in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(lines, encoding="utf-8")
    return list(written)


def _figures(
    found: Results, out: Path | None, kind: str, name: str | None, reference: str | None, cell: str | None
) -> list[Path]:
    """One figure into a file, or all into a directory."""
    from venturi.analysis.results import find
    from venturi.report.draw import Drawing
    from venturi.report.figures import registry as figures

    home = found.directory.path
    chosen_reference = reference or found.default_reference
    if name is not None:
        chosen = find(found, cell) if cell is not None else None
        drawn = [figures.one(found, name, chosen_reference, chosen)]
        paths = [out or home / "figures" / f"{name}.{kind}"]
        if out is not None and out.is_dir():
            paths = [out / f"{name}.{kind}"]
    else:
        drawn = figures.build(found, chosen_reference)
        if not drawn:
            good = any(c.good for c in found.cells)
            why = "no bytes were counted over streams" if good else "no trial succeeded"
            raise VenturiError(f"{home}: {why}, so there is nothing to draw")
        folder = out or home / "figures"
        if folder.suffix in (".png", ".svg"):
            raise VenturiError(
                f"{folder}: one file, but the run has {len(drawn)} figures",
                hint=f"name one by --figure ({', '.join(f.name for f in drawn)}), or a directory by --out",
            )
        paths = [folder / f"{f.name}.{kind}" for f in drawn]
    for path, one in zip(paths, drawn, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        Drawing.of(one).save(path)
    return paths


def _tables(found: Results, out: Path | None, kind: str) -> list[Path]:
    """All tables into a directory; with a file name, the cells into that file."""
    from venturi.report import tables

    if out is None or out.suffix != f".{kind}":
        return tables.write(found, out or found.directory.path / "tables", kind)
    tables.write_table(tables.table(found, "cells"), out)
    return [out]
