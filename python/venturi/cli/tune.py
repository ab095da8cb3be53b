"""`venturi tune`: finds the fastest setting by search, in few trials."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from venturi.cli import options, output
from venturi.cli.options import argument, flag, switch
from venturi.common.errors import VenturiError
from venturi.common.texts import say
from venturi.measure.tune import DEFAULT_TRIALS, Budget

if TYPE_CHECKING:
    from venturi.analysis.models.explore import Search
    from venturi.measure.tune import Tuned
    from venturi.plan.scenario import Scenario

app = typer.Typer(rich_markup_mode=None, add_completion=False)

EPILOG = """\b
Examples:
  venturi tune flight://host:31337 --trials 24
  venturi tune flight://local --streams 1..16 --rows-per-batch 1k,4k,16k,64k --minutes 2
  venturi tune my.toml --operation put --compression none,lz4,zstd
  venturi tune --resume last --trials 40
  venturi tune mysql://venturi@host/db --streams 1..16
  venturi tune charrow://local --data states
  venturi tune recorded:reference:chspark --trials 11
A tuning is a run: show, best, fit and report take it, and
`venturi run --resume RUN` measures the rest of its matrix.
"""

RECORDED = "recorded:"


_SPACE = (
    *("operation", "streams", "threads", "rows_per_batch", "compression", "connections", "window"),
    *("send_buffer", "encoders", "decoders", "query", "data", "columns", "values", "rows_per_stream"),
    *("bytes_per_stream", "duration", "verify", "ceilings", "link", "server", "cross", "set"),
)
"""Flags of settings that may be searched, or that a search is made with."""


@app.command(epilog=EPILOG)
@options.settings(*_SPACE)
def tune(
    target: str | None = argument(
        "A URL; a scenario, file or built in, whose matrix is searched; or recorded:RUN, a run that "
        "was measured before, to see what a search would have needed.",
        metavar="TARGET",
    ),
    trials: int | None = flag(f"Trials in all. [default: {DEFAULT_TRIALS}]", min=2),
    minutes: float | None = flag("Time in all; with --trials, what ends first.", min=0.01),
    out: Path | None = flag("Run directory. [default: venturi-runs/TIME-NAME]"),
    resume: str | None = flag("Go on with the search in this run, or last."),
    where: list[str] | None = flag(
        'With recorded:RUN: only cells for which this holds, as in "rows_per_stream == 5e8"; may '
        "be repeated.",
        metavar="CONDITION",
    ),
    seed: int = flag("Chooses among first trials that are as good.", 1),
    quiet: bool = switch("The answer only.", "--quiet", "-q"),
    as_json: bool = switch("The answer as JSON.", "--json"),
    unproven: bool = options.UNPROVEN,
    executor: str = options.EXECUTOR,
    *,
    settings: dict[str, Any],
) -> None:
    """Search a target's settings for the fastest, in few trials."""
    flags = dict(locals()) | settings
    budget = Budget(
        trials if trials is not None or minutes is not None else DEFAULT_TRIALS,
        minutes * 60 if minutes is not None else None,
    )
    if target is not None and resume is not None:
        text = f"{target} does not go with --resume: the search goes on in its own run"
        raise VenturiError(text, hint=f"venturi tune --resume {resume}")
    if target is None and resume is None:
        text = "nothing to tune: name a URL, a scenario, or recorded:RUN"
        raise VenturiError(text, hint="venturi tune flight://local")
    if target is not None and target.startswith(RECORDED):
        _replay(target.removeprefix(RECORDED), budget, flags)
        return
    if where:
        raise VenturiError(
            "--where goes with recorded:RUN only", hint="a search of a target takes what flags and matrix say"
        )
    _search(budget, flags)


def _refuse_flags(flags: dict[str, Any], beside: str, hint: str) -> None:
    """Raises VenturiError for a flag of the space."""
    for name in _SPACE:
        if flags[name] not in (None, []):
            raise VenturiError(f"--{name.replace('_', '-')} does not go with {beside}", hint=hint)


