"""`venturi report`: a run as a file."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from venturi.cli import options
from venturi.cli.options import flag
from venturi.common.errors import VenturiError
from venturi.common.runtime import kept, without_collector

if TYPE_CHECKING:
    from venturi.analysis.results import Results

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EPILOG = """\b
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


Format = enum.StrEnum(
    "Format", ["html", "png", "svg", "markdown", "csv", "parquet", "perf_stats", "perf_stats_7", "seed"]
)
"""Kinds of files."""


@app.command(epilog=EPILOG)
def report(
    run: str = options.RUN,
    out: Path | None = flag(
        "File to write; a directory for several figures or tables. [default: in the run directory]",
        None,
        "--out",
        "-o",
    ),
    format: Format = flag(
        "html: one page; png, svg: figures; csv, parquet: tables; perf_stats: lines as "
        "Arrow Flight's benchmark scripts read them, perf_stats_7 without the test type; seed: upserts "
        "as MemSQL's benchmark.py prints them.",
        Format.html,
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

    pictures = (Format.png, Format.svg)
    if figure is not None and format not in pictures:
        raise VenturiError(f"--figure does not go with --format {format}", hint="use --format png or svg")
    if cell is not None and figure is None:
        hint = "add --format svg --figure timeline (or stages)"
        raise VenturiError("--cell goes with --figure only", hint=hint)
    if reference is not None and format not in (Format.html, *pictures):
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
    format: Format,
    figure: str | None,
    reference: str | None,
    cell: str | None,
) -> list[Path]:
    home = found.directory.path
    if format is Format.html:
        from venturi.report.page import page as html_page

        return [html_page.write(found, out or home / "report.html", reference)]
    if format in (Format.png, Format.svg):
        return _figures(found, out, format.value, figure, reference, cell)
    if format in (Format.csv, Format.parquet):
        return _tables(found, out, format.value)
    if format is Format.markdown:
        from venturi.report import markdown, run

        path, content = out or home / "report.md", markdown.text(run.document(found))
    elif format is Format.seed:
        from venturi.report import tables

        path, content = out or home / "seed.txt", tables.upsert_benchmark(found)
    else:
        return _perf_stats(found, out, 7 if format is Format.perf_stats_7 else 8)
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
    cells = tables.table(found, "cells")
    if kind == "csv":
        out.write_text(tables.text(cells), encoding="utf-8")
    else:
        import pyarrow.parquet as pq

        pq.write_table(cells, out)
    return [out]
