"""`venturi run`: measures a scenario."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options, output
from venturi.cli.options import argument, flag, switch
from venturi.common.errors import ExitCode, StoreError, VenturiError
from venturi.common.texts import say
from venturi.common.units import plural

if TYPE_CHECKING:
    from venturi.analysis.results import Results
    from venturi.engine.executor import Executor
    from venturi.measure.run_events import QuietObserver, RunResult
    from venturi.plan.scenario import Scenario

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EXAMPLES = """\b
Examples:
  venturi run quick
  venturi run quick --streams 1,2,4,8 --duration 5s
  venturi run --target flight://host:31337
  venturi run --target flight://host:31337 --operation get --streams 1..8
  venturi run upsert-quick --target mysql://venturi@host/db --password-env PASSWORD
  venturi run --target sqlite://local --streams 1 --rows-per-batch 1,10,100,1000
  venturi run --target clickhouse://host/db --table trips --wire-format arrow,native,rowbinary
  venturi run --target charrow://local --streams 1,2 --encoders 1,2 --decoders 1,2
  venturi run --target akumuli://local --hosts 1000 --streams 2 --points-per-stream 10M
  venturi run my.toml --on ray://head:10001 --loaders 1..4 --streams 8
  venturi run my.toml --scale 0.01 --dry-run
  venturi run --resume venturi-runs/20261121-084500-quick
"""


@app.command(epilog=EXAMPLES)
@options.settings()
def run(
    scenario: str | None = argument("A scenario file, or one built in (venturi scenarios)."),
    out: Path | None = flag("Run directory to make. [default: venturi-runs/TIME-NAME]"),
    resume: Path | None = flag("Go on with this run directory, or last."),
    retry_failed: bool = switch("With --resume: run failed trials again.", "--retry-failed"),
    dry_run: bool = switch("Say what would be run: cells, bytes, time. Measure nothing.", "--dry-run"),
    scale: float | None = flag("Shrink sizes by this factor, and thin long axes, as 0.01."),
    reference: bool | None = flag(
        "Show published figures beside the results.", None, "--reference/--no-reference"
    ),
    report: bool = flag("Write the HTML report when the run ends.", True, "--report/--no-report"),
    as_json: bool = switch("One JSON object a trial on standard output, nothing else.", "--json"),
    quiet: bool = switch("No progress; warnings and results only.", "--quiet", "-q"),
    fresh_ceilings: bool = switch(
        "Measure all ceilings now; use none again of a run within the last hour.", "--fresh-ceilings"
    ),
    unproven: bool = options.UNPROVEN,
    executor: str = options.EXECUTOR,
    *,
    settings: dict[str, Any],
) -> None:
    """Measure a scenario: a built-in one, a TOML file, or what the flags alone describe."""
    flags = dict(locals()) | settings
    from venturi.measure import flight_discovery

    if resume is not None:
        made, found, notes = _resumed(flags, resume)
    else:
        if retry_failed:
            raise VenturiError("--retry-failed goes with --resume")
        made = None
        found, notes, flags["settled"] = flight_discovery.discover_defaults(flags)
        if scale is not None:
            found, scaled = _scaled(found, scale)
            notes = [*notes, *scaled]
    from venturi.measure import placement

    found, more = placement.named(found, flags["on"], flags["master"])
    notes += more
    if not (as_json or quiet):
        for text in (*found.notes, *notes):
            say("info", text)
        if found.target.handicap or "handicap" in found.axes:
            say("warning", "a handicap slows the client down on purpose: these are not its true figures")
    if dry_run:
        _print_plan(found)
        return
    local = partial(executed_by, flags["executor"])
    with placement.placed(found, flags["on"], flags["master"], _note(flags), local) as (placed, engine):
        _run(placed, made, flags, engine)


def _scaled(found: Scenario, factor: float) -> tuple[Scenario, list[str]]:
    from venturi.plan import matrix
    from venturi.plan.scale import scale

    try:
        scaled, done = scale(found, factor)
    except ValueError as error:
        raise VenturiError(f"--scale {factor:g}: {error}") from None
    before, after = len(matrix.cells(found)), len(matrix.cells(scaled))
    head = f"scaled by {factor:g}: {after} of {before} cells"
    return scaled, ["; ".join([head, *done])]


def _resumed(flags: dict[str, Any], path: Path) -> tuple[Path, Scenario, list[str]]:
    from venturi.measure import placement
    from venturi.measure.run_events import scenario_of
    from venturi.store.directory import RunDirectory
    from venturi.store.open import find_run

    ours = (
        *("settings", "resume", "retry_failed", "dry_run", "report", "as_json", "quiet", "executor"),
        *("on_failure", "fresh_ceilings", "unproven", "on", "master"),
    )
    extra = [name for name, value in flags.items() if name not in ours and value not in (None, [])]
    if extra:
        flag = "a scenario" if extra[0] == "scenario" else "--" + extra[0].replace("_", "-")
        raise VenturiError(
            f"{flag} does not go with --resume: a resumed run keeps the scenario it was begun with",
            hint="start another run for another scenario",
        )
    path = find_run(path)
    if flags["unproven"]:
        say("info", "--unproven changes nothing here: a resumed run keeps its first self-test")
    directory = RunDirectory(path)
    placement.resumed(flags["on"], directory.records(), path)
    found = scenario_of(directory)
    if flags["on_failure"]:
        from venturi.plan.settings import Run
        from venturi.plan.validation import validate_value

        try:
            choice = validate_value(Run, "on_failure", flags["on_failure"])
        except ValueError as error:
            raise VenturiError(f"--on-failure: {error}", ExitCode.SCENARIO) from None
        found = replace(found, run=found.run.model_copy(update={"on_failure": choice}))
    return path, found, []


def _print_plan(found: Scenario) -> None:
    """What a run would do, on standard output."""
    from venturi.measure.runner import estimate
    from venturi.measure.trial_targets import Endpoints
    from venturi.plan.cell import cell_labels

    # Files are read, so that their faults show now and their sizes are true; no server is started.
    with Endpoints(found, False, say) as endpoints:
        plan = estimate(found, endpoints.cells)
        texts = cell_labels(plan.cells)
        for cell in plan.cells:
            print(f"{cell.id}  {texts[cell.id]}")
        for line in plan.lines():
            print(line)


def executed_by(text: str, found: Scenario | None = None) -> contextlib.AbstractContextManager[Executor]:
    """What `--executor` names runs the trials of a scenario, whose streams all run here: the core, or what
    the function `executor` of a module makes of the text after the module's name, MODULE:TEXT."""
    from venturi.measure import placement

    if text == "core":
        return placement.local_executor(found)
    name, _, rest = text.partition(":")
    unknown = VenturiError(f"--executor {text}: no module with a function `executor` has this name")
    try:
        module = importlib.import_module(name)
    except (ValueError, TypeError):  # an empty name, or a relative one
        raise unknown from None
    except ModuleNotFoundError as error:
        if not f"{name}.".startswith(f"{error.name}."):
            raise
        raise unknown from None
    if not hasattr(module, "executor"):
        raise unknown
    return contextlib.nullcontext(module.executor(rest))