def _replay(run: str, budget: Budget, flags: dict[str, Any]) -> None:
    from venturi.analysis.compare.best import speed_of
    from venturi.analysis.results import cells_where
    from venturi.common.units import percent
    from venturi.measure.tune import Recorded, replay
    from venturi.report import tune as report

    _refuse_flags(flags, "recorded:RUN", "a recorded run has the cells it has")
    recorded = Recorded(cells_where(options.read(run).cells, flags["where"], run))
    unit = speed_of(recorded.cells[0], recorded.measure).unit

    def learned(search: Search, done: int, of: int | None) -> None:
        if not (flags["quiet"] or flags["as_json"]):
            text = report.step(search, recorded.candidates, recorded.names, unit)
            print(f"[{done}{f'/{of}' if of else ''}] {text}", file=sys.stderr, flush=True)

    tuned = replay(recorded, budget, learned, flags["seed"])
    _print(tuned, flags, unit)
    if not flags["as_json"] and tuned.answer is not None:
        fastest = report.setting(recorded.candidates[recorded.fastest], recorded.names)
        reached = percent(recorded.share(tuned.answer.best), 1)
        print(
            f"the fastest of all {len(recorded.cells)} recorded settings, {recorded.trials} trials: "
            f"{fastest}: the search reached {reached} of it"
        )


def _search(budget: Budget, flags: dict[str, Any]) -> None:
    from venturi.cli.run import _observer, executed_by
    from venturi.measure import run_events
    from venturi.measure import tune as tuning
    from venturi.report import tune as report
    from venturi.store.directory import RunDirectory
    from venturi.store.open import find_run

    if flags["resume"] is not None:
        _refuse_flags(flags, "--resume", "a search keeps the space it was begun with; start another one")
        out = find_run(flags["resume"])
        scenario = run_events.scenario_of(RunDirectory(out))
    else:
        scenario = _scenario(flags)
        out = flags["out"] or run_events.default_out(scenario)
    output.go_on(None)
    observer = _observer(flags | {"as_json": False, "quiet": flags["quiet"] or flags["as_json"]})
    cells: list[Any] = []
    last = ""

    from venturi.analysis.cells.figures import main_unit

    def learned(search: Search, done: int, of: int | None) -> None:
        nonlocal last
        text = report.news(search, cells, names, main_unit(cells[0].get("operation")))
        if text and text != last:
            last = text
            observer.note("info", text)

    from venturi.plan import matrix

    cells = [c.parameters for c in matrix.cells(scenario)]
    names = tuning.settings(cells)
    try:
        with executed_by(flags["executor"], scenario) as engine:
            tuned = tuning.execute(
                scenario,
                out,
                engine,
                observer,
                budget,
                learned,
                flags["seed"],
                flags["resume"] is not None,
                options.command_line(sys.argv),
                flags["unproven"],
            )
    finally:
        observer.close()
    _print(tuned, flags, main_unit(cells[0].get("operation")))
    assert tuned.run is not None
    if not flags["as_json"]:
        rest = f"venturi best {out}; the rest of the matrix: venturi run --resume {out}"
        print(f"next: {rest}" if tuned.answer else f"next, when that is mended: venturi tune --resume {out}")
        print(f"run: {out}")
    result = tuned.run.result
    if result.interrupted:
        say("warning", f"interrupted; go on with: venturi tune --resume {out}")
    elif result.failed:
        say("error", f"{result.failures()}: {next(iter(result.reasons), '')}")
    raise typer.Exit(int(tuned.run.exit_code))


def _print(tuned: Tuned, flags: dict[str, Any], unit: str = "B/s") -> None:
    from venturi.report import tune as report

    format = "json" if flags["as_json"] else "table"
    options.print_answer(format, lambda: report.document(tuned, unit), lambda: report.machine(tuned, unit))


def _scenario(flags: dict[str, Any]) -> Scenario:
    """The scenario whose matrix is searched: a file's or a built-in one's, or one made for a URL."""
    from venturi.cli.run import executed_by
    from venturi.measure.tune import space
    from venturi.plan.layers import Layer, file_layer
    from venturi.plan.load import layer_tree, load

    target = str(flags["target"])
    url = options.target(target) if "://" in target else None
    tree, spelled = layer_tree({name: flags[name] for name in _SPACE} | {"target": url})
    layer = Layer("", tree, flags=spelled)
    if url is None:
        return load([file_layer(target), layer])

    def note(level: str, text: str) -> None:
        if not (flags["quiet"] or flags["as_json"]):
            say(level, text)

    with executed_by(flags["executor"]) as engine:
        return space(tree, layer, engine, note, flags["out"])
