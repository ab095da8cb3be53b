"""`venturi predict`: what a cell that was not measured would do; queued, it is checked by a trial."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from venturi.cli import forms
from venturi.common.errors import VenturiError
from venturi.common.say import say

if TYPE_CHECKING:
    from venturi.analysis.models.predict import Checked

app = typer.Typer(rich_markup_mode=None)

EPILOG = """\b
Examples:
  venturi predict last --streams 32
  venturi predict last --streams 32 --set rows_per_batch=4096 --set operation=get
  venturi predict last --set rows_per_stream=1G
  venturi predict last --link "25gbit 0.5ms"
  venturi predict last --streams 32 --queue      # keep it, for a trial to check
  venturi predict last --check                   # measure what is queued
  venturi predict last --checked                 # predicted and measured, side by side
  venturi predict reference:cartesius-remote --streams 16
"""


@app.command(epilog=EPILOG)
def predict(
    run: forms.AnyRun = "last",
    streams: Annotated[
        int | None, typer.Option("--streams", min=1, help="How many streams to predict.", show_default=False)
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            "--link",
            metavar="LINK",
            help='A link to predict for, from others that were measured: "25gbit 0.5ms", or a name as wifi6.',
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter of the cell: the one to predict along, or a measured value of another.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", min=1, help="The interval is for the median of so many new trials.")
    ] = 5,
    queue: Annotated[
        bool, typer.Option("--queue", help="Keep the prediction in the run, for a trial to check.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Measure what is queued, in this run.")] = False,
    checked: Annotated[
        bool, typer.Option("--checked", help="Show what was queued beside what was measured.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --check: run failed trials again.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="With --check: no progress.")] = False,
    format: Annotated[
        forms.TableOrJson, typer.Option("--format", help="table for people, json in base units.")
    ] = forms.TableOrJson.table,
    executor: forms.Executor = "core",
) -> None:
    """Predict the throughput of a cell that was not measured, with a 95 % prediction interval."""
    from venturi.analysis import results
    from venturi.analysis.models import predict as prediction
    from venturi.cli.reading import read

    wanted = _wanted({"streams": streams, "link": link}, settings or [])
    if not wanted and not (check or checked):
        raise VenturiError("nothing to predict: name a value", hint="venturi predict last --streams 32")
    if queue and not wanted:
        raise VenturiError("--queue needs a value to predict", hint="--streams 32 --queue")
    found = read(run)
    document: dict[str, Any] = {}
    if wanted:
        left_out: list[str] = []
        made = prediction.predict(found.cells, wanted, repeats, left_out)
        for reason in left_out:
            say("warning", reason)
        document["predictions"] = [
            asdict(one) | {"extrapolation": one.extrapolation, "text": one.sentence} for one in made
        ]
        if format is forms.TableOrJson.table:
            for one in made:
                _print(one.statements)
        if queue or check:
            from venturi.measure import checks

            checks.queue(found.directory, made)
            if not check:
                say("info", f"queued; measure it by: venturi predict {found.directory.path} --check")
    code = 0
    if check:
        code = _check(found.directory.path, executor, quiet or format is forms.TableOrJson.json, retry_failed)
        found = results.load(found.directory.path)
    if check or checked:
        document["checked"] = [_entry(one) for one in found.predictions]
        if format is forms.TableOrJson.table:
            for line in found.predictions:
                print(line.sentence)
            if not found.predictions:
                print("no prediction is queued in this run")
    if format is forms.TableOrJson.json:
        print(json.dumps(document, ensure_ascii=False, indent=2, default=str))
    raise typer.Exit(code)


def _wanted(options: dict[str, Any], settings: list[str]) -> dict[str, Any]:
    """`--set KEY=VALUE` with numbers as the scenario language spells them: 10M, 2s."""
    from venturi.common.suffixes import parse_count

    wanted: dict[str, Any] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        key = key.strip().rpartition(".")[2]
        if not equals or not key:
            raise VenturiError(f"--set {text}: write KEY=VALUE, as in rows_per_batch=4096")
        if key in wanted:
            raise VenturiError(f"--set {key}: given twice")
        try:
            wanted[key] = parse_count(value.strip())
        except ValueError:
            wanted[key] = {"true": True, "false": False, "none": None}.get(value.strip(), value.strip())
    for name, value in options.items():
        if value is not None and name in wanted:
            raise VenturiError(f"--{name} and --set {name} both name the {name}; keep one")
        if value is not None:
            wanted[name] = value
    return wanted


def _check(path: Any, executor: str, quiet: bool, retry_failed: bool) -> int:
    import sys

    from venturi.cli import progress
    from venturi.cli.run import executed_by
    from venturi.measure import checks
    from venturi.measure.observer import QuietObserver
    from venturi.measure.outcome import scenario_of
    from venturi.store.directory import RunDirectory

    observer = (
        QuietObserver()
        if quiet
        else progress.LiveObserver()
        if sys.stderr.isatty()
        else progress.PlainObserver()
    )
    try:
        with executed_by(executor, scenario_of(RunDirectory(path))) as engine:
            ended = checks.execute(path, engine, observer, retry_failed)
    finally:
        if isinstance(observer, progress.LiveObserver):
            observer.close()
    if ended.result.failed:
        reason = next(iter(ended.result.reasons), "")
        say("error", f"{ended.result.failures()}: {reason}")
    return int(ended.exit_code)


def _entry(one: Checked) -> dict[str, Any]:
    return {
        **one.line,
        "measured_median": one.measured.value,
        "measured_low": one.measured.low,
        "measured_high": one.measured.high,
        "inside": one.inside,
        "error": one.error,
        "text": one.sentence,
    }


def _print(statements: Sequence[str]) -> None:
    """What is predicted on a line, and indented below it what it stands on."""
    from rich.console import Console
    from rich.text import Text

    from venturi.report.text.wrap import wrap

    console = Console()
    for number, statement in enumerate(statements):
        for line in wrap("  " * min(number, 1) + statement, console.width):
            console.print(Text(line, style="bold" if number == 0 else ""))