def _observer(flags: dict[str, Any]) -> QuietObserver:
    from venturi.cli import progress
    from venturi.measure.run_events import QuietObserver

    if flags["as_json"]:
        return progress.JsonObserver()
    if flags["quiet"]:
        return QuietObserver()
    return progress.LiveObserver() if sys.stderr.isatty() else progress.PlainObserver()


def _note(flags: dict[str, Any]) -> Callable[[str, str], None]:
    """Takes lines for the user; without those that only inform where none are wanted."""
    silent = flags["as_json"] or flags["quiet"]
    return lambda level, text: None if silent and level == "info" else say(level, text)


def _run(found: Scenario, made: Path | None, flags: dict[str, Any], engine: Executor) -> None:
    from venturi.measure import run_events, runner

    observer = _observer(flags)
    out = made or flags["out"] or run_events.default_out(found)
    output.go_on(observer.note, out)
    try:
        ended = runner.execute(
            found,
            out,
            engine,
            observer,
            made is not None,
            flags["retry_failed"],
            options.command_line(_typed()[0], flags.get("settled")),
            flags["fresh_ceilings"],
            flags["unproven"],
            partial(_make_ready, flags),
        )
    except StoreError:
        observer.close()
        # What was stored before is still worth reading; where nothing was, the error says enough.
        if not flags["as_json"] and _has_trials(out):
            _print_results(out)
        raise
    finally:
        observer.close()
        output.go_on(None)
    if not flags["as_json"]:
        results = _print_results(out)
        # After what is waited for.
        print(f"report: {_write_report(results)}" if flags["report"] else f"run: {out}")
    _conclude(ended)


def _make_ready(flags: dict[str, Any]) -> None:
    """Imports what the end of the run needs. This takes as long as a server takes to start."""
    if not flags["as_json"]:
        from venturi.analysis import results  # noqa: F401
        from venturi.report import run, terminal  # noqa: F401
    if flags["report"] and not flags["as_json"]:
        from venturi.report.page import page  # noqa: F401


def _has_trials(out: Path) -> bool:
    from venturi.store.directory import RunDirectory

    try:
        return bool(RunDirectory(out).records())
    except StoreError:
        return False


def _print_results(out: Path) -> Results:
    from venturi.analysis import results
    from venturi.report import run as runs

    found = results.load(out)
    options.print_document(runs.document(found, brief=True))
    return found


def _write_report(results: Results) -> Path:
    from venturi.report.page import page as html_page

    path = results.directory.path / "report.html"
    with options.written(path):
        return html_page.write(results, path)


def _typed() -> tuple[list[str], str | None]:
    """What was typed, and the command that goes on with the run if that is not `venturi run`."""
    argv, again = json.loads(os.environ.get(options.TYPED, "null")) or (sys.argv, None)
    return argv, again


def _conclude(ended: RunResult) -> None:
    result = ended.result
    again = _typed()[1] or f"venturi run --resume {ended.path}"
    if result.interrupted:
        say("warning", f"interrupted; go on with: {again}")
    elif result.failed:
        reason = next(iter(result.reasons), "")
        rest = len(result.reasons) - 1
        more = f" (and {plural(rest, 'other reason')})" if rest > 0 else ""
        say("error", f"{result.failures()}: {reason}{more}")
        if result.kinds & {"lost", "timeout", "unreachable"} and result.failed < result.trials:
            say("hint", f"try those again by: {again} --retry-failed")
    raise typer.Exit(int(ended.exit_code))
