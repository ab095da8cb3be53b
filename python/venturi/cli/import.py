"""`venturi import`: results of other tools as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from venturi.common.texts import say
from venturi.common.units import plural

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi import perf_stats/ -o venturi-runs/cartesius
  venturi import old/perf_stats_01.csv --set operation=get --set place=local
  iperf3 -c host -J -P 4 | venturi import - -o venturi-runs/link
  venturi import a.log b.log --format cassandra-stress --name nightly
Formats: perf_stats, flight-benchmark, testperf, chspark, memsql, iperf3, cassandra-stress,
latte; docs/import.md says what is taken from each.
Published sets need no import: venturi show reference:macbook-get
"""


@app.command(epilog=EPILOG)
def import_(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files, directories of them, or - for standard input."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Run directory: a new one, or an imported one to add to. [default: below venturi-runs]",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="The files' format; auto recognises it by their content.")
    ] = "auto",
    name: Annotated[
        str | None, typer.Option("--name", help="The run's name. [default: that of its directory]")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter that the files do not tell, put into every trial; can be repeated.",
        ),
    ] = None,
) -> None:
    """Copy results of other tools into a run directory, which every command takes; prints its name."""
    from venturi.store.importers.files import import_files, parse_settings

    run, found, skipped = import_files(files, out, format, name, parse_settings(set_ or []))
    for one in skipped:
        say("info", f"{one}: skipped, of no known format")
    for imported in found:
        say("info", f"{imported.name}: {plural(imported.trials, 'trial')} of {imported.source}")
    noted = sum(bool(draft.note) for one in found for draft in one.parsed.drafts)
    if noted:
        say("warning", f"{noted:,} figures need a note; venturi show {run} has it")
    print(run)
